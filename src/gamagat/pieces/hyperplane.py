"""Hyperplanes in the space of images: a network's boundaries, linearised, and the shortest way onto them."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F

from gamagat.pieces.gradients import answer
from gamagat.pieces.losses import take
from gamagat.pieces.threat import Norm, ThreatModel
from gamagat.pieces.trees import lift, rows
from gamagat.pieces.types import Images, Labels, Mask, Model, PerExample, Scores


class Plane(NamedTuple):
    """For every image, the points where value + normal . (point - anchor) is zero."""

    normal: Images
    anchor: Images
    value: PerExample

    def at(self, points: Images) -> PerExample:
        """The linear function that the plane is the zero of."""
        # Measured from the anchor, where it is exact: a difference of two large sums would not be.
        return self.value + rows(self.normal * (points - self.anchor)).sum(1)


def distance_to(plane: Plane, norm: Norm) -> PerExample:
    """How far the anchor is from the plane, whatever the pixel range; not finite where there is no plane."""
    # The dual norm: what a linear function gains along a perturbation of size one, at most.
    dual = rows(plane.normal * norm.steepest(plane.normal)).sum(1)
    return plane.value.abs() / dual


def step_onto(plane: Plane, points: Images, threat: ThreatModel) -> Images:
    """The smallest perturbation that takes these points onto the plane within the pixel range.

    Where the range does not reach the plane: the one that ends in the corner nearest to it.
    """
    value = plane.at(points)
    towards = -plane.normal * lift(value.sign(), points)
    # The way of least size follows the steepest direction, where every pixel stops at the end of its range.
    speed = threat.norm.steepest(towards).abs()
    room = torch.where(towards > 0, threat.high - points, points - threat.low)
    length = lift(_length(towards.abs(), speed, room, value.abs()), points)
    return towards.sign() * torch.where(length.isfinite(), torch.minimum(length * speed, room), room)


def _length(gain: Images, speed: Images, room: Images, gap: PerExample) -> PerExample:
    """The l with sum_i gain_i * min(l * speed_i, room_i) = gap for each image; infinite if there is none.

    The sum is concave and piecewise linear, bending where a pixel comes to its end, so Newton's method from
    the left never goes too far and is exact on the last piece: a few rounds where a sort would take longer.
    """
    ends = torch.where(speed > 0, room / speed, 0.0)
    running, stopped = gain * speed, gain * room
    length = torch.zeros_like(gap)
    while True:
        going = ends > lift(length, ends)
        pace = rows(torch.where(going, running, 0.0)).sum(1)
        left = gap - rows(torch.where(going, 0.0, stopped)).sum(1)
        further = torch.where(pace > 0, left / pace, float("inf"))
        if not bool((further > length).any()):
            return torch.where(pace > 0, length, float("inf"))
        length = torch.maximum(further, length)


class Passes(NamedTuple):
    """How often a batch went through the network and back."""

    forwards: int
    backwards: int


def nearest_boundary(
    model: Model, images: Images, y: Labels, target: Labels | None, norm: Norm
) -> tuple[Plane, Passes]:
    """The linearised boundary with the target, or else with the nearest class, and what it cost."""
    images = images.detach().requires_grad_()
    logits, forwards = answer(model, images), 1
    rivals = _others(logits, y) if target is None else [target]
    # Where no class has a gradient there is no plane: a zero normal, which nothing moves along.
    nearest = Plane(torch.zeros_like(images), images.detach(), images.new_zeros(len(images)))
    least = torch.full_like(nearest.value, float("inf"))
    again = False  # whether each way back wants a pass of its own
    # One class at a time, and only the nearest is kept: all gradients together may not fit into memory.
    for rival in rivals:
        last = rival is rivals[-1]
        if again:
            logits, forwards = answer(model, images), forwards + 1
        plane = _boundary(logits, images, y, rival, keep=not (again or last))
        if plane is None:
            again, logits = True, logits.detach()  # lest there be two graphs in memory
            logits, forwards = answer(model, images), forwards + 1
            plane = _boundary(logits, images, y, rival, keep=False)
            assert plane is not None
        distance = distance_to(plane, norm)
        nearest = _choose(distance < least, plane, nearest)  # not smaller where the gradient is zero
        least = torch.fmin(distance, least)
    return nearest, Passes(forwards, len(rivals))


def _others(logits: Scores, y: Labels) -> list[Labels]:
    """All wrong classes, one of each image at a time."""
    classes = logits.shape[1]
    return [(y + ahead) % classes for ahead in range(1, classes)]


def _boundary(logits: Scores, images: Images, y: Labels, rival: Labels, keep: bool) -> Plane | None:
    """Where the tangents of two logits cross; None if the graph cannot be kept for another pass, as asked.

    A compiled network may write over what another way back would need, and torch refuses to keep it.
    """
    classes = logits.shape[1]
    seed = (F.one_hot(rival, classes) - F.one_hot(y, classes)).to(logits)
    try:
        (normal,) = torch.autograd.grad(
            logits, images, seed, retain_graph=keep, allow_unused=True, materialize_grads=True
        )
    except RuntimeError as error:
        if keep and "retain_graph" in str(error):
            return None
        raise
    value = (take(logits, rival) - take(logits, y)).detach().to(images.dtype)
    return Plane(torch.nan_to_num(normal, nan=0.0, posinf=0.0, neginf=0.0), images.detach(), value)


def _choose(first: Mask, one: Plane, other: Plane) -> Plane:
    """One plane for the images of a mask, the other for the rest; both have the same anchor."""
    normal = torch.where(lift(first, one.normal), one.normal, other.normal)
    return Plane(normal, one.anchor, torch.where(first, one.value, other.value))
