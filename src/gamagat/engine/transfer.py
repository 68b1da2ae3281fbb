"""Black-box transfer: images made on one network, judged on others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gamagat.attacks.combine import passes, thorough
from gamagat.attacks.core import Attack
from gamagat.attacks.network import Network
from gamagat.data.core import Dataset
from gamagat.engine.again import until_it_works
from gamagat.engine.arena import SLACK
from gamagat.engine.checks import check_door
from gamagat.engine.judge import judge, predict
from gamagat.engine.manifest import weights_hash
from gamagat.engine.plan import PlannedAttack
from gamagat.engine.quick.agreement import SAMPLE
from gamagat.engine.quick.network import Quick, check_precision, quickened
from gamagat.engine.runtime import (
    borrowed,
    fitted,
    held_memory,
    products_in,
)
from gamagat.engine.share import Share
from gamagat.engine.watch import Onlooker, Watch
from gamagat.errors import ConfigError, DataError, ModelError
from gamagat.pieces.noise import Noise
from gamagat.pieces.threat import LINF, ThreatModel
from gamagat.pieces.types import Images, Labels, Mask, Model

SOURCE = " (source)"  # behind its name in tables


@dataclass(frozen=True, slots=True)
class Transfer:
    """What each network gets right: untouched, and on the images that each attack made on the source."""

    source: str
    data: str
    norm: str
    eps: float
    clean: dict[str, Share]  # by network, the source first
    attacks: dict[str, dict[str, Share]]  # by attack, then by network
    weights: dict[str, str]  # a fingerprint of each network's

    def as_json(self) -> dict[str, Any]:
        """Accuracies in percent."""

        def known(shares: Mapping[str, Share]) -> dict[str, float | None]:
            return {name: share.known for name, share in shares.items()}

        return {
            "source": self.source,
            "data": self.data,
            "n": next(iter(self.clean.values())).of,
            "norm": self.norm,
            "eps": self.eps,
            "weights_sha256": self.weights,
            "clean_accuracy": known(self.clean),
            "attacks": [{"name": name, "accuracy": known(left)} for name, left in self.attacks.items()],
        }


def called(name: str, source: str) -> str:
    """A network in words that say what it is there for."""
    return f"source {name.removesuffix(SOURCE)}" if name == source else f"target {name}"


@contextmanager
def naming(network: str) -> Iterator[None]:
    """What goes wrong in here is said to be this network's, its weights as the command line calls them."""
    try:
        yield
    except (ConfigError, DataError, ModelError) as error:
        words = str(error).replace("--weights", f"--{network.partition(' ')[0]}-weights")
        raise type(error)(f"{network}: {words}") from error


def run_transfer(
    networks: Mapping[str, Model],
    data: Dataset,
    threat: ThreatModel,
    plan: Sequence[PlannedAttack],
    device: torch.device,
    batch_size: int,
    seed: int = 0,
    onlooker: Onlooker = Onlooker(),
    precision: str = "auto",
    force: bool = False,
) -> Transfer:
    """The first network is the source; attacks see a stand-in for it, the judge every network itself."""
    precision = check_precision(precision, device)
    source = next(iter(networks))
    arena = Arena(networks, source, data, threat, device, batch_size, batch_size, seed, onlooker)
    with ExitStack() as modes:
        modes.enter_context(products_in(tf32=device.type == "cuda" and precision != "fp32"))
        modes.enter_context(held_memory(device))
        for model in networks.values():
            modes.enter_context(borrowed(model))
        clean = {name: _right(arena, name, force) for name in networks}
        arena.quick = _stand_in(arena, plan, precision)
        left = {attack.name: _left(arena, attack, clean) for attack in plan}
    weights = {name: weights_hash(model) for name, model in networks.items()}
    return Transfer(source, data.name, threat.norm.name, threat.eps, _shares(clean), left, weights)


