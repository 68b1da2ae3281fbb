"""The attack contract and the one gradient loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import torch

from gamagat.attacks.lanes import News, in_lanes
from gamagat.attacks.network import Network, fallen
from gamagat.attacks.outcome import Outcome
from gamagat.errors import ConfigError
from gamagat.pieces.gradients import Gradient, Objective, backprop, logits_of
from gamagat.pieces.losses import Loss, View
from gamagat.pieces.noise import Noise
from gamagat.pieces.rules import Iterate, Rule, State
from gamagat.pieces.schedules import Timetable
from gamagat.pieces.starts import Start
from gamagat.pieces.threat import L2, Norm, ThreatModel
from gamagat.pieces.trees import lift, pick
from gamagat.pieces.types import Counts, Images, Labels, Mask, Model, Scores
from gamagat.registry import Registry

ATTACKS: Registry[Attack] = Registry("attack", "gamagat.attacks")

# What an attack may be: one that looks for the nearest adversarial image, also beyond eps; one that knows L2
# alone; one that needs four classes for its loss and takes another where there are fewer; one that walks
# `steps` steps of `rate` * eps.
MINIMUM_NORM, L2_ONLY, USES_DLR, STRIDES = "minimum-norm", "l2-only", "uses-dlr", "strides"


@runtime_checkable
class Attack(Protocol):
    """Look for adversarial images near `x`; nothing but the returned value tells that it ran."""

    def __call__(
        self,
        model: Model,
        x: Images,
        y: Labels,
        threat: ThreatModel,
        noise: Noise,
        target: Labels | None = None,
    ) -> Outcome: ...


def check_options(**limits: tuple[float, float, float]) -> None:
    """Refuse an option outside its limits, each given as (value, least, most)."""
    for name, (value, least, most) in limits.items():
        if not least <= value <= most:
            raise ConfigError(f"{name} must lie between {least:g} and {most:g}, got {value:g}")


FEW_CLASSES = (
    "The DLR loss divides by the lead over the third logit, its targeted form also over the fourth; with "
    "three classes the targeted form falls back to the untargeted, with two both to the plain logit margin."
)


def check_norm(name: str, norm: Norm) -> None:
    """Refuse an attack that does not know the norm."""
    if L2_ONLY in ATTACKS[name].tags and norm is not L2:
        raise ConfigError(f"{name} attacks in l2 alone, got {norm.name}; use --norm l2 or another attack")


TINY, HUGE = 1e-12, 1e12  # limits of numbers that must be positive and stay finite in float32


Guide = Callable[[Images, Images], Images]  # image, first perturbation -> the guiding image


def clean_image(x: Images, delta: Images) -> Images:
    """Guide by the image itself, as the paper's equation 1 says."""
    return x


def first_iterate(x: Images, delta: Images) -> Images:
    """Guide by the noisy start, as the published scripts do."""
    return x + delta


class Walk(NamedTuple):
    """A batch on its way: a tree with one row per image, so that any image can leave at any step."""

    place: Labels  # where in the caller's batch the image was
    x: Images
    y: Labels
    target: Labels | None
    reference: Scores | None
    keys: Labels  # of the random numbers of the image's next step
    delta: Images
    state: State
    step: Counts
    caught: Counts  # the step at which it was first seen fooled, or -1
    held: Images  # the perturbation that it was fooled by
    looks: Counts  # forward passes spent on asking the judge

    def notice(self, fooled: Mask, before: Walk) -> Walk:
        """Remember the images that were fooled before this step and had not been seen fooled yet."""
        fresh = fooled & (self.caught < 0)
        return self._replace(
            caught=torch.where(fresh, before.step, self.caught),
            held=torch.where(lift(fresh, self.held), before.delta, self.held),
        )


