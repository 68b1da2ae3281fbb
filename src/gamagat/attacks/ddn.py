"""DDN (Rony et al., 2019): the direction of the perturbation is learnt, its norm grows and shrinks by itself.

What it returns may lie outside the threat model: then this is the nearest adversarial image it has seen.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, NamedTuple

import torch

from gamagat.attacks.core import ATTACKS, HUGE, L2_ONLY, MINIMUM_NORM, TINY, Attack, check_options
from gamagat.attacks.lanes import News, in_lanes
from gamagat.attacks.nearest import Nearest, fools, looked
from gamagat.attacks.outcome import Outcome
from gamagat.errors import ConfigError
from gamagat.pieces.gradients import Objective, backprop
from gamagat.pieces.losses import Slope, View, cross_entropy
from gamagat.pieces.noise import Noise
from gamagat.pieces.schedules import Timetable, cosine
from gamagat.pieces.starts import Start, at_image, surface
from gamagat.pieces.threat import L2, ThreatModel
from gamagat.pieces.trees import lift, pick, rows
from gamagat.pieces.types import Counts, Images, Labels, Mask, Model, PerExample, Schedule, Scores


class Walk(NamedTuple):
    """A batch on its way: a tree with one row per image, so that any image can leave at any step."""

    place: Labels  # where in the caller's batch the image was
    x: Images
    y: Labels
    target: Labels | None
    keys: Labels  # of the random numbers of the image's next step
    point: Images
    fooled: Mask  # whether the point is adversarial; a start elsewhere is not asked
    norm: PerExample  # of the perturbation, before it was clipped and rounded
    nearest: Nearest
    step: Counts
    looks: Counts  # forward passes spent on looking where steps led


@dataclass(frozen=True, slots=True)
class DecoupledAttack:
    """Turn the perturbation along the gradient, and make it shorter where it fools and longer where not.

    With a target the target's cross-entropy falls, else the label's rises. Images are rounded to `levels`
    grey levels at every step, or not at all where that is 0.
    """

    steps: int
    init_norm: float = 1.0
    gamma: float = 0.05
    levels: int = 256
    start: Start = at_image

    delicate: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ConfigError(f"an attack needs at least one step, got steps={self.steps}")
        if self.levels < 2 and self.levels != 0:
            raise ConfigError(f"levels must be at least 2, or 0 for no rounding, got {self.levels}")
        check_options(init_norm=(self.init_norm, TINY, HUGE), gamma=(self.gamma, 0.0, 0.99))

    @property
    def passes(self) -> int:
        """How often an image may pass forward, but for questions to the judge: once, and twice a step."""
        return 1 + 2 * self.steps

    def gradients(self, classes: int) -> int:
        """How many gradients an image may cost."""
        return self.steps

    def again(self) -> DecoupledAttack:
        """The attack as it begins again: with a perturbation of the first norm, in any direction."""
        return replace(self, start=_of_size(self.init_norm))

    def __call__(
        self,
        model: Model,
        x: Images,
        y: Labels,
        threat: ThreatModel,
        noise: Noise,
        target: Labels | None = None,
    ) -> Outcome:
        times, rate = Timetable(self.steps, x), cosine(1.0, 0.01, self.steps)

        def enter(places: Labels) -> Walk:
            aim = None if target is None else target[places]
            return self.begin(model, places, x[places], y[places], threat, noise[places], aim)

        def step(walk: Walk) -> tuple[Walk, News | None]:
            # An image may be done before its first step.
            leave = (walk.step == self.steps) | (walk.nearest.size == 0)
            if bool(leave.any()):
                return pick(walk, ~leave), _news(pick(walk, leave), threat)
            return self.advance(model, walk, threat, times, rate), None

        return in_lanes(model, x, enter, step)

    def begin(
        self,
        model: Model,
        places: Labels,
        x: Images,
        y: Labels,
        threat: ThreatModel,
        noise: Noise,
        target: Labels | None,
    ) -> Walk:
        """Every image at its start; one that is misclassified as it is has its answer already."""
        point = (x + self.start(x, threat, noise)).clamp(threat.low, threat.high)
        fooled, norm = fools(model, x, y), x.new_full((len(x),), self.init_norm)
        nearest, none = Nearest.at_first(x, fooled, threat), torch.zeros_like(places)
        keys = noise.keys.to(x.device)
        return Walk(places, x, y, target, keys, point, fooled, norm, nearest, none, none)

    def advance(
        self, model: Model, walk: Walk, threat: ThreatModel, times: Timetable, rate: Schedule
    ) -> Walk:
        """One step for every image, and a look at where it led."""
        alpha = lift(times.read(rate, walk.step), walk.x)
        noise = Noise(walk.keys).fold(0)  # images are at different steps, so each carries its own keys along
        turned = walk.point - walk.x + alpha * _direction(_gradient(model, walk, times), noise)
        # Beyond the furthest corner of the pixels there is nothing, and the way back from there is long.
        furthest = L2.size(torch.maximum(walk.x - threat.low, threat.high - walk.x))
        change = torch.where(walk.fooled, 1 - self.gamma, 1 + self.gamma).to(walk.norm)
        norm = torch.minimum(walk.norm * change, furthest)
        point = (walk.x + lift(norm, turned) * L2.steepest(turned)).clamp(threat.low, threat.high)
        point = self.rounded(point, threat)
        size, step = threat.distance(point, walk.x), walk.step + 1
        fooled, looks = looked(model, point, walk.y, size < walk.nearest.size)
        nearest = walk.nearest.seen(point, size, fooled, step, threat)
        walk = walk._replace(keys=noise.keys, step=step, looks=walk.looks + looks)
        return walk._replace(point=point, fooled=fooled, norm=norm, nearest=nearest)

    def rounded(self, images: Images, threat: ThreatModel) -> Images:
        """The images at the nearest of so many evenly spaced grey levels."""
        if self.levels == 0:
            return images
        span, last = threat.high - threat.low, self.levels - 1
        return threat.low + span * (((images - threat.low) / span * last).round() / last)


def _of_size(norm: float) -> Start:
    """A perturbation of this size in any direction, less what leaves the range of pixels."""
    return lambda x, threat, noise: surface(x, replace(threat, norm=L2, eps=norm), noise)


def _direction(grad: Images, noise: Noise) -> Images:
    """The unit perturbation along the gradient; where there is none any, as in the authors' script."""
    lost = ~rows(grad).any(1)
    if bool(lost.any()):
        grad = torch.where(lift(lost, grad), noise.normal(grad), grad)
    return L2.steepest(grad)