@dataclass(slots=True)
class Arena:
    """All that stays the same from one attack to the next; the width shrinks when it must."""

    networks: Mapping[str, Model]
    source: str
    data: Dataset
    threat: ThreatModel
    device: torch.device
    batch_size: int
    width: int  # images that a network takes at a time
    seed: int
    onlooker: Onlooker
    quick: Quick | None = None  # what attacks see in place of the source

    def network(self, name: str) -> Network:
        return Network(fitted(self.networks[name]), self.width)

    def naming(self, name: str) -> AbstractContextManager[None]:
        """What goes wrong in here is said to be this network's."""
        return naming(called(name, self.source))

    def attacked(self, watch: Watch) -> Network:
        """The source, or what stands in for it; whether it is fooled the judge is asked, as everywhere."""
        source = self.network(self.source)
        model, slack = source.model, 0.0
        if self.quick is not None:
            model, slack = self.quick.model, SLACK * self.quick.error

        def look(_: Model, images: Images) -> Labels:
            return predict(source, images)

        return Network(model, self.width, self.device.type == "cuda", seen=watch.seen, look=look, slack=slack)

    def parts(self) -> Iterator[tuple[Tensor, Images, Labels]]:
        """Positions, images and labels, batch after batch."""
        for part in torch.split(torch.arange(len(self.data)), self.batch_size):
            yield part, *self.data.batch(part, self.device)

    def made(self, name: str, attack: Attack) -> Iterator[tuple[Tensor, Images, Images, Labels]]:
        """Positions, adversarial images, images and labels.

        Every image goes all the way, also after it has fooled the source: one that barely does means little
        to another network.
        """
        watch = Watch(self.onlooker, name, len(self.data), passes(attack))
        for part, x, y in self.parts():
            noise = Noise.for_images(self.data.ids[part].to(self.device), self.seed)
            with self.naming(self.source):
                images = self._images(attack, watch, x, y, noise)
            watch.end(len(part))
            yield part, images, x, y

    def _images(self, attack: Attack, watch: Watch, x: Images, y: Labels, noise: Noise) -> Images:
        """What the attack makes of these images."""

        def attempt() -> Images:
            watch.begin(len(x))
            quick = self.quick is not None and self.threat.norm is LINF
            start = x.contiguous(memory_format=torch.channels_last) if quick else x  # as stand-ins want them
            return thorough(attack)(self.attacked(watch), start, y, self.threat, noise).images.float()

        return until_it_works(self, attempt)


def _stand_in(arena: Arena, plan: Sequence[PlannedAttack], precision: str) -> Quick | None:
    """What attacks see in place of the source, chosen by a look at the first images."""
    source = arena.networks[arena.source]
    sample, _ = arena.data.batch(torch.arange(min(SAMPLE, len(arena.data), arena.width)), arena.device)
    work = len(arena.data) * sum(passes(run) for attack in plan for _, run in attack.runs)
    return quickened(fitted(source), precision, sample, work, arena.onlooker.say)


def _right(arena: Arena, name: str, force: bool) -> Mask:
    """Which images a network gets right untouched."""
    network = arena.network(name)
    with arena.naming(name):
        check_door(network, arena.data, arena.device, force)
        return torch.cat([(predict(network, x) == y).cpu() for _, x, y in arena.parts()])


def _left(arena: Arena, attack: PlannedAttack, clean: Mapping[str, Mask]) -> dict[str, Share]:
    """What is left standing of each network after all runs of one attack."""
    standing = {name: right.clone() for name, right in clean.items()}
    for entry, run in attack.runs:
        for part, images, x, y in arena.made(entry, run):
            for name in arena.networks:
                with arena.naming(name):
                    fooled = judge(arena.network(name), images, x, y, arena.threat).fooled
                standing[name][part] &= ~fooled.cpu()
    return _shares(standing)


def _shares(standing: Mapping[str, Mask]) -> dict[str, Share]:
    return {name: Share(int(mask.sum()), len(mask)) for name, mask in standing.items()}
