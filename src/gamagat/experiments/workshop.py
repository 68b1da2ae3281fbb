"""Makes what a table needs: trained networks, evaluations, transfers; each once, then from the cache."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic
from typing import Any

from torch import nn

from gamagat.attacks.network import OutOfTime
from gamagat.engine.alone import LOCK, alone_in, beside
from gamagat.engine.evaluate import INTERRUPTED
from gamagat.engine.manifest import Manifest, circumstances, write_json
from gamagat.engine.request import EvaluationRequest, Prepared, prepare
from gamagat.engine.results import Evaluation, summarize
from gamagat.engine.run import RESULT, read_run
from gamagat.engine.runtime import choose_device
from gamagat.engine.share import Share
from gamagat.engine.training.card import write_card
from gamagat.engine.training.checkpoint import NAME as CHECKPOINT
from gamagat.engine.training.checkpoint import SOUND
from gamagat.engine.training.run import SELECTED, Listener, TrainingRequest, train
from gamagat.engine.transfer_request import TransferRequest, transfer
from gamagat.engine.watch import Onlooker
from gamagat.errors import DamagedError, ModelError, RunError
from gamagat.experiments.cache import EVALUATED, Cache, read_kept, words_and_weights
from gamagat.experiments.cells import Cell, of_distances, of_share
from gamagat.experiments.clock import Clock
from gamagat.experiments.core import Measure, Network, Slot, Table
from gamagat.experiments.guests import Guests, set_aside
from gamagat.experiments.telling import in_words, own_weights, waiting
from gamagat.experiments.words import without_way
from gamagat.models.loading.card import read_card

CARRIED = ("count", "of", "seconds", "made", "source")  # what is kept of a transfer


@dataclass(slots=True)
class Workshop:
    """Everything that runs a network."""

    cache: Cache
    device: str = "auto"
    batch_size: int | None = None
    clock: Clock = field(default_factory=Clock)
    # Whom trainings and attacks talk to, each only while it runs: two bars would draw over each other.
    listening: Callable[[], AbstractContextManager[Listener]] = lambda: nullcontext(Listener())
    looking: Callable[[], AbstractContextManager[Onlooker]] = lambda: nullcontext(Onlooker())
    command: str = ""  # that asked for it
    changed: Mapping[str, str] = field(default_factory=dict)  # settings of attacks that are not the paper's
    say: Callable[[str], None] = lambda words: None  # what begins
    said: set[str] = field(default_factory=set)
    guests: Guests = field(default_factory=Guests)
    last: tuple[tuple[str, Path | None], nn.Module] | None = None  # the network that was measured last

    def say_once(self, words: str) -> None:
        """What is as true of every table and place."""
        if words not in self.said:
            self.said.add(words)
            self.say(words)

    def trained(self, network: Network) -> Path:
        """The folder of a network, trained if need be."""
        home = self.cache.home(network)
        self.cache.remember(network)
        if network.given and home not in self.guests.met:
            with in_words(network.name, self.device):
                prepared = prepare(self.request(Slot("", "", network, Measure()), None))
                self.guests.meet(network.name, home, prepared, self.say)
        if self.cache.is_trained(network):
            return home
        if (lack := self.cache.lack(network)) is not None:
            raise lack
        self.clock.check()
        with suppress(OSError):  # which the training tells
            home.mkdir(parents=True, exist_ok=True)
        with alone_in(home, waiting(f"trains {network.name}", self.say, self.clock)):
            if not self.cache.is_trained(network):  # by the process that was waited for
                self._train(network, home)
        return home

    def _train(self, network: Network, home: Path) -> None:
        """Train a network in its folder until its card is written."""
        request = TrainingRequest(
            str(network.recipe), network.data, network.model, home, self.cache.data_dir,
            dict(self.cache.options), "linf", network.eps, None, network.seed, self.device,
            self.cache.precision,
        )  # fmt: skip
        self.say(f"training {network.name}")
        with self.listening() as listener, in_words(f"training {network.name}", self.device):
            trained = train(request, self.clock.watched(listener))
        write_card(trained, {})
        for checkpoint in (CHECKPOINT, SOUND):  # twice the network's size each, and of no more use
            (home / checkpoint).unlink(missing_ok=True)

    def known(self, table: Table, slot: Slot) -> Cell | None:
        """The figure of a slot, if it was measured before; one that is damaged was not."""
        try:
            return self._kept(table, slot)
        except DamagedError:
            return None

    def _kept(self, table: Table, slot: Slot) -> Cell | None:
        if not all(self.cache.is_trained(network) for network in slot.networks):
            return None
        place = self.cache.evaluation(slot.network, slot.measure)
        if slot.measure.source is not None:
            content = read_kept(place, CARRIED)
            return None if content is None else self._carried_cell(table, slot, content)
        if not (place / RESULT).is_file():
            return None
        if Manifest.read(place) is None:
            raise DamagedError(f"{place} has lost its manifest")
        result = summarize(read_run(place))
        return None if result.unfinished else self._cell(table, slot, result, place)

    def measured(self, table: Table, slot: Slot) -> Cell:
        """The figure of a slot whose networks are trained, measured if need be."""
        if (cell := self.known(table, slot)) is not None:  # whatever others are about to measure
            return cell
        place = self.cache.evaluation(slot.network, slot.measure)
        with self._alone(slot, place):
            try:
                return self._kept(table, slot) or self._measured(table, slot, place)
            except DamagedError as error:
                aside = set_aside(place, "damaged")
                self.say(f"{error.what}; it is measured again, and what was there is in {aside}")
                return self._measured(table, slot, place)

    def _alone(self, slot: Slot, place: Path) -> AbstractContextManager[None]:
        """One process at a time measures a slot; images for a transfer are made for many at once."""
        source = slot.measure.source
        file = beside(place) if source is None else self.cache.home(source) / LOCK
        what = f"measures {slot.row}, {slot.column}" if source is None else f"makes images on {source.name}"
        with suppress(OSError):  # which whoever writes there tells
            file.parent.mkdir(parents=True, exist_ok=True)
        return alone_in(file, waiting(what, self.say, self.clock))

    def _measured(self, table: Table, slot: Slot, place: Path) -> Cell:
        self.clock.check()
        self.examine(slot)
        self.say(f"measuring {slot.row}, {slot.column}")
        if slot.measure.source is not None:
            return self._carried_cell(table, slot, self._carry_all(table, slot))
        with self.looking() as onlooker, in_words(slot.measure.attack or EVALUATED, self.device):
            result = self._prepared(slot, place).run(onlooker)
        if result.stopped == INTERRUPTED:
            raise KeyboardInterrupt
        if result.stopped:
            raise OutOfTime
        return self._cell(table, slot, result, place)

    def files(self, network: Network) -> tuple[str, Path | None]:
        """The words for a network and its weights, as `gamagat evaluate` takes them."""
        if network.given:
            return words_and_weights(network)
        return network.model, self.cache.home(network) / SELECTED

    def weights_of(self, network: Network) -> dict[str, str]:
        """Which of all trainings of its recipe a network is, where its card says it."""
        folder = network.model if network.given else str(self.cache.home(network))
        card = read_card(folder) if network.weights is None else None
        known = None if card is None else card.get("weights_sha256")
        return {} if known is None else {"weights": str(known)[:16]}

    def request(self, slot: Slot, place: Path | None) -> EvaluationRequest:
        """The evaluation of a slot in words, to be kept in this place."""
        network, measure = slot.network, slot.measure
        model, weights = self.files(network)
        return EvaluationRequest(
            model, weights, network.data, self.cache.data_dir, "test", self.cache.images(network, measure),
            measure.norm, repr(self.cache.eps(network, measure)), (measure.attack or EVALUATED,), 1,
            self.cache.seed, self.batch_size, self.device, place,
            None if math.isinf(self.clock.left) else self.clock.left, self.guests.force,
        )  # fmt: skip

    def examine(self, slot: Slot) -> None:
        """The doctor's look at networks of the user's before this is measured on them."""
        attacked = slot.measure.source or slot.network
        for network in slot.networks:
            if network.given:
                with in_words(network.name, self.device):
                    prepared = prepare(self.request(replace(slot, network=network), None))
                    self.guests.examine(network.name, prepared, self.say_once, network == attacked)

    def _prepared(self, slot: Slot, place: Path) -> Prepared:
        """The evaluation of a slot; on the network of the last one if it is the same, and compiled once."""
        network = slot.network
        with nullcontext() if network.given else own_weights(self.cache.home(network)):
            prepared = prepare(self.request(slot, place))
        if self.last is None or self.last[0] != self.files(slot.network):
            self.last = self.files(slot.network), prepared.model
        return replace(prepared, model=self.last[1])

    def _cell(self, table: Table, slot: Slot, result: Evaluation, place: Path) -> Cell:
        attack = result.attacks[0]
        manifest = Manifest.read(place)
        about = self.about(slot, {} if manifest is None else manifest.made)
        if manifest is not None:  # the same recipe trained again is another network of the same name
            about["weights"] = manifest.weights_sha256[:16]
        if slot.measure.attack is None:
            return of_share(table, slot, result.clean, result.seconds - attack.seconds, about)
        if slot.measure.what == "accuracy":
            return of_share(table, slot, attack.standing, attack.seconds, about)
        if attack.nearest is None:
            raise ModelError(f"{slot.measure.attack} looks for no distances; measure its accuracy")
        return of_distances(table, slot, attack.nearest, attack.seconds, about)

    def _carry_all(self, table: Table, slot: Slot) -> dict[str, Any]:
        """What came out for this slot; it is kept, and with it all that waits for the same images."""
        together = self._alike(table, slot)
        try:
            found = self._carry(together)
        except (ModelError, RunError):  # another network's, perhaps, which is told in its own place
            if together == [slot]:
                raise
            found = self._carry([slot])
        for other, content in found[1:]:
            with suppress(RunError):  # which is told in its own place, too
                self._keep(other, content)
        self._keep(*found[0])
        return found[0][1]

    def _keep(self, slot: Slot, content: Mapping[str, Any]) -> None:
        place = self.cache.evaluation(slot.network, slot.measure)
        with suppress(OSError):  # which writing tells
            place.parent.mkdir(parents=True, exist_ok=True)
        write_json(place, content)

    def _alike(self, table: Table, slot: Slot) -> list[Slot]:
        """This slot, and one for every other network that is there and is to be shown the same images."""
        eps = self.cache.eps(slot.network, slot.measure)
        found = {self.cache.evaluation(slot.network, slot.measure): slot}
        for other in table.slots:
            # The measure names the source, and with it the data.
            if other.measure == slot.measure and self.cache.is_trained(other.network):
                place = self.cache.evaluation(other.network, other.measure)
                if self.cache.eps(other.network, other.measure) == eps and read_kept(place, CARRIED) is None:
                    found.setdefault(place, other)
        return list(found.values())

    def _carry(self, slots: Sequence[Slot]) -> list[tuple[Slot, dict[str, Any]]]:
        """Make the images on the source and judge them on each network."""
        network, measure = slots[0].network, slots[0].measure
        assert measure.source is not None
        assert measure.attack is not None
        (source, weights), targets = self.files(measure.source), [self.files(slot.network) for slot in slots]
        began = monotonic()
        request = TransferRequest(
            source, tuple(words for words, _ in targets), weights, tuple(file for _, file in targets),
            network.data, self.cache.data_dir, "test", self.cache.images(network, measure), measure.norm,
            repr(self.cache.eps(network, measure)), (measure.attack,), self.cache.seed, self.batch_size,
            self.device, force=self.guests.force,
        )  # fmt: skip
        with self.looking() as onlooker, in_words(measure.attack, self.device):
            result = transfer(request, self.clock.onlooker(onlooker))
        made = circumstances(choose_device(self.device), self.batch_size or 0, 1)
        common = {"seconds": (monotonic() - began) / len(slots), "made": made}
        common |= {"source": self.cache.home(measure.source).name}
        shares = list(result.attacks[measure.attack].values())[1:]  # the first is the source's own
        made_on, *hashes = result.weights.values()
        common |= {"source_weights": made_on}
        return [
            (slot, {"count": share.count, "of": share.of, "weights": weights_hash} | common)
            for slot, share, weights_hash in zip(slots, shares, hashes, strict=True)
        ]

    def _carried_cell(self, table: Table, slot: Slot, content: Mapping[str, Any]) -> Cell:
        about = self.about(slot, content["made"]) | {"source": content["source"]}
        about |= {key: content[key][:16] for key in ("weights", "source_weights") if key in content}
        return of_share(table, slot, Share(content["count"], content["of"]), content["seconds"], about)

    def about(self, slot: Slot, made: dict[str, str]) -> dict[str, Any]:
        """All that is needed to measure it again."""
        network, measure, cache = slot.network, slot.measure, self.cache
        return {
            "network": cache.home(network).name,
            "recipe": None if network.given else cache.plan(network).spec,
            "changed": ({} if network.given else dict(cache.options)) | dict(self.changed),
            "model": without_way(network.model),
            "data": network.data,
            "attack": None if measure.attack is None else cache.spelled(network, measure),
            "norm": measure.norm,
            "eps": cache.eps(network, measure),
            "seed": cache.seed,
            "training_seed": network.seed,
            "command": self.command,
            "made": made,
        }
