"""Where trained networks and their evaluations are kept: by what makes them, so that tables share them."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import torch

from gamagat.data.core import Dataset, load_data
from gamagat.data.files import no_downloads
from gamagat.engine.manifest import weights_hash, write_json
from gamagat.engine.plan import plan_attack, read_threat
from gamagat.engine.training.settings import Plan, make_plan
from gamagat.engine.training.splits import split_data
from gamagat.errors import AbsentError, ConfigError, DataError, ModelError, RunError
from gamagat.experiments.core import Measure, Network
from gamagat.experiments.facts import Facts, Training, official
from gamagat.models.core import check_weights, load_model
from gamagat.models.loading.card import NAME as CARD
from gamagat.models.loading.card import read_card

GLIMPSE = 256  # images that tell one data set from another; all of them are compared before training goes on
NOTED = ("family", "count", "seen")  # of training images, in the note of a cache
Found = TypeVar("Found")
EVALUATED = "fgsm:as_published=true"  # what is run where only the clean accuracy is asked for


@dataclass(slots=True)
class Cache:
    """Folders for networks and evaluations below one root."""

    root: Path
    data_dir: Path | None = None
    options: Mapping[str, str] = field(default_factory=dict)  # settings of every training
    n: int | None = None  # the first so many test images
    seed: int = 0  # of the evaluations
    precision: str = "auto"
    fetch: bool = True  # images that are not here; a plan goes by what is known of the official ones
    absent: dict[str, str] = field(default_factory=dict)  # data that was not fetched, and what would be
    _facts: dict[str, Facts | DataError] = field(default_factory=dict)
    _training: dict[str, Training | DataError] = field(default_factory=dict)

    def check(self) -> None:
        """Refuse a root that cannot be a folder."""
        if self.root.exists() and not self.root.is_dir():
            raise ConfigError(f"{self.root} is a file and nothing can be kept in it; give another --cache")

    def facts(self, data: str) -> Facts:
        """Of the test images of one data set."""
        return _looked_up(self._facts, data, self._tested, self.fetch)

    def training(self, data: str) -> Training:
        """Of its training images, which nobody needs for a network that the user brings."""
        return _looked_up(self._training, data, self._trained, self.fetch)

    def _tested(self, data: str) -> Facts:
        try:
            test = load_data(data, "test", self.data_dir)
        except AbsentError as error:
            if (known := official(data)) is None:
                raise
            self.absent[data] = str(error)
            return known[0]
        return Facts(test.preset, test.eps, test.shape, len(test.classes), len(test), _glimpse(test))

    def _trained(self, data: str) -> Training:
        """Of images that are there, or were there once."""
        self.facts(data)  # what is missing altogether is told of the test images
        try:
            train = split_data(data, "train", self.data_dir)
        except DataError as error:
            fetched = official(data) if isinstance(error, AbsentError) else None
            if fetched is not None and fetched[0].seen == self.facts(data).seen:
                self.absent.setdefault(data, str(error))
                return fetched[1]
            known = self._known(data)
            if known is None:
                raise
            return replace(known, absent=error)
        return Training(train.preset or train.name, len(train), _glimpse(train))

    def fingerprint(self, network: Network) -> str:
        """Of the images that make a network, and its figures, what they are."""
        test = {"test": self.facts(network.data).seen}
        return _short(test if network.given else test | {"train": self.training(network.data).seen})

    def remember(self, network: Network) -> None:
        """What its name needs of its training images, for a machine that does not have them."""
        if network.given:
            return
        training = self.training(network.data)
        if training.absent is not None or self._known(network.data) == training:
            return
        place = self._note(network.data)
        with suppress(OSError, RunError):  # a cache that cannot be written to is of use as well
            place.parent.mkdir(parents=True, exist_ok=True)
            write_json(place, {name: getattr(training, name) for name in NOTED})

    def _known(self, data: str) -> Training | None:
        try:
            content = json.loads(self._note(data).read_text())
            return Training(str(content["family"]), int(content["count"]), str(content["seen"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _note(self, data: str) -> Path:
        return self.root / "data" / f"{_slug(data)[:40]}-{self.facts(data).seen[:8]}.json"

    def plan(self, network: Network) -> Plan:
        """The recipe of a network with every setting."""
        if network.recipe is None:
            raise ConfigError(f"there is no recipe for {network.model}; bring the network yourself")
        family = self.training(network.data).family
        return make_plan(network.recipe, family, network.model, **self.options)

    def eps(self, network: Network, measure: Measure | None = None) -> float:
        """The radius that a network is trained for, or measured at."""
        norm, eps = ("linf", None) if measure is None else (measure.norm, measure.eps)
        eps = eps or (network.eps if norm == "linf" else None)
        return read_threat(norm, eps, dict(self.facts(network.data).eps)).eps

    def home(self, network: Network) -> Path:
        """The folder of a network."""
        if network.given:
            return self._given_home(network)
        plan = self.plan(network)
        settings = plan.written() | {
            "recipe": plan.name,
            "model": network.model,
            "data": network.data,
            "fingerprint": self.fingerprint(network),
            "eps": self.eps(network),
            "seed": network.seed,
            "precision": self.precision,
        }
        name = _slug(plan.name, network.model, network.data)
        return self.root / "networks" / f"{name}-{_short(settings)}"

    def _given_home(self, network: Network) -> Path:
        model, weights = words_and_weights(network)
        if weights is None:
            facts = self.facts(network.data)
            content = weights_hash(load_model(model, None, classes=facts.classes, channels=facts.shape[0]))
        else:
            content = hashlib.sha256(weights.read_bytes()).hexdigest()
        name = _slug("yours", Path(model).name, network.data)
        return self.root / "networks" / f"{name}-{_short({'model': model, 'weights': content})}"

    def is_trained(self, network: Network) -> bool:
        """Whether there is nothing left to train."""
        if network.recipe is None or network.given:
            return network.given
        return (self.home(network) / CARD).is_file()

    def lack(self, network: Network) -> DataError | None:
        """Why a network cannot be trained, if it has to be."""
        return None if self.is_trained(network) else self.training(network.data).absent

    def images(self, network: Network, measure: Measure) -> int:
        """How many test images are used."""
        given = [count for count in (self.n, measure.n) if count is not None]
        return min([self.facts(network.data).test, *given])

    def spelled(self, network: Network, measure: Measure) -> str:
        """The attack with every setting."""
        return plan_attack(measure.attack or EVALUATED, self.facts(network.data).preset).spec

    def evaluation(self, network: Network, measure: Measure) -> Path:
        """The folder of an evaluation, below its network; of a transfer, the file."""
        settings = {
            "attack": self.spelled(network, measure),
            "norm": measure.norm,
            "eps": self.eps(network, measure),
            "n": self.images(network, measure),
            "seed": self.seed,
            "fingerprint": self.fingerprint(network),
            "source": None if measure.source is None else self.home(measure.source).name,
        }
        name = _slug((measure.attack or EVALUATED).partition(":")[0])
        if measure.source is None:
            return self.home(network) / "evaluations" / f"{name}-{_short(settings)}"
        return self.home(network) / "evaluations" / f"transfer-{name}-{_short(settings)}.json"

    def drawing(self, network: Network, measure: Measure, plot: str) -> Path:
        """The file of what a plot shows of a network."""
        words = {"plot": plot, "evaluation": self.evaluation(network, measure).name}
        return self.home(network) / "drawings" / f"{_slug(plot.partition(':')[0])}-{_short(words)}.json"


def read_kept(place: Path, names: Sequence[str]) -> dict[str, Any] | None:
    """What is kept in a file of these names; nothing if it is damaged, and to be made again."""
    try:
        content = json.loads(place.read_text())
        return content if isinstance(content, dict) and all(name in content for name in names) else None
    except (OSError, ValueError, TypeError):
        return None


def _looked_up(
    known: dict[str, Found | DataError], data: str, look: Callable[[str], Found], fetch: bool
) -> Found:
    """What is known of a data set; one that is missing is looked for once."""
    if data not in known:
        try:
            with nullcontext() if fetch else no_downloads():
                known[data] = look(data)
        except DataError as error:
            known[data] = error
    found = known[data]
    if isinstance(found, DataError):
        raise found
    return found


def words_and_weights(network: Network) -> tuple[str, Path | None]:
    """The model and the file of weights of a network that the user brings."""
    card = read_card(network.model) if network.weights is None else None
    if card is not None:
        return card.model, card.weights
    if network.weights is None:
        try:
            check_weights(network.model)
        except ModelError:
            raise ConfigError(
                f"{network.model!r} has no weights; write MODEL@FILE, or give the folder of a training"
            ) from None
        return network.model, None
    weights = Path(network.weights).expanduser()
    if not weights.is_file():
        raise ConfigError(f"there is no file {weights}; write MODEL@FILE with weights that are there")
    return network.model, weights


def _glimpse(data: Dataset) -> str:
    """All labels and ids, and the first images: to read every photograph for a name would take too long."""
    total = hashlib.sha256(f"{tuple(data.shape)} {len(data)}".encode())
    total.update(data.labels.numpy().tobytes())
    total.update(data.ids.numpy().tobytes())
    total.update(data.read(torch.arange(min(GLIMPSE, len(data)))).numpy().tobytes())
    return total.hexdigest()


def _short(settings: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:8]


def _slug(*words: str) -> str:
    return re.sub(r"[^A-Za-z0-9.]+", "-", "-".join(words)).strip("-").lower()
