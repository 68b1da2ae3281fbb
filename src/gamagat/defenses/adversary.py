"""The attack inside a training step: every image takes every step, and the host is never asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from gamagat.pieces.gradients import Objective, Reading, backprop, logits_of
from gamagat.pieces.losses import Loss, View
from gamagat.pieces.noise import Noise
from gamagat.pieces.rules import Iterate, Rule
from gamagat.pieces.starts import Start
from gamagat.pieces.threat import ThreatModel
from gamagat.pieces.types import Images, Labels, Model, Scores


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
    inline: bool = False  # whether the pass back is part of the same program, as a compiler wants it

    def __call__(
        self,
        model: Model,
        x: Images,
        y: Labels,
        threat: ThreatModel,
        noise: Noise,
        reference: Scores | None = None,
        coupled: bool = False,  # whether the images of a batch share statistics, as batch norm in training
    ) -> Images:
        delta, state = self.start(x, threat, noise), self.rule.init(x)
        for step in range(self.steps):
            at = _reader(step, x)

            def view(logits: Scores, at: Callable[..., Tensor] = at) -> View:
                return View(logits, y, at, None, reference)

            objective = Objective(lambda z: self.loss.value(view(z)), lambda z: self.loss.slope(view(z)))
            if coupled:
                logits, grad = _together(model, x + delta, objective)
            elif self.inline:
                logits, grad = _inline(model, x + delta, objective)
            else:
                logits, grad = backprop.read(model, x + delta, objective, noise)
            moment = torch.full_like(y, step)
            here = Iterate(x, delta, grad, torch.zeros_like(logits[:, 0]), moment, at)
            delta, state = self.rule.next(here, state, threat)
        return (x + delta).clamp(threat.low, threat.high).detach()


def compiled(adversary: Adversary) -> Callable[..., Images]:
    """The adversary as one program for the GPU, network included; only a single step is worth it."""
    if adversary.steps > 1:
        return adversary
    whole: Callable[..., Images] = torch.compile(replace(adversary, inline=True).__call__, dynamic=False)
    return whole


def _inline(model: Model, images: Images, objective: Objective) -> Reading:
    """What `backprop` reads, without asking autograd."""
    logits, pull = torch.func.vjp(lambda image: logits_of(model, image), images)  # type: ignore[misc]
    (grad,) = pull(objective.slope(logits).rescaled())
    return Reading(logits, torch.nan_to_num(grad, nan=0.0, posinf=0.0, neginf=0.0))


def _together(model: Model, images: Images, objective: Objective) -> Reading:
    """The gradient of the sum over the batch; to rescale each image's share of it would turn it."""
    images = images.detach().requires_grad_()
    with torch.enable_grad():
        logits = logits_of(model, images)
    slope = objective.slope(logits.detach())
    size = slope.log_scale()
    shares = slope.rescaled() * (size - size.amax()).exp()[:, None]
    (grad,) = torch.autograd.grad(logits, images, shares, allow_unused=True, materialize_grads=True)
    return Reading(logits.detach(), torch.nan_to_num(grad, nan=0.0, posinf=0.0, neginf=0.0))


def _reader(step: int, x: Images) -> Callable[..., Tensor]:
    """A schedule's value now, once for each image."""

    def at(schedule: Callable[[int], float | Tensor]) -> Tensor:
        value = schedule(step)
        if isinstance(value, Tensor):
            return value.to(x.dtype).expand(len(x))
        return torch.full((len(x),), value, dtype=x.dtype, device=x.device)

    return at
