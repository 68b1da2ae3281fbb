"""Black-box transfer: images made on one network, judged on others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gamagat.attacks.combine import passes, thorough
from gamagat.attacks.core import Attack
from gamagat.attacks.network import Network
from gamagat.data.core import Dataset, load_data
from gamagat.engine.checks import check_batch_size, check_door
from gamagat.engine.judge import judge, predict
from gamagat.engine.plan import PlannedAttack, plan_attacks, read_threat
from gamagat.engine.runtime import borrowed, choose_device, default_batch_size, fitted
from gamagat.engine.share import Share
from gamagat.engine.watch import Onlooker, Watch
from gamagat.errors import ConfigError
from gamagat.models.core import check_weights, load_model
from gamagat.pieces.noise import Noise
from gamagat.pieces.threat import ThreatModel, norm_named
from gamagat.pieces.types import Images, Labels, Mask, Model


@dataclass(frozen=True, slots=True)
class TransferRequest:
    """What a user asks for; None leaves the choice to the data set or the machine."""

    source: str
    targets: tuple[str, ...]
    source_weights: Path | None = None
    target_weights: tuple[Path, ...] = ()
    data: str = "digits"
    data_dir: Path | None = None
    split: str = "test"
    n: int | None = None
    norm: str = "linf"
    eps: str | None = None
    attacks: tuple[str, ...] = ("fgsm", "pgd:steps=7")
    seed: int = 0
    batch_size: int | None = None
    device: str = "auto"


@dataclass(frozen=True, slots=True)
class Transfer:
    """What each network gets right: untouched, and on the images that each attack made on the source."""

    source: str
    data: str
    norm: str
    eps: float
    clean: dict[str, Share]  # by network, the source first
    attacks: dict[str, dict[str, Share]]  # by attack, then by network

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
            "clean_accuracy": known(self.clean),
            "attacks": [{"name": name, "accuracy": known(left)} for name, left in self.attacks.items()],
        }


def transfer(request: TransferRequest, onlooker: Onlooker = Onlooker()) -> Transfer:
    """Find everything, make the images on the source and judge them on every network."""
    check_batch_size(request.batch_size)
    device = choose_device(request.device)
    plan_attacks(request.attacks, None, norm=norm_named(request.norm))
    files = _weights(request)
    data = load_data(request.data, request.split, request.data_dir).head(request.n)
    threat = read_threat(request.norm, request.eps, dict(data.eps))
    plan = plan_attacks(request.attacks, data.preset, norm=threat.norm)
    names = _names(request.source, request.targets)
    models = [
        load_model(spec, file, classes=len(data.classes), channels=data.shape[0]).to(device)
        for spec, file in zip((request.source, *request.targets), files, strict=True)
    ]
    size = request.batch_size or default_batch_size(data.shape, device)
    networks = dict(zip(names, models, strict=True))
    return run_transfer(networks, data, threat, plan, device, size, request.seed, onlooker)


def _weights(request: TransferRequest) -> list[Path | None]:
    """One file, or none, for the source and for each target."""
    given = request.target_weights
    if given and len(given) != len(request.targets):
        raise ConfigError(
            f"--target-weights is given {len(given)} times for {len(request.targets)} targets; "
            "give it once for each --target, in the same order, or not at all"
        )
    files = [request.source_weights, *(given or [None] * len(request.targets))]
    for spec, file in zip((request.source, *request.targets), files, strict=True):
        if file is None:
            check_weights(spec)
    return files


def _names(source: str, targets: Sequence[str]) -> list[str]:
    """What the networks are called; the same one with other weights gets a number."""
    if not targets:
        raise ConfigError("a transfer needs at least one network to judge the images; give --target MODEL")
    return [f"{source} (source)"] + [
        name if targets.count(name) == 1 else f"{name} #{targets[: place + 1].count(name)}"
        for place, name in enumerate(targets)
    ]


def run_transfer(
    networks: Mapping[str, Model],
    data: Dataset,
    threat: ThreatModel,
    plan: Sequence[PlannedAttack],
    device: torch.device,
    batch_size: int,
    seed: int = 0,
    onlooker: Onlooker = Onlooker(),
) -> Transfer:
    """The first network is the source."""
    source = next(iter(networks))
    arena = Arena(networks, source, data, threat, device, batch_size, seed, onlooker)
    with ExitStack() as modes:
        for model in networks.values():
            modes.enter_context(borrowed(model))
        clean = {name: _right(arena, name) for name in networks}
        left = {attack.name: _left(arena, attack, clean) for attack in plan}
    return Transfer(source, data.name, threat.norm.name, threat.eps, _shares(clean), left)


@dataclass(frozen=True, slots=True)
class Arena:
    """All that stays the same from one attack to the next."""

    networks: Mapping[str, Model]
    source: str
    data: Dataset
    threat: ThreatModel
    device: torch.device
    batch_size: int
    seed: int
    onlooker: Onlooker

    def network(self, name: str, watch: Watch | None = None) -> Network:
        seen = None if watch is None else watch.seen
        return Network(fitted(self.networks[name]), self.batch_size, seen=seen)

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
            watch.begin(len(part))
            noise = Noise.for_images(self.data.ids[part].to(self.device), self.seed)
            outcome = thorough(attack)(self.network(self.source, watch), x, y, self.threat, noise)
            watch.end(len(part))
            yield part, outcome.images.float(), x, y


def _right(arena: Arena, name: str) -> Mask:
    """Which images a network gets right untouched."""
    network = arena.network(name)
    check_door(network, arena.data, arena.device, force=False)
    return torch.cat([(predict(network, x) == y).cpu() for _, x, y in arena.parts()])


def _left(arena: Arena, attack: PlannedAttack, clean: Mapping[str, Mask]) -> dict[str, Share]:
    """What is left standing of each network after all runs of one attack."""
    standing = {name: right.clone() for name, right in clean.items()}
    for entry, run in attack.runs:
        for part, images, x, y in arena.made(entry, run):
            for name in arena.networks:
                fooled = judge(arena.network(name), images, x, y, arena.threat).fooled
                standing[name][part] &= ~fooled.cpu()
    return _shares(standing)


def _shares(standing: Mapping[str, Mask]) -> dict[str, Share]:
    return {name: Share(int(mask.sum()), len(mask)) for name, mask in standing.items()}
