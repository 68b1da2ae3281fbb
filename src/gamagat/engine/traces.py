"""What becomes of the loss: on the images of an attack against eps, and along the steps of an attack."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import sqrt
from typing import NamedTuple

import torch
import torch.nn.functional as F

from gamagat.attacks.combine import passes, thorough
from gamagat.attacks.core import IterativeAttack
from gamagat.attacks.network import Network
from gamagat.engine.checks import check_door
from gamagat.engine.plan import PlannedAttack
from gamagat.engine.request import Prepared
from gamagat.engine.runtime import borrowed, fitted, full_precision
from gamagat.engine.share import Z95, Share
from gamagat.engine.sweeps import radii_with_zero
from gamagat.engine.watch import Onlooker, Watch
from gamagat.errors import ConfigError
from gamagat.pieces.gradients import logits_of
from gamagat.pieces.noise import Noise
from gamagat.pieces.schedules import Timetable
from gamagat.pieces.types import Images, Labels, Mask, Model, PerExample, Scores


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean over images, and its standard error."""

    value: float
    error: float

    @classmethod
    def of(cls, values: PerExample) -> Mean:
        values = values.double()
        spread = float(values.std()) if len(values) > 1 else 0.0
        return cls(float(values.mean()), spread / sqrt(len(values)))

    @property
    def ci95(self) -> tuple[float, float]:
        return self.value - Z95 * self.error, self.value + Z95 * self.error


@dataclass(frozen=True, slots=True)
class LossCurve:
    """The mean cross-entropy on the images that an attack makes at each eps."""

    attack: str
    points: tuple[tuple[float, Mean], ...]


@dataclass(frozen=True, slots=True)
class Moment:
    """All images after so many steps of an attack."""

    step: int
    right: Share  # classified correctly as they are at this step
    standing: Share  # right untouched and at every step so far
    loss: Mean  # the cross-entropy


@dataclass(frozen=True, slots=True)
class Trace:
    """An attack step by step; no image leaves early."""

    attack: str
    moments: tuple[Moment, ...]


def loss_curves(
    prepared: Prepared, radii: Sequence[float] = (), onlooker: Onlooker = Onlooker()
) -> list[LossCurve]:
    """The mean cross-entropy against eps, for every attack of the plan; every image goes all the way."""
    chosen = radii_with_zero(prepared.threat, radii)

    def curve(attack: PlannedAttack) -> LossCurve:
        losses = [_losses(prepared, attack, eps, onlooker) for eps in chosen]
        return LossCurve(attack.name, tuple(zip(chosen, map(Mean.of, losses), strict=True)))

    with at_the_door(prepared):
        return [curve(attack) for attack in prepared.plan]


def _losses(prepared: Prepared, planned: PlannedAttack, eps: float, onlooker: Onlooker) -> PerExample:
    """The cross-entropy of each image at one eps; of several runs the largest."""
    runs = [thorough(run) for _, run in planned.runs] if eps else []
    what = f"{planned.name}, eps {eps:.4g}"
    watch = Watch(onlooker, what, len(prepared.data), sum(passes(run) + 1 for run in runs))
    network = Network(fitted(prepared.model), prepared.batch_size, seen=watch.seen)
    found = []
    for x, y, noise in batches(prepared, watch):
        threat = replace(prepared.threat, eps=eps or prepared.threat.eps)
        made = [run(network, x, y, threat, noise).images for run in runs] or [x]
        losses = [F.cross_entropy(_logits(network, images), y, reduction="none") for images in made]
        found.append(torch.stack(losses).amax(0).cpu())
    return torch.cat(found)


def traces(prepared: Prepared, onlooker: Onlooker = Onlooker()) -> list[Trace]:
    """Accuracy and cross-entropy at the start and after each step, for every attack of the plan."""
    single = {planned.name: _single(planned) for planned in prepared.plan}
    with at_the_door(prepared):
        return [Trace(name, _moments(prepared, name, attack, onlooker)) for name, attack in single.items()]


def _single(planned: PlannedAttack) -> IterativeAttack:
    """The one walk that an attack makes; one that makes several, or none, cannot be followed."""
    (_, attack), *others = planned.runs
    if others or not isinstance(attack, IterativeAttack):
        raise ConfigError(
            f"cannot follow {planned.name!r} step by step: it is not one run of one gradient attack; "
            "give one such as gama-pgd, gama-fw, pgd or apgd-ce, without restarts"
        )
    return attack


def _moments(
    prepared: Prepared, name: str, attack: IterativeAttack, onlooker: Onlooker
) -> tuple[Moment, ...]:
    watch = Watch(onlooker, name, len(prepared.data), attack.passes + attack.steps + 2)
    network = Network(fitted(prepared.model), prepared.batch_size, seen=watch.seen)
    walks = [list(_walked(network, attack, prepared, *part)) for part in batches(prepared, watch)]
    return tuple(_moment(step, parts) for step, parts in enumerate(zip(*walks, strict=True)))


class Step(NamedTuple):
    """A batch after so many steps."""

    right: Mask
    standing: Mask
    losses: PerExample


def _walked(
    network: Network, attack: IterativeAttack, prepared: Prepared, x: Images, y: Labels, noise: Noise
) -> Iterator[Step]:
    """The batch at its start and after each step of the attack."""
    threat, times = prepared.threat, Timetable(attack.steps, x)
    walk = attack.begin(network, torch.arange(len(x), device=x.device), x, y, threat, noise, None)
    standing = _logits(network, x).argmax(1) == y
    for step in range(attack.steps + 1):
        if step:
            walk, _ = attack.advance(network, walk, threat, times)
        logits = _logits(network, (x + walk.delta).clamp(threat.low, threat.high))
        right = logits.argmax(1) == y
        standing = standing & right
        yield Step(right.cpu(), standing.cpu(), F.cross_entropy(logits, y, reduction="none").cpu())


def _moment(step: int, parts: Sequence[Step]) -> Moment:
    right, standing, losses = (torch.cat(kind) for kind in zip(*parts, strict=True))
    return Moment(
        step,
        Share(int(right.sum()), len(right)),
        Share(int(standing.sum()), len(standing)),
        Mean.of(losses),
    )


@contextmanager
def at_the_door(prepared: Prepared) -> Iterator[None]:
    """The network borrowed and looked at, as before any evaluation."""
    with borrowed(prepared.model):
        check_door(fitted(prepared.model), prepared.data, prepared.device, prepared.request.force)
        yield


def batches(prepared: Prepared, watch: Watch) -> Iterator[tuple[Images, Labels, Noise]]:
    """Images, labels and noise, batch after batch, under the eyes of the watch."""
    data, device = prepared.data, prepared.device
    for part in torch.split(torch.arange(len(data)), prepared.batch_size):
        watch.begin(len(part))
        noise = Noise.for_images(data.ids[part].to(device), prepared.request.seed)
        yield *data.batch(part, device), noise
        watch.end(len(part))


@torch.no_grad()
def _logits(model: Model, images: Images) -> Scores:
    """What the judge would see."""
    with full_precision():
        return logits_of(model, images)
