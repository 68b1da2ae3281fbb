"""Square attack (Andriushchenko et al., 2020): random search over square windows, without gradients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch

from gamagat.attacks.core import ATTACKS, HUGE, TINY, Attack, check_options
from gamagat.attacks.lanes import News, in_lanes
from gamagat.attacks.network import Network, fallen
from gamagat.attacks.outcome import Outcome
from gamagat.attacks.square_windows import any_side, moved, odd_side, repainted, stripes, tiles
from gamagat.pieces.gradients import logits_of
from gamagat.pieces.losses import take, without
from gamagat.pieces.noise import Noise
from gamagat.pieces.threat import ThreatModel
from gamagat.pieces.trees import lift, pick
from gamagat.pieces.types import Counts, Images, Labels, Mask, Model, PerExample, Scores

HALVED_AFTER = (10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000)  # proposals, whatever the budget


class Search(NamedTuple):
    """What differs from one norm to the next."""

    start: Callable[[Images, ThreatModel, Noise], Images]
    propose: Callable[[Images, Images, Counts, ThreatModel, Noise], Images]
    side: Callable[[float, int, int], int]  # share of the image, its height and width -> side of a window


SEARCHES = {"linf": Search(stripes, repainted, any_side), "l2": Search(tiles, moved, odd_side)}


def sides(search: Search, p: float, x: Images) -> Callable[[Counts], Counts]:
    """The side of each image's next window, given how many proposals it has seen."""
    height, width = x.shape[2:]
    after = torch.tensor(HALVED_AFTER, device=x.device)
    lengths = [search.side(p / 2**halvings, height, width) for halvings in range(len(HALVED_AFTER) + 1)]
    table = torch.tensor(lengths, device=x.device)
    return lambda proposals: table[torch.bucketize(proposals, after)]


def margin_of(logits: Scores, y: Labels, target: Labels | None) -> PerExample:
    """How far the true class is ahead of the target, or of the best wrong class if there is none."""
    rival = without(logits, y).amax(1) if target is None else take(logits, target)
    return take(logits, y) - rival


class Walk(NamedTuple):
    """A batch on its way; every image is at a query of its own."""

    place: Labels  # where in the caller's batch the image was
    x: Images
    y: Labels
    target: Labels | None
    keys: Labels  # of the random numbers of the image's next query
    trial: Images  # the perturbation to ask about next
    delta: Images  # the best one so far
    margin: PerExample  # of the best one
    asked: Counts
    looks: Counts  # forward passes spent on asking the judge


@dataclass(frozen=True, slots=True)
class SquareAttack:
    """Ask about one changed window after another and keep what lowers the margin.

    An image that is fooled leaves at once, and the next one takes its place.
    """

    queries: int
    p: float

    @property
    def passes(self) -> int:
        """How often an image may pass through the network, but for questions to the judge."""
        return self.queries

    @torch.no_grad()
    def __call__(
        self,
        model: Model,
        x: Images,
        y: Labels,
        threat: ThreatModel,
        noise: Noise,
        target: Labels | None = None,
    ) -> Outcome:
        search = SEARCHES[threat.norm.name]
        side = sides(search, self.p, x)

        def enter(places: Labels) -> Walk:
            aim = None if target is None else target[places]
            return begin(search, places, x[places], y[places], aim, threat, noise[places])

        def step(walk: Walk) -> tuple[Walk, News | None]:
            walk, fell = ask(model, walk, threat)
            leave, news = fell | (walk.asked == self.queries), None
            if bool(leave.any()):
                news = _news(pick(walk, leave), fell[leave], threat)
                walk = pick(walk, ~leave)
            return propose(search, walk, side, threat), news

        return in_lanes(model, x, enter, step)


def begin(
    search: Search,
    places: Labels,
    x: Images,
    y: Labels,
    target: Labels | None,
    threat: ThreatModel,
    noise: Noise,
) -> Walk:
    """Every image at its start, which no one has asked about yet."""
    start, none = search.start(x, threat, noise), torch.zeros_like(places)
    unknown = torch.full_like(places, float("inf"), dtype=torch.promote_types(x.dtype, torch.float32))
    keys = noise.keys.to(x.device)
    return Walk(places, x, y, target, keys, start, start, unknown, none, none.clone())


def ask(model: Model, walk: Walk, threat: ThreatModel) -> tuple[Walk, Mask]:
    """One query for every image, and which of them fell; one that the judge does not confirm walks on."""
    images = _image(walk.x, walk.trial, threat)
    logits = logits_of(model, images)
    fell, looks = fallen(model, logits, walk.y), walk.looks
    if isinstance(model, Network) and model.asks and bool(fell.any()):
        looks = looks + fell
        fell = fell.masked_scatter(fell, model.confirms(images[fell], walk.y[fell]))
    margin = margin_of(logits, walk.y, walk.target).to(walk.margin.dtype)
    better = margin < walk.margin  # never true of NaN
    delta = torch.where(lift(better, walk.x), walk.trial, walk.delta)
    margin = torch.where(better, margin, walk.margin)
    return walk._replace(delta=delta, margin=margin, asked=walk.asked + 1, looks=looks), fell


def propose(search: Search, walk: Walk, side: Callable[[Counts], Counts], threat: ThreatModel) -> Walk:
    """The next trial of every image."""
    # Images are at different queries, so each carries its own keys along; restarts fold other tags.
    noise = Noise(walk.keys).fold(0)
    trial = search.propose(walk.x, walk.delta, side(walk.asked - 1), threat, noise)
    return walk._replace(keys=noise.keys, trial=trial)


def _image(x: Images, delta: Images, threat: ThreatModel) -> Images:
    return (x + delta).clamp(threat.low, threat.high)


def _news(walk: Walk, fell: Mask, threat: ThreatModel) -> News:
    """Where the leaving images were and what became of them: the trial that fooled, or the best one."""
    delta = torch.where(lift(fell, walk.x), walk.trial, walk.delta)
    step = torch.where(fell, walk.asked - 1, -1)
    none = torch.zeros_like(step)
    return walk.place, Outcome(_image(walk.x, delta, threat), step, walk.asked + walk.looks, none)


@ATTACKS.register("square")
def square(queries: int = 5000, p: float = 0.8) -> Attack:
    """Square attack: random search over square windows, by the logits alone.

    `queries` counts every image that the network is asked about, the start among them; `p` is the share of
    the image that the first windows cover.
    """
    check_options(queries=(queries, 1, HUGE), p=(p, TINY, 1.0))
    return SquareAttack(queries, p)
