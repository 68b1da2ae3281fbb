"""Loss surfaces: the loss around an image, along the gradient's sign and a direction orthogonal to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from gamagat.attacks.core import HUGE, check_options
from gamagat.attacks.network import Network
from gamagat.engine.request import Prepared
from gamagat.engine.runtime import fitted
from gamagat.engine.traces import at_the_door, batches
from gamagat.engine.watch import Onlooker, Watch
from gamagat.errors import ConfigError, unknown
from gamagat.pieces.gradients import Objective, backprop, logits_of
from gamagat.pieces.losses import (
    Loss,
    View,
    cross_entropy,
    guided,
    logit_margin,
    probability_margin,
)
from gamagat.pieces.noise import Noise
from gamagat.pieces.schedules import constant
from gamagat.pieces.threat import LINF, ThreatModel
from gamagat.pieces.trees import lift
from gamagat.pieces.types import Images, Labels, Model, PerExample, Schedule, Scores

MARGIN = "logit margin"
ACROSS = -7  # the tag of the random numbers that the orthogonal direction is made of

LOSSES: Mapping[str, Callable[[float], Loss]] = {
    "ce": lambda weight: cross_entropy,
    "margin": lambda weight: probability_margin,
    "gama": lambda weight: guided(probability_margin, constant(weight)),
}


@dataclass(frozen=True, slots=True)
class Surface:
    """The mean loss of images at x + along * g + across * g_perp; a row for each `across`."""

    loss: str
    along: tuple[float, ...]  # in units of eps, as `across`
    across: tuple[float, ...]
    values: tuple[tuple[float, ...], ...]
    margin: tuple[tuple[float, ...], ...]  # the logit margin: positive where another class wins


@dataclass(frozen=True, slots=True)
class Window:
    """Which part of the surface is looked at, and how closely."""

    reach: float = 1.0  # how far each way, in units of eps
    points: int = 31  # on each axis
    clip: bool = False  # whether pixels stay in [0, 1]; the paper's formula does not say so

    def __post_init__(self) -> None:
        if not 3 <= self.points <= 501 or not 0 < self.reach < float("inf"):
            raise ConfigError(
                f"a surface needs 3 to 501 points and a positive reach, got points={self.points}, "
                f"reach={self.reach:g}"
            )

    def ticks(self) -> Tensor:
        return torch.linspace(-self.reach, self.reach, self.points, dtype=torch.float64)


USUAL = Window()


def orthogonal(direction: Images, noise: Noise, threat: ThreatModel) -> Images:
    """A random direction that is exactly orthogonal to this one, as long as it in the norm.

    In linf it is one of signs: it agrees with the direction in half of the pixels, drawn at random, and
    disagrees in the other half. An odd pixel is left alone.
    """
    if threat.norm is not LINF:
        return _gram_schmidt(direction, noise.signs(direction), threat)
    moved = (direction != 0).flatten(1)
    # Pixels that the gradient does not touch come last, in an order of their own.
    order = torch.where(moved, noise.uniform(direction).flatten(1), torch.inf).argsort(1).argsort(1)
    half = moved.sum(1, keepdim=True) // 2
    agree = (order < half).to(direction.dtype) - ((order >= half) & (order < 2 * half)).to(direction.dtype)
    free = noise.fold(0).signs(direction).flatten(1)
    return torch.where(moved, agree * direction.flatten(1), free).view_as(direction)


def _gram_schmidt(direction: Images, other: Images, threat: ThreatModel) -> Images:
    overlap = (direction * other).flatten(1).sum(1) / direction.flatten(1).square().sum(1).clamp_min(1e-30)
    rest = other - lift(overlap, direction) * direction
    return rest / lift(threat.norm.size(rest), rest)


def directions(
    model: Model, x: Images, y: Labels, threat: ThreatModel, noise: Noise
) -> tuple[Images, Images]:
    """The steepest way up the cross-entropy at the image (in linf the gradient's sign), and one across it."""

    def view(logits: Scores) -> View:
        return View(logits, y, _at_once(y))

    objective = Objective(
        lambda logits: cross_entropy.value(view(logits)), lambda logits: cross_entropy.slope(view(logits))
    )
    up = threat.norm.steepest(backprop.read(model, x, objective, noise).grad)
    return up, orthogonal(up, noise.fold(ACROSS), threat)


def _at_once(like: Tensor) -> Callable[[Schedule], PerExample]:
    """Schedules as they are at the first step."""
    return lambda schedule: torch.full((len(like),), schedule(0), device=like.device)


def surfaces(
    prepared: Prepared,
    losses: Sequence[str] = ("ce", "gama"),
    weight: float = 25.0,
    window: Window = USUAL,
    onlooker: Onlooker = Onlooker(),
) -> list[Surface]:
    """The surfaces of these losses, means over all images of the data; `weight` is GAMA's lambda."""
    chosen = _chosen(losses, weight)
    watch = Watch(onlooker, "surface", len(prepared.data), window.points**2 + 2)
    network = Network(fitted(prepared.model), prepared.batch_size, seen=watch.seen)
    total = {name: torch.zeros(window.points, window.points, dtype=torch.float64) for name in chosen}
    with at_the_door(prepared):
        for x, y, noise in batches(prepared, watch):
            for view in _views(network, x, y, prepared.threat, noise, window):
                for name, loss in chosen.items():
                    total[name] += loss.value(view).double().cpu().view_as(total[name])
    ticks = tuple(window.ticks().tolist())
    mean = {name: _rows(sums / len(prepared.data)) for name, sums in total.items()}
    return [Surface(name, ticks, ticks, mean[name], mean[MARGIN]) for name in losses]


def looking_at(prepared: Prepared, first: int, count: int = 1) -> Prepared:
    """The same for some images only, counted from the first of the data, which is image 0."""
    there = len(prepared.data)
    if first < 0 or count < 1 or first + count > there:
        raise ConfigError(
            f"image={first},images={count} is not to be had: {prepared.data.name} has {there} images, "
            f"numbered 0 to {there - 1}"
        )
    return replace(prepared, data=prepared.data.take(torch.arange(first, first + count)))


def _chosen(names: Sequence[str], weight: float) -> dict[str, Loss]:
    """The losses of these names, and the logit margin, which knows where another class wins."""
    check_options(weight=(weight, 0.0, HUGE))
    if not names or len(set(names)) < len(names):
        raise ConfigError(
            f"a surface needs losses of {', '.join(LOSSES)}, each once, got {'+'.join(names) or 'none'}"
        )
    for name in names:
        if name not in LOSSES:
            raise unknown("loss of a surface", name, LOSSES)
    return {name: LOSSES[name](weight) for name in names} | {MARGIN: logit_margin}


@torch.no_grad()
def _views(
    network: Network, x: Images, y: Labels, threat: ThreatModel, noise: Noise, window: Window
) -> Iterator[View]:
    """What the network says at every point of the window, image after image."""
    up, across = directions(network, x, y, threat, noise)
    ticks = window.ticks().to(x)[:, None, None, None]
    for image, label, ahead, aside in zip(x, y, up, across, strict=True):
        # Row by row, so that never more than one row of images is in memory.
        rows = (image + threat.eps * (ticks * ahead + row * aside) for row in ticks)
        logits = torch.cat(
            [logits_of(network, _clipped(row, threat) if window.clip else row) for row in rows]
        )
        labels = label.expand(len(logits))
        yield View(
            logits, labels, _at_once(labels), reference=logits_of(network, image[None]).expand_as(logits)
        )


def _clipped(images: Images, threat: ThreatModel) -> Images:
    return images.clamp(threat.low, threat.high)


def _rows(values: Tensor) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(row) for row in values.tolist())
