"""Schedules: plain functions from a step (or an epoch) to a number."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from gamagat.pieces.types import Counts, PerExample, Schedule


def constant(value: float) -> Schedule:
    """The same number at every step."""
    return lambda step: value


def ramp_down(start: float, over: int) -> Schedule:
    """Fall linearly from `start` to 0 in `over` steps, then stay at 0."""
    return lambda step: start * (1.0 - step / over) if step < over else 0.0


def stepped(start: float, at: tuple[int, ...], factor: float) -> Schedule:
    """Multiply by `factor` at each milestone in `at`."""
    return lambda step: start * factor ** sum(step >= milestone for milestone in at)


def cosine(start: float, end: float, over: int) -> Schedule:
    """Follow half a cosine wave from `start` to `end` in `over` steps, then stay there."""
    return lambda step: end + (start - end) * (1 + math.cos(math.pi * min(step / over, 1.0))) / 2


def triangle(peak: float, at: float, over: float) -> Callable[[float], float]:
    """Rise linearly from 0 to `peak` at the moment `at`, then fall to 0 at the moment `over`."""
    return lambda step: peak * max(0.0, min(step / at if at else 1.0, (over - step) / (over - at)))


def milestone(place: float, steps: int) -> int:
    """A moment in a run of `steps`: up to 1 it is a share of the run, otherwise the step itself."""
    return math.floor((place * steps if place <= 1 else place) + 0.5)


@dataclass(frozen=True, slots=True)
class Timetable:
    """Schedules tabulated once, so that every image can be at a step of its own.

    Images enter and leave a loop at different moments; reading a table on the device needs no word from the
    host.
    """

    steps: int
    like: Tensor  # tables take its type and its device
    _tables: dict[Schedule, Tensor] = field(default_factory=dict)

    def read(self, schedule: Schedule, step: Counts) -> PerExample:
        """The schedule's value for each image."""
        if schedule not in self._tables:
            values = [schedule(moment) for moment in range(self.steps)]
            self._tables[schedule] = torch.tensor(values, dtype=self.like.dtype, device=self.like.device)
        return self._tables[schedule][step]
