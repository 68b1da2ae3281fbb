"""The attack of Carlini and Wagner (2017) in L2: the squared distance plus c times what keeps the label.

What it returns may lie outside the threat model: then this is the nearest adversarial image it has seen.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, NamedTuple

import torch

from gamagat.attacks.core import ATTACKS, HUGE, L2_ONLY, MINIMUM_NORM, TINY, Attack, check_options
from gamagat.attacks.lanes import News, in_lanes
from gamagat.attacks.nearest import Nearest, fools, halfway, unclear
from gamagat.attacks.network import lead
from gamagat.attacks.outcome import Outcome
from gamagat.errors import ConfigError
from gamagat.pieces.gradients import Objective, Reading, backprop
from gamagat.pieces.losses import View, logit_margin
from gamagat.pieces.noise import Noise
from gamagat.pieces.rules import Moments, squarable
from gamagat.pieces.schedules import Timetable
from gamagat.pieces.starts import Start, at_image
from gamagat.pieces.threat import L2, ThreatModel
from gamagat.pieces.trees import lift, pick
from gamagat.pieces.types import Counts, Images, Labels, Mask, Model, PerExample, Scores

EDGE = 1 - 1e-6  # how near to its ends the range of pixels begins, where w would be infinite
GAIN = 1e-4  # the share of the loss that a tenth of the steps must bring


class Search(NamedTuple):
    """Where each image's search for its constant stands."""

    number: Counts
    c: PerExample
    low: PerExample  # the largest constant that was too small
    high: PerExample  # the smallest that sufficed; infinite where none has
    found: Mask  # whether this one has fooled
    checked: PerExample  # the loss when it was last checked for progress

    def renewed(self, searches: int) -> Search:
        """The next search of every image, by what became of this one."""
        high = torch.where(self.found, torch.minimum(self.high, self.c), self.high)
        low = torch.where(self.found, self.low, torch.maximum(self.low, self.c))
        c = torch.where(high.isfinite(), (low + high) / 2, (10 * self.c).clamp_max(HUGE))
        if searches >= 10:  # enough of them to spend one on what is known to suffice
            c = torch.where((self.number == searches - 2) & high.isfinite(), high, c)
        nothing = torch.full_like(c, float("inf"))
        return Search(self.number + 1, c, low, high, torch.zeros_like(self.found), nothing)


class Walk(NamedTuple):
    """A batch on its way: a tree with one row per image, so that any image can leave at any step."""

    place: Labels  # where in the caller's batch the image was
    x: Images
    y: Labels
    target: Labels | None
    start: Images  # the w that every search begins at
    w: Images  # the image is a hyperbolic tangent of this, so it never leaves the range of pixels
    moments: Moments
    age: Counts  # steps taken in this search
    search: Search
    nearest: Nearest
    step: Counts
    looks: Counts  # forward passes spent on asking the judge

    def begun(self, where: Mask) -> Walk:
        """The images of a mask back at their start, the others where they are."""
        pixels = lift(where, self.x)
        return self._replace(
            w=torch.where(pixels, self.start, self.w),
            moments=Moments(*(moment.masked_fill(pixels, 0.0) for moment in self.moments)),
            age=self.age.masked_fill(where, 0),
        )


def _w(images: Images, threat: ThreatModel) -> Images:
    """What the images are a hyperbolic tangent of."""
    return torch.atanh((2 * (images - threat.low) / (threat.high - threat.low) - 1) * EDGE)


def _image(lean: Images, threat: ThreatModel) -> Images:
    """The image whose pixels lie between the ends of their range as these numbers do between -1 and 1."""
    middle, half = (threat.high + threat.low) / 2, (threat.high - threat.low) / 2
    return (middle + half * lean).clamp(threat.low, threat.high)