def _gradient(model: Model, walk: Walk, times: Timetable) -> Images:
    """Which way the label's cross-entropy climbs, or the target's falls; its size means nothing."""
    aim, way = (walk.y, 1) if walk.target is None else (walk.target, -1)

    def view(logits: Scores) -> View:
        return View(logits, aim, partial(times.read, step=walk.step))

    def slope(logits: Scores) -> Slope:
        exact = cross_entropy.slope(view(logits))
        return exact._replace(direction=way * exact.direction)

    objective = Objective(lambda logits: way * cross_entropy.value(view(logits)), slope)
    return backprop.read(model, walk.point, objective, Noise(walk.place)).grad


def _news(walk: Walk, threat: ThreatModel) -> News:
    """Where the images were and what became of them."""
    images = walk.nearest.otherwise(walk.point, walk.x, threat)
    # One look at the image itself; each step is one gradient and a look where it led.
    return walk.place, Outcome(images, walk.nearest.fell, 1 + walk.step + walk.looks, walk.step)


@ATTACKS.register("ddn", tags=[MINIMUM_NORM, L2_ONLY])
def ddn(steps: int = 100, init_norm: float = 1.0, gamma: float = 0.05, levels: int = 256) -> Attack:
    """DDN: the smallest L2 perturbation that fools, its direction and its norm taken apart.

    The norm begins at `init_norm` and changes by a share of `gamma` at every step; `levels=0` rounds nothing.
    """
    return DecoupledAttack(steps, init_norm, gamma, levels)
