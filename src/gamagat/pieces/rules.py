"""Step rules: how one perturbation becomes the next."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from gamagat.pieces.threat import ThreatModel
from gamagat.pieces.trees import lift, rows
from gamagat.pieces.types import Counts, Images, PerExample, Schedule


class Iterate(NamedTuple):
    """A batch of images, each somewhere on its way."""

    x: Images
    delta: Images
    grad: Images
    loss: PerExample
    step: Counts
    at: Callable[[Schedule], PerExample]  # a schedule's value at each image's own step


State = Any  # a tree of tensors, one row per image, owned by the rule that made it


class Rule(NamedTuple):
    """Two pure functions; all memory lives in the state. Rates are in units of eps."""

    init: Callable[[Images], State]
    next: Callable[[Iterate, State, ThreatModel], tuple[Images, State]]
    reads_loss: bool = False  # whether it looks at the loss itself, besides its gradient


def _stateless(move: Callable[[Iterate, ThreatModel], Images]) -> Rule:
    return Rule(
        init=lambda x: None,
        next=lambda it, state, threat: (threat.project(move(it, threat), it.x), state),
    )


def projected_ascent(rate: Schedule) -> Rule:
    """delta + eta_t * eps * steepest(grad)."""
    return _stateless(lambda it, threat: it.delta + lift(it.at(rate), it.x) * threat.vertex(it.grad))


def frank_wolfe(rate: Schedule) -> Rule:
    """(1 - gamma_t) * delta + gamma_t * eps * steepest(grad)."""

    def move(it: Iterate, threat: ThreatModel) -> Images:
        gamma = lift(it.at(rate), it.x)
        return (1 - gamma) * it.delta + gamma * threat.vertex(it.grad)

    return _stateless(move)


class Moments(NamedTuple):
    """Running averages of the gradient and of its square."""

    first: Images
    second: Images


def squarable(grad: Images) -> Images:
    """The gradient, made shorter where its square would be infinite, as on logits times 1e30."""
    grad = torch.nan_to_num(grad)
    most = 0.5 * torch.finfo(grad.dtype).max ** 0.5
    return grad / lift((rows(grad).abs().amax(1) / most).clamp_min(1.0), grad)


def adam(rate: Schedule, decay: float = 0.9, decay_square: float = 0.999, in_pixels: bool = False) -> Rule:
    """Adam's step on the gradient itself: pixels move by about eta_t * eps (or eta_t), sure ones further."""

    def next_(it: Iterate, state: Moments, threat: ThreatModel) -> tuple[Images, Moments]:
        grad = squarable(it.grad)
        first = decay * state.first + (1 - decay) * grad
        second = decay_square * state.second + (1 - decay_square) * grad.square()
        age = lift(it.step + 1, it.x).to(it.x.dtype)
        mean, spread = first / (1 - decay**age), (second / (1 - decay_square**age)).sqrt()
        step = mean / (spread + torch.finfo(it.x.dtype).tiny)
        moved = it.delta + lift(it.at(rate), it.x) * (1.0 if in_pixels else threat.eps) * step
        return threat.project(moved, it.x), Moments(first, second)

    return Rule(init=lambda x: Moments(torch.zeros_like(x), torch.zeros_like(x)), next=next_)
