"""Square attack (Andriushchenko et al., 2020): random search over square windows, without gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from gamagat.attacks.core import ATTACKS, HUGE, TINY, Attack, check_options
from gamagat.attacks.lanes import News, in_lanes
from gamagat.attacks.network import Network
from gamagat.attacks.outcome import Outcome
from gamagat.pieces.gradients import logits_of
from gamagat.pieces.losses import take, without
from gamagat.pieces.noise import Noise
from gamagat.pieces.threat import ThreatModel
from gamagat.pieces.trees import lift, pick
from gamagat.pieces.types import Counts, Images, Labels, Mask, Model, PerExample, Scores

HALVED_AFTER = (10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000)  # proposals, whatever the budget


class Window(NamedTuple):
    """A square of every image: how far each row and column lies past its first, and which pixels it holds."""

    rows: Tensor  # (batch, 1, height, 1)
    columns: Tensor  # (batch, 1, 1, width)
    side: Counts

    @property
    def inside(self) -> Images:
        """The pixels in the window, as a mask of one channel."""
        side = lift(self.side, self.rows)
        rows, columns = (self.rows >= 0) & (self.rows < side), (self.columns >= 0) & (self.columns < side)
        return rows & columns


def window_at(corner: Tensor, side: Counts, x: Images) -> Window:
    """The window whose corner lies as far along the possible places as two numbers in [0, 1) say."""
    size = torch.tensor(x.shape[2:], device=x.device)
    last = size - side[:, None]
    # The product of a number just below 1 may round up to one place too many.
    first = torch.minimum((corner * (last + 1)).long(), last)
    height, width = (torch.arange(length, device=x.device) for length in x.shape[2:])
    return Window((height - first[:, :1])[:, None, :, None], (width - first[:, 1:])[:, None, None, :], side)


def halves(rows: Tensor, columns: Tensor, side: Tensor) -> Tensor:
    """Two hills of opposite sign that fill a window, one above the other, by each pixel's place in it."""
    half = side // 2
    below = rows >= half
    peak = torch.where(below, half + (side - half) // 2, half // 2)
    depth = torch.maximum((rows - peak).abs(), (columns - half).abs()).clamp_max(half + 1)
    # The paper piles up ever larger squares of height 1/k^2. A pixel lies under those with k > depth, and the
    # sum of 1/k^2 from any k on is the trigamma function there.
    hill = torch.polygamma(1, depth + 1.0) - torch.polygamma(1, half + 2.0)
    return torch.where(below, -hill, hill)


def _sign(numbers: Tensor, x: Images) -> Images:
    """Plus or minus one from numbers in [0, 1)."""
    return torch.where(numbers < 0.5, -1.0, 1.0).to(x.dtype)


def _channel_size(delta: Images) -> Images:
    return delta.square().sum((2, 3), keepdim=True).sqrt()


def _unit(delta: Images) -> Images:
    """Every channel at length one; an empty one stays empty."""
    return delta / _channel_size(delta).clamp_min(torch.finfo(delta.dtype).tiny)


def stripes(x: Images, threat: ThreatModel, noise: Noise) -> Images:
    """Every column of every channel up or down by eps."""
    return threat.project((threat.eps * noise.signs(x[:, :, :1])).expand_as(x), x)


def tiles(x: Images, threat: ThreatModel, noise: Noise) -> Images:
    """The image paved with pairs of hills of random sign and direction, at least five along each side.

    Where five do not fill the image, the paper leaves a margin empty; here it is paved, too.
    """
    side = torch.tensor(max(1, min(x.shape[2:]) // 5), device=x.device)
    height, width = (torch.arange(length, device=x.device) for length in x.shape[2:])
    rows, columns = (height % side)[:, None], (width % side)[None, :]
    top, left = height[:, None] - rows, width[None, :] - columns
    turned = noise.fold(-1).signs(x[:, :1])[:, :, top, left] > 0
    paved = torch.where(turned, halves(columns, rows, side), halves(rows, columns, side)).to(x.dtype)
    return threat.project(threat.vertex(paved * noise.signs(x)[:, :, top, left]), x)


def repainted(x: Images, delta: Images, side: Counts, threat: ThreatModel, noise: Noise) -> Images:
    """A window somewhere, each of its channels up or down by eps."""
    numbers = noise.uniform(x.new_empty(len(x), 2 + x.shape[1], dtype=torch.float32))
    inside = window_at(numbers[:, :2], side, x).inside
    paint = threat.eps * _sign(numbers[:, 2:], x)[:, :, None, None].expand_as(x)
    trial = torch.where(inside, threat.project(paint, x), delta)
    # To ask again about the same image would waste a query; in one channel that were every second one.
    same = (trial == delta).flatten(1).all(1)
    return torch.where(inside & lift(same, x), threat.project(-paint, x), trial)


def moved(x: Images, delta: Images, side: Counts, threat: ThreatModel, noise: Noise) -> Images:
    """Two windows somewhere: the first gets a pair of hills and what the second held and eps left unused."""
    channels = x.shape[1]
    numbers = noise.uniform(x.new_empty(len(x), 5 + channels, dtype=torch.float32))
    here, there = window_at(numbers[:, :2], side, x), window_at(numbers[:, 2:4], side, x)
    inside, wide = here.inside, lift(side, x)
    turned = lift(numbers[:, 4], x) < 0.5
    rows, columns = torch.where(turned, here.columns, here.rows), torch.where(turned, here.rows, here.columns)
    hills = inside * halves(rows, columns, wide).to(x.dtype) * _sign(numbers[:, 5:], x)[:, :, None, None]
    unused = (threat.eps**2 - delta.square().sum((1, 2, 3), keepdim=True)).clamp_min(0.0) / channels
    budget = (unused + _channel_size(delta * (inside | there.inside)).square()).sqrt()
    hills = _unit(hills)
    mixed = hills + _unit(delta * inside)
    # Where the two cancel, nothing but rounding is left of them.
    fresh = budget * _unit(torch.where(_channel_size(mixed) > 1e-3, mixed, hills))
    return threat.project(torch.where(inside, fresh, delta * ~there.inside), x)


class Search(NamedTuple):
    """What differs from one norm to the next."""

    start: Callable[[Images, ThreatModel, Noise], Images]
    propose: Callable[[Images, Images, Counts, ThreatModel, Noise], Images]
    side: Callable[[float, int, int], int]  # share of the image, its height and width -> side of a window


def any_side(share: float, height: int, width: int) -> int:
    """The side of a square that covers this share of the image."""
    return min(max(round(math.sqrt(share * height * width)), 1), height, width)


def odd_side(share: float, height: int, width: int) -> int:
    """The same, odd and at least 3 where the image has room: a pair of hills needs it."""
    shorter = min(height, width)
    return min(max(any_side(share, height, width), 3) // 2 * 2 + 1, shorter - 1 + shorter % 2)


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
    fell, looks = logits.argmax(1) != walk.y, walk.looks
    if isinstance(model, Network) and bool(fell.any()):
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
