"""FAB, the fast adaptive boundary attack (Croce and Hein, 2020): the smallest perturbation that fools.

It walks along the boundary between two classes, drawn back to the image all the time. What it returns may lie
outside the threat model: then this is the nearest adversarial image it has seen.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import torch

from gamagat.attacks.combine import each_target
from gamagat.attacks.core import ATTACKS, HUGE, MINIMUM_NORM, Attack, check_options
from gamagat.attacks.lanes import News, in_lanes
from gamagat.attacks.nearest import Nearest, fools, halfway, looked
from gamagat.attacks.outcome import Outcome
from gamagat.errors import ConfigError
from gamagat.pieces.hyperplane import Plane, nearest_boundary, step_onto
from gamagat.pieces.noise import Noise
from gamagat.pieces.starts import Start, at_image
from gamagat.pieces.threat import ThreatModel
from gamagat.pieces.trees import lift, pick
from gamagat.pieces.types import Counts, Images, Labels, Mask, Model, PerExample


class Walk(NamedTuple):
    """A batch on its way: a tree with one row per image, so that any image can leave at any step."""

    place: Labels  # where in the caller's batch the image was
    x: Images
    y: Labels
    target: Labels | None
    point: Images
    nearest: Nearest
    step: Counts
    looks: Counts  # forward passes spent on looking where steps led
    forwards: Counts  # and on linearising, as a rule one a step
    backwards: Counts


@dataclass(frozen=True, slots=True)
class BoundaryAttack:
    """Project onto the linearised boundary, from the iterate and from the image, and go in between.

    With a target only its boundary counts, without one the nearest of all. With `stop` only the threat model
    counts: an image leaves as soon as it is fooled inside, and what lies outside is no answer. Else it takes
    all steps, looking for a nearer one.
    """

    steps: int
    alpha_max: float = 0.1
    eta: float = 1.05
    beta: float = 0.9
    stop: bool = False
    start: Start = at_image

    delicate: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ConfigError(f"an attack needs at least one step, got steps={self.steps}")
        check_options(
            alpha_max=(self.alpha_max, 0.0, 1.0), eta=(self.eta, 1.0, HUGE), beta=(self.beta, 0.0, 1.0)
        )

    @property
    def passes(self) -> int:
        """How often an image may pass forward, but for questions to the judge: once, and twice a step."""
        return 1 + 2 * self.steps

    def gradients(self, classes: int) -> int:
        """How many gradients an image may cost: one for each boundary in every step."""
        return self.steps * (classes - 1)

    def again(self) -> BoundaryAttack:
        """The attack as it begins again: somewhere on the surface of the ball of half the size."""
        return replace(self, start=halfway)

    def __call__(
        self,
        model: Model,
        x: Images,
        y: Labels,
        threat: ThreatModel,
        noise: Noise,
        target: Labels | None = None,
    ) -> Outcome:
        def enter(places: Labels) -> Walk:
            aim = None if target is None else target[places]
            return self.begin(model, places, x[places], y[places], threat, noise[places], aim)

        def step(walk: Walk) -> tuple[Walk, News | None]:
            leave = self._done(walk)  # an image may be done before its first step
            if bool(leave.any()):
                return pick(walk, ~leave), self._news(pick(walk, leave), threat)
            return self.advance(model, walk, threat), None

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
        none = torch.zeros_like(places)
        nearest = Nearest.at_first(x, fools(model, x, y), threat)
        return Walk(places, x, y, target, point, nearest, none, none, none, none)

    def advance(self, model: Model, walk: Walk, threat: ThreatModel) -> Walk:
        """One step for every image, a look at where it led, and a step back for those that fool."""
        plane, passes = nearest_boundary(model, walk.point, walk.y, walk.target, threat.norm)
        point = self.between(walk, plane, threat)
        size = threat.distance(point, walk.x)
        fooled, looks = looked(model, point, walk.y, self._matters(walk, point, size, threat))
        nearest = walk.nearest.seen(point, size, fooled, walk.step + 1, threat)
        back = (walk.x + self.beta * (point - walk.x)).clamp(threat.low, threat.high)
        point, looks = torch.where(lift(fooled, point), back, point), walk.looks + looks
        counts = {"forwards": walk.forwards + passes.forwards, "backwards": walk.backwards + passes.backwards}
        return walk._replace(point=point, nearest=nearest, step=walk.step + 1, looks=looks, **counts)

    def between(self, walk: Walk, plane: Plane, threat: ThreatModel) -> Images:
        """A little past the plane, between the projections of the iterate and of the image."""
        ours, theirs = step_onto(plane, walk.point, threat), step_onto(plane, walk.x, threat)
        far, further = threat.norm.size(ours), threat.norm.size(theirs)
        # On the plane and not yet fooled, an iterate would stay for good; the image's way takes it across.
        share = torch.where(far > 0, far / (far + further), 1.0)
        alpha = lift(share.clamp_max(self.alpha_max), ours)
        point = (1 - alpha) * (walk.point + self.eta * ours) + alpha * (walk.x + self.eta * theirs)
        return point.clamp(threat.low, threat.high)

    def _matters(self, walk: Walk, point: Images, size: PerExample, threat: ThreatModel) -> Mask:
        """Where it counts whether the point fools: nearer than all before and, with `stop`, inside."""
        nearer = size < walk.nearest.size
        return nearer & threat.holds(point, size) if self.stop else nearer

    def _done(self, walk: Walk) -> Mask:
        nearest = walk.nearest
        return (walk.step == self.steps) | (nearest.size == 0) | ((nearest.fell >= 0) & self.stop)

    def _news(self, walk: Walk, threat: ThreatModel) -> News:
        """Where the images were and what became of them."""
        images = walk.nearest.otherwise(walk.point, walk.x, threat, inside=self.stop)
        # One look at the image itself; each step is a linearisation and a look where it led.
        return walk.place, Outcome(images, walk.nearest.fell, 1 + walk.forwards + walk.looks, walk.backwards)


@ATTACKS.register("fab", tags=[MINIMUM_NORM])
def fab(
    steps: int = 100,
    alpha_max: float = 0.1,
    eta: float = 1.05,
    beta: float = 0.9,
    stop: bool = False,
) -> Attack:
    """FAB: the smallest perturbation that fools, by projections onto the nearest linearised boundary."""
    return BoundaryAttack(steps, alpha_max, eta, beta, stop)


@ATTACKS.register("fab-t", tags=[MINIMUM_NORM])
def fab_t(
    top: int = 9,
    steps: int = 100,
    alpha_max: float = 0.1,
    eta: float = 1.05,
    beta: float = 0.9,
    stop: bool = False,
) -> Attack:
    """FAB on the boundary with each of the likeliest wrong classes in turn: one gradient a step."""
    return each_target(BoundaryAttack(steps, alpha_max, eta, beta, stop), top)
