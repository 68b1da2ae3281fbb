"""The threat model: which perturbations an attack may use."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch

from gamagat.errors import ConfigError, unknown
from gamagat.pieces.noise import Noise
from gamagat.pieces.trees import lift, rows
from gamagat.pieces.types import Images, Mask, PerExample

# How far past eps a distance may lie and still count as inside, as a share of eps where that is above 1: the
# rounding of x + delta in float32, no more. One grey level of an 8-bit image is four thousand times as much.
TOLERANCE = 1e-6


class Norm(NamedTuple):
    """The geometry that attacks need from a norm, as pure functions."""

    name: str
    size: Callable[[Images], PerExample]
    project: Callable[[Images, float], Images]  # the nearest perturbation of at most this size
    steepest: Callable[[Images], Images]  # the unit perturbation that climbs a gradient fastest
    anywhere: Callable[[Images, Noise], Images]  # a uniform draw from the unit ball


def _l2_size(delta: Images) -> PerExample:
    return rows(delta).square().sum(1).sqrt()


def _l2_project(delta: Images, radius: float) -> Images:
    size = _l2_size(delta)
    return delta * lift(torch.where(size > radius, radius / size, 1.0), delta)


def _l2_steepest(grad: Images) -> Images:
    # Divide by the largest entry first: the square of a tiny gradient is zero in float32.
    largest = rows(grad).abs().amax(1)
    grad = grad / lift(torch.where(largest > 0, largest, 1.0), grad)
    return grad / lift(_l2_size(grad).clamp_min(1.0), grad)


def _l2_anywhere(like: Images, noise: Noise) -> Images:
    radius = noise.fold(0).uniform(like[:, :1, :1, :1]) ** (1 / like[0].numel())
    return radius * _l2_steepest(noise.normal(like))


def _rounding(norm: Norm, x: Images, eps: float) -> float:
    """By how much the rounding of x + delta may lengthen delta in L2: half a unit in each pixel.

    On large images of one colour that would carry it past the tolerance. Tiny balls give up little for it.
    """
    if norm.name != "l2":
        return 0.0
    return min(math.sqrt(x.shape[1:].numel()) * torch.finfo(x.dtype).eps / 4, eps / 1000)


LINF = Norm(
    name="linf",
    size=lambda delta: rows(delta).abs().amax(1),
    project=lambda delta, radius: delta.clamp(-radius, radius),
    steepest=torch.sign,
    anywhere=lambda like, noise: 2 * noise.uniform(like) - 1,
)
L2 = Norm(name="l2", size=_l2_size, project=_l2_project, steepest=_l2_steepest, anywhere=_l2_anywhere)
NORMS = {norm.name: norm for norm in (LINF, L2)}


def norm_named(name: str) -> Norm:
    """The norm called `name`, in any case: `linf`, `Linf`, `L2`."""
    if str(name).lower() not in NORMS:  # a number, in Python
        raise unknown("norm", str(name), NORMS)
    return NORMS[name.lower()]


@dataclass(frozen=True, slots=True)
class ThreatModel:
    """An eps-ball in one norm around each image, within the pixel range."""

    norm: Norm
    eps: float
    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.eps < float("inf"):
            raise ConfigError(f"eps must be positive and finite, got {self.eps}; write 8/255 or 0.3")

    def project(self, delta: Images, x: Images) -> Images:
        """Bring `x + delta` back into the ball and the pixel range."""
        # x is inside the pixel range, so clipping can only shrink delta.
        radius = self.eps - _rounding(self.norm, x, self.eps)
        return (x + self.norm.project(delta, radius)).clamp(self.low, self.high) - x

    def vertex(self, grad: Images) -> Images:
        """The point of the ball furthest along `grad`."""
        return self.eps * self.norm.steepest(grad)

    def contains(self, images: Images, x: Images) -> Mask:
        """Which images are finite, in the pixel range, and within eps of `x`."""
        return self.holds(images, self.distance(images, x))

    def holds(self, images: Images, distance: PerExample) -> Mask:
        """`contains`, for images that are known to be so far away."""
        pixels = rows(images)
        in_range = ((pixels >= self.low) & (pixels <= self.high)).all(1)  # false for NaN, too
        return in_range & (distance <= self.eps + TOLERANCE * max(1.0, self.eps))

    def distance(self, images: Images, x: Images) -> PerExample:
        """How far each image is from `x`, measured in double precision (which Apple's GPUs do not have)."""
        wide = torch.float32 if images.device.type == "mps" else torch.float64
        return self.norm.size(images.to(wide) - x.to(wide))