@dataclass(slots=True)
class Clock:
    """When the host looks which images have fallen: now and then, and when the oldest has made its last step.

    Every look makes the host wait for the device. Until then a fallen image walks on, and nothing comes of
    it: what counts is the iterate that fooled first.
    """

    steps: int
    patience: int
    since: int = 0  # the last look
    oldest: int = 0  # steps that the oldest image has made

    def due(self) -> bool:
        """One step more: whether it is time to look."""
        self.since, self.oldest = self.since + 1, self.oldest + 1
        # Most images that fall do so in the first steps.
        return self.since >= min(self.patience, 1 + self.oldest // 2) or self.oldest >= self.steps

    def looked(self, left: Counts) -> None:
        """The images that are left have made so many steps."""
        self.since, self.oldest = 0, int(left.max()) if len(left) else 0


@dataclass(frozen=True, slots=True)
class IterativeAttack:
    """Climb `loss` inside the threat model, one step of `rule` after another.

    An image that is fooled at any iterate leaves at once, and the next one takes its place: no more images
    are on their way together than a `Network` is wide. With `stop` off all images walk to the last iterate,
    as the published scripts do. The last iterate is left for the judge to look at.
    """

    start: Start
    loss: Loss
    rule: Rule
    steps: int
    guide: Guide = clean_image
    stop: bool = True
    gradient: Gradient = backprop

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ConfigError(f"an attack needs at least one step, got steps={self.steps}")

    @property
    def passes(self) -> int:
        """How often an image may pass through the network, but for questions to the judge."""
        return self.steps * self.gradient.forwards + self.loss.guided

    def gradients(self, classes: int) -> int:
        """How many gradients an image may cost."""
        return self.steps * self.gradient.backwards

    def __call__(
        self,
        model: Model,
        x: Images,
        y: Labels,
        threat: ThreatModel,
        noise: Noise,
        target: Labels | None = None,
    ) -> Outcome:
        times = Timetable(self.steps, x)
        clock = Clock(self.steps, model.patience if isinstance(model, Network) else 1)

        def enter(places: Labels) -> Walk:
            aim = None if target is None else target[places]
            return self.begin(model, places, x[places], y[places], threat, noise[places], aim)

        def step(walk: Walk) -> tuple[Walk, News | None]:
            moved, fooled = self.advance(model, walk, threat, times)
            if self.stop:
                moved = moved.notice(fooled, walk)
            if not clock.due():
                return moved, None
            moved = self._confirmed(model, moved, threat)
            leave = (moved.caught >= 0) | (moved.step == self.steps)
            leaving = leave.nonzero().flatten()
            rest = pick(moved, ~leave) if len(leaving) else moved
            clock.looked(rest.step)
            return rest, self._news(pick(moved, leaving), threat) if len(leaving) else None

        return in_lanes(model, x, enter, step)

    def _confirmed(self, model: Model, walk: Walk, threat: ThreatModel) -> Walk:
        """Ask the judge about the images that seem to have fallen; one that it does not confirm walks on."""
        fell = walk.caught >= 0
        if not (isinstance(model, Network) and model.asks and bool(fell.any())):
            return walk
        images = (walk.x[fell] + walk.held[fell]).clamp(threat.low, threat.high)
        sure = fell.clone()
        sure[fell] = model.confirms(images, walk.y[fell])
        return walk._replace(caught=torch.where(sure, walk.caught, -1), looks=walk.looks + fell)

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
        """Every image at its start."""
        delta = self.start(x, threat, noise)
        with torch.no_grad():
            reference = logits_of(model, self.guide(x, delta)) if self.loss.guided else None
        none = torch.zeros_like(places)
        keys = noise.keys.to(x.device)
        state = self.rule.init(x)
        return Walk(places, x, y, target, reference, keys, delta, state, none, none - 1, delta, none.clone())

    def advance(self, model: Model, walk: Walk, threat: ThreatModel, times: Timetable) -> tuple[Walk, Mask]:
        """One step for every image, and which of them were fooled before it."""

        def at(schedule: Callable[[int], float]) -> torch.Tensor:
            return times.read(schedule, walk.step)

        def view(logits: Scores) -> View:
            return View(logits, walk.y, at, walk.target, walk.reference)

        objective = Objective(
            lambda logits: self.loss.value(view(logits)), lambda logits: self.loss.slope(view(logits))
        )
        noise = Noise(walk.keys)
        if self.gradient.random:
            noise = noise.fold(0)  # images are at different steps, so each carries its own keys along
        logits, grad = self.gradient.read(model, walk.x + walk.delta, objective, noise)
        value = objective.value(logits) if self.rule.reads_loss else torch.zeros_like(logits[:, 0])
        here = Iterate(walk.x, walk.delta, grad, value, walk.step, at)
        delta, state = self.rule.next(here, walk.state, threat)
        walk = walk._replace(delta=delta, state=state, step=walk.step + 1, keys=noise.keys)
        return walk, fallen(model, logits, walk.y)

    def _news(self, walk: Walk, threat: ThreatModel) -> News:
        """Where the leaving images were and what became of them: the iterate that fooled, or the last one."""
        fell = walk.caught >= 0
        delta = torch.where(lift(fell, walk.x), walk.held, walk.delta)
        images = (walk.x + delta).clamp(threat.low, threat.high)
        # One reading for each step, the one that saw it fall among them, but none after; the reference and
        # every question to the judge are one forward more.
        readings = torch.where(fell, walk.caught + 1, walk.step)
        forwards = readings * self.gradient.forwards + self.loss.guided + walk.looks
        return walk.place, Outcome(images, walk.caught, forwards, readings * self.gradient.backwards)
