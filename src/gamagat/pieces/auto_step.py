"""The step rule of Auto-PGD (Croce and Hein, 2020): a step size of its own for every image."""

from typing import NamedTuple

import torch

from gamagat.pieces.rules import Iterate, Rule
from gamagat.pieces.threat import ThreatModel
from gamagat.pieces.trees import lift
from gamagat.pieces.types import Images, Mask, PerExample


class Progress(NamedTuple):
    """What the rule remembers of each image."""

    rate: PerExample
    previous: Images  # the perturbation before this one
    best_delta: Images
    best_grad: Images
    best_loss: PerExample
    last_loss: PerExample
    rises: PerExample  # steps since the last check that raised the loss
    best_at_check: PerExample
    halved: Mask  # whether the last check halved the step


def checkpoints(steps: int) -> dict[int, int]:
    """The steps at which progress is checked, each with the number of steps since the check before."""
    first, shrink, least = (max(1, int(share * steps)) for share in (0.22, 0.03, 0.06))
    found, at, window = {}, first, first
    while at < steps:
        found[at] = window
        window = max(window - shrink, least)
        at += window
    return found


def auto_step(steps: int, momentum: float = 0.75, patience: float = 0.75) -> Rule:
    """Steps of 2 eps with momentum; one that stops paying is halved, and the image returns to its best point.

    At a check the step is halved if too few of the steps since the last one raised the loss, or if the step
    was kept at the last check and the best loss has not risen since.
    """
    windows = checkpoints(steps)

    def window(step: int) -> float:
        return windows.get(step, 0)

    def init(x: Images) -> Progress:
        zero, flat = torch.zeros_like(x), x.new_zeros(len(x))
        low = torch.full_like(flat, -torch.inf)
        # The second rule is off at the first check: it counts as halved before.
        return Progress(
            flat + 2.0, zero, zero, zero, low, low, flat, low, torch.ones_like(flat, dtype=torch.bool)
        )

    def next_(it: Iterate, state: Progress, threat: ThreatModel) -> tuple[Images, Progress]:
        state = _noted(it, state)
        since = it.at(window)
        stalled = state.rises <= patience * since
        stuck = ~state.halved & (state.best_loss <= state.best_at_check)
        checked = since > 0
        back = checked & (stalled | stuck)
        state = state._replace(
            rate=torch.where(back, state.rate / 2, state.rate),
            rises=torch.where(checked, 0.0, state.rises),
            best_at_check=torch.where(checked, state.best_loss, state.best_at_check),
            halved=torch.where(checked, back, state.halved),
        )
        here = torch.where(lift(back, it.x), state.best_delta, it.delta)
        grad = torch.where(lift(back, it.x), state.best_grad, it.grad)
        push = torch.where(it.step > 0, momentum, 1.0).to(it.x.dtype)
        moved = _leap(it.x, here, state.previous, grad, state.rate, push, threat)
        return moved, state._replace(previous=here)

    return Rule(init, next_, reads_loss=True)


def _noted(it: Iterate, state: Progress) -> Progress:
    """The memory with the present point in it."""
    better, later = it.loss > state.best_loss, it.step > 0
    return state._replace(
        best_loss=torch.where(better, it.loss, state.best_loss),
        best_delta=torch.where(lift(better, it.x), it.delta, state.best_delta),
        best_grad=torch.where(lift(better, it.x), it.grad, state.best_grad),
        rises=state.rises + (later & (it.loss > state.last_loss)),
        last_loss=it.loss,
        best_at_check=torch.where(later, state.best_at_check, it.loss),
    )


def _leap(
    x: Images,
    here: Images,
    previous: Images,
    grad: Images,
    rate: PerExample,
    push: PerExample,
    threat: ThreatModel,
) -> Images:
    """A projected step, mixed with the step before it, and projected again."""
    aim = threat.project(here + lift(rate, x) * threat.vertex(grad), x)
    mixed = here + lift(push, x) * (aim - here) + lift(1 - push, x) * (here - previous)
    return threat.project(mixed, x)
