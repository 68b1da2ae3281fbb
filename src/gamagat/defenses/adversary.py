"""The attack inside a training step: every image takes every step, and the host is never asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gamagat.pieces.gradients import answer
from gamagat.pieces.losses import Loss, View
from gamagat.pieces.noise import Noise
from gamagat.pieces.rules import Iterate, Rule, State
from gamagat.pieces.starts import Start
from gamagat.pieces.threat import ThreatModel
from gamagat.pieces.types import Images, Labels, Model, Scores

Piece = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Adversary:
    """`steps` steps of `rule` up the `loss` from `start`: `IterativeAttack` without its exits.

    A schedule may give a tensor in place of a number, such as the weight of a loss that grows over the
    epochs; so a recorded step can be played again with other values.
    """

    start: Start
    loss: Loss
    rule: Rule
    steps: int = 1

    def __call__(
        self,
        model: Model,
        x: Images,
        y: Labels,
        threat: ThreatModel,
        noise: Noise,
        reference: Scores | None = None,
        coupled: bool = False,  # whether the images of a batch share statistics, as batch norm in training
        made: Callable[[Piece], Piece] = lambda piece: piece,  # what becomes of the parts between two passes
    ) -> Images:
        begin, slope, move, end = made(self.begin), made(self.slope), made(self.move), made(self.end)
        delta, state = begin(x, threat, noise), self.rule.init(x)
        for step in range(self.steps):
            images = (x + delta).detach().requires_grad_()
            logits = answer(model, images)
            way = slope(logits.detach(), y, reference, step, coupled)
            (grad,) = torch.autograd.grad(logits, images, way, allow_unused=True, materialize_grads=True)
            delta, state = move(x, y, delta, grad, state, threat, step)
        adversarial: Images = end(x, delta, threat)
        return adversarial

    def begin(self, x: Images, threat: ThreatModel, noise: Noise) -> Images:
        """The first perturbation."""
        return self.start(x, threat, noise)

    def slope(self, logits: Scores, y: Labels, reference: Scores | None, step: int, coupled: bool) -> Scores:
        """Which way the loss climbs, for each image as long as for the next.

        Where images share statistics it is the sum over the batch that climbs: to rescale each image's share
        of it would turn it.
        """
        found = self.loss.slope(View(logits, y, _reader(step, logits), None, reference))
        if not coupled:
            return found.rescaled()
        size = found.log_scale()
        return found.rescaled() * (size - size.amax()).exp()[:, None]

    def move(
        self, x: Images, y: Labels, delta: Images, grad: Images, state: State, threat: ThreatModel, step: int
    ) -> tuple[Images, State]:
        """The next perturbation."""
        grad = torch.nan_to_num(grad, nan=0.0, posinf=0.0, neginf=0.0)
        loss = torch.zeros_like(y, dtype=x.dtype)  # rules that look at it are not for training
        here = Iterate(x, delta, grad, loss, torch.full_like(y, step), _reader(step, x))
        return self.rule.next(here, state, threat)

    def end(self, x: Images, delta: Images, threat: ThreatModel) -> Images:
        """The images that come out."""
        return (x + delta).clamp(threat.low, threat.high).detach()


def _reader(step: int, x: Images) -> Callable[..., Tensor]:
    """A schedule's value now, once for each image."""

    def at(schedule: Callable[[int], float | Tensor]) -> Tensor:
        value = schedule(step)
        if isinstance(value, Tensor):
            return value.to(x.dtype).expand(len(x))
        return torch.full((len(x),), value, dtype=x.dtype, device=x.device)

    return at