@dataclass(frozen=True, slots=True)
class HingeAttack:
    """Adam on ||image - x||^2 + c * max(0, z_y - z_rival + kappa), again and again for the best c.

    The rival is the target, or else the best wrong class. An image counts as adversarial if a wrong class
    wins by at least `kappa`. With `abort` a search ends where a tenth of its steps brought nothing.
    """

    steps: int  # of each search
    searches: int = 9
    rate: float = 0.01
    c: float = 1e-3
    kappa: float = 0.0
    abort: bool = True
    start: Start = at_image

    delicate: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ConfigError(f"an attack needs at least one step, got steps={self.steps}")
        check_options(
            searches=(self.searches, 1, HUGE),
            rate=(self.rate, TINY, HUGE),
            c=(self.c, TINY, HUGE),
            kappa=(self.kappa, 0.0, HUGE),
        )

    @property
    def passes(self) -> int:
        """How often an image may pass forward through the network, but for questions to the judge."""
        return 1 + self.steps * self.searches

    def gradients(self, classes: int) -> int:
        """How many gradients an image may cost."""
        return self.steps * self.searches

    def again(self) -> HingeAttack:
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
        times = Timetable(self.steps, x)

        def enter(places: Labels) -> Walk:
            aim = None if target is None else target[places]
            return self.begin(model, places, x[places], y[places], threat, noise[places], aim)

        def step(walk: Walk) -> tuple[Walk, News | None]:
            # An image may be done before its first step.
            leave = (walk.search.number == self.searches) | (walk.nearest.size == 0)
            if bool(leave.any()):
                return pick(walk, ~leave), _news(pick(walk, leave), threat)
            return self.advance(model, walk, threat, times), None

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
        """Every image at the start of its first search; one that is misclassified has its answer already."""
        start = _w((x + self.start(x, threat, noise)).clamp(threat.low, threat.high), threat)
        none, nearest = torch.zeros_like(places), Nearest.at_first(x, fools(model, x, y), threat)
        c, infinite = torch.full_like(nearest.size, self.c), torch.full_like(nearest.size, float("inf"))
        search = Search(none, c, torch.zeros_like(c), infinite, none.bool(), infinite)
        still = Moments(torch.zeros_like(x), torch.zeros_like(x))
        return Walk(places, x, y, target, start, start, still, none, search, nearest, none, none)

    def advance(self, model: Model, walk: Walk, threat: ThreatModel, times: Timetable) -> Walk:
        """Look at every image, take one step of Adam, and begin anew where a search has come to its end."""
        lean = walk.w.tanh()
        image = _image(lean, threat)
        logits, grad = _reading(model, walk, image, times)
        hinge = (self.kappa - logit_margin.value(_view(walk, logits, times))).clamp_min(0.0)
        loss = L2.size(image - walk.x).square() + walk.search.c * hinge
        weight = torch.where(hinge > 0, walk.search.c, 0.0).to(image)
        slope = 2 * (image - walk.x) - lift(weight, image) * grad
        walk = self.seen(model, walk, image, logits, threat)
        walk = self.moved(walk, slope * (1 - lean.square()) * (threat.high - threat.low) / 2)
        return self.renewed(walk, loss)

    def seen(self, model: Model, walk: Walk, image: Images, logits: Scores, threat: ThreatModel) -> Walk:
        """Remember what fools; the judge is asked where that would change anything and is not clear."""
        ahead, size = lead(logits, walk.y), threat.distance(image, walk.x)
        matters = (size < walk.nearest.size) | ~walk.search.found
        fooled = (logits.argmax(1) != walk.y) & (ahead >= self.kappa) & matters
        asked = fooled & unclear(model, ahead)
        if bool(asked.any()):
            walk = walk._replace(looks=walk.looks + asked)
            fooled = fooled.masked_scatter(asked, fools(model, image[asked], walk.y[asked]))
        return walk._replace(
            nearest=walk.nearest.seen(image, size, fooled, walk.step, threat),
            search=walk.search._replace(found=walk.search.found | fooled),
        )

    def moved(self, walk: Walk, grad: Images) -> Walk:
        """One step of Adam down this gradient."""
        grad = squarable(grad)
        first = 0.9 * walk.moments.first + 0.1 * grad
        second = 0.999 * walk.moments.second + 0.001 * grad.square()
        age = lift(walk.age + 1, grad).to(grad.dtype)
        mean, spread = first / (1 - 0.9**age), (second / (1 - 0.999**age)).sqrt()
        w = walk.w - self.rate * mean / (spread + 1e-8)
        return walk._replace(w=w, moments=Moments(first, second), age=walk.age + 1, step=walk.step + 1)

    def renewed(self, walk: Walk, loss: PerExample) -> Walk:
        """The next search where this one has taken all its steps or brings nothing any more."""
        due = (walk.age - 1) % max(1, self.steps // 10) == 0
        stalled = due & (loss > (1 - GAIN) * walk.search.checked) & self.abort
        search = walk.search._replace(checked=torch.where(due, loss, walk.search.checked))
        over = stalled | (walk.age == self.steps)
        if bool(over.any()):
            search = _choose(over, search.renewed(self.searches), search)
        # After its last search an image stays where it is: this is its last try.
        again = over & (search.number < self.searches)
        walk = walk._replace(search=search)
        return walk.begun(again) if bool(again.any()) else walk


def _choose(first: Mask, one: Search, other: Search) -> Search:
    """One for the images of a mask, the other for the rest."""
    return Search(*(torch.where(first, *pair) for pair in zip(one, other, strict=True)))


def _view(walk: Walk, logits: Scores, times: Timetable) -> View:
    return View(logits, walk.y, partial(times.read, step=walk.age), walk.target)


def _reading(model: Model, walk: Walk, image: Images, times: Timetable) -> Reading:
    """The logits of the images and the gradient of how far the rival leads."""

    def view(logits: Scores) -> View:
        return _view(walk, logits, times)

    # The gradient comes at its true size: the slope of a difference of logits has 1 as its largest entry.
    objective = Objective(
        lambda logits: logit_margin.value(view(logits)), lambda logits: logit_margin.slope(view(logits))
    )
    return backprop.read(model, image, objective, Noise(walk.place))


def _news(walk: Walk, threat: ThreatModel) -> News:
    """Where the images were and what became of them."""
    images = walk.nearest.otherwise(_image(walk.w.tanh(), threat), walk.x, threat)
    # One look at the image itself; each step is one gradient, and some are shown to the judge.
    return walk.place, Outcome(images, walk.nearest.fell, 1 + walk.step + walk.looks, walk.step)


@ATTACKS.register("cw", tags=[MINIMUM_NORM, L2_ONLY])
def cw(
    steps: int = 1000,
    searches: int = 9,
    rate: float = 0.01,
    c: float = 1e-3,
    kappa: float = 0.0,
    abort: bool = True,
) -> Attack:
    """Carlini and Wagner's L2 attack: Adam on distance and logit margin, their balance found by bisection.

    Each of the `searches` takes `steps` steps; the first weighs the margin with `c`. Only images that fool by
    a lead of `kappa` count. With `abort` a search ends where a tenth of its steps gains less than 0.01 %.
    """
    return HingeAttack(steps, searches, rate, c, kappa, abort)
