"""What Square asks about: perturbations made of square windows, where a search starts and what it tries next.

A start takes the images; a proposal takes the best perturbation so far and the side of each image's window.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from gamagat.pieces.noise import Noise
from gamagat.pieces.threat import ThreatModel
from gamagat.pieces.trees import lift
from gamagat.pieces.types import Counts, Images


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


def any_side(share: float, height: int, width: int) -> int:
    """The side of a square that covers this share of the image."""
    return min(max(round(math.sqrt(share * height * width)), 1), height, width)


def odd_side(share: float, height: int, width: int) -> int:
    """The same, odd and at least 3 where the image has room: a pair of hills needs it."""
    shorter = min(height, width)
    return min(max(any_side(share, height, width), 3) // 2 * 2 + 1, shorter - 1 + shorter % 2)


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


def filled(delta: Images, x: Images, threat: ThreatModel) -> Images:
    """Into the ball and the pixel range; what the range cuts off goes to the rest of the perturbation.

    The paper leaves it to the next window alone; on a black ground that is half of every pair of hills.
    """
    return threat.project(threat.vertex(threat.project(delta, x)), x)


def paved(like: Images, side: int, noise: Noise) -> Images:
    """A pair of hills of random sign and direction on every tile."""
    height, width = (torch.arange(length, device=like.device) for length in like.shape[2:])
    rows, columns = (height % side)[:, None], (width % side)[None, :]
    top, left = height[:, None] - rows, width[None, :] - columns
    turned = noise.fold(-1).signs(like[:, :1])[:, :, top, left] > 0
    wide = torch.tensor(side, device=like.device)
    hills = torch.where(turned, halves(columns, rows, wide), halves(rows, columns, wide)).to(like.dtype)
    return hills * noise.signs(like)[:, :, top, left]


def tiles(x: Images, threat: ThreatModel, noise: Noise) -> Images:
    """The middle of the image paved with whole tiles, at least five along each side.

    The margin stays empty: few windows reach it, so what lay there could hardly be moved elsewhere.
    """
    side = max(1, min(x.shape[2:]) // 5)
    rows, columns = (length % side for length in x.shape[2:])  # left over
    top, left = rows // 2, columns // 2
    middle = paved(x[:, :, rows:, columns:], side, noise)  # of x, the shape alone matters
    delta = functional.pad(middle, (left, columns - left, top, rows - top))
    return filled(threat.vertex(delta), x, threat)


def repainted(x: Images, delta: Images, side: Counts, threat: ThreatModel, noise: Noise) -> Images:
    """A window somewhere, each of its channels up or down by eps."""
    numbers = noise.uniform(x.new_empty(len(x), 2 + x.shape[1], dtype=torch.float32))
    inside = window_at(numbers[:, :2], side, x).inside
    # One number for each channel and no more, lest the order in memory of the images be lost.
    paint = threat.eps * _sign(numbers[:, 2:], x)[:, :, None, None]
    trial = torch.where(inside, threat.project(paint, x), delta)
    # To ask again about the same image would waste a query; in one channel that were every second one.
    same = (trial == delta).all((1, 2, 3))
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
    return filled(torch.where(inside, fresh, delta * ~there.inside), x, threat)
