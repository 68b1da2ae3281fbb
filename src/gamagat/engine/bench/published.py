"""The loops as they were published, written down plainly from the paper: what our speed is measured against.

Single precision, whole batches, every image takes every step, and nothing is kept that could be computed
again: GAMA-PGD asks for its reference in every step, GAT makes a pass of its own for everything. Where the
published scripts waste more than the algorithm says (gradients for constant references and for weights that
an attack does not move), these loops do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gamagat.attacks.core import ATTACKS
from gamagat.engine.training.settings import Settings
from gamagat.pieces.schedules import milestone
from gamagat.pieces.types import Images, Labels, Model, PerExample, Scores

BATCH = 300  # of the published evaluation


class GamaSettings(NamedTuple):
    """GAMA-PGD's settings, moments in steps."""

    steps: int
    weight: float  # of the squared drift
    fade: int  # the step from which that weight is zero
    rate: float  # in eps
    drops: tuple[int, ...]
    factor: float

    @classmethod
    def for_data(cls, preset: str | None, steps: int) -> GamaSettings:
        """Those that our attack has on these data."""
        own = ATTACKS.settings("gama-pgd", preset, steps=steps)
        drops = tuple(milestone(drop, steps) for drop in own["drops"])
        fade = steps if own["fade"] is None else milestone(own["fade"], steps)
        return cls(steps, own["weight"], fade, own["rate"], drops, own["factor"])


def random_corner(x: Images, eps: float) -> Images:
    """Every pixel up or down by eps."""
    return eps * torch.empty_like(x).uniform_(-eps, eps).sign()


def gama_pgd(
    model: Model, x: Images, y: Labels, eps: float, settings: GamaSettings, delta: Images | None = None
) -> Images:
    """The last iterate of the published GAMA-PGD, from the perturbation `delta` or a random corner."""
    start = x + (random_corner(x, eps) if delta is None else delta)  # not clipped to the pixel range
    image, size = start, settings.rate * eps
    for step in range(settings.steps):
        if step in settings.drops:
            size *= settings.factor
        weight = settings.weight * max(0.0, 1 - step / settings.fade) if settings.fade else 0.0
        with torch.no_grad():
            reference = model(start).softmax(1)
        image = image.detach().requires_grad_()
        with torch.enable_grad():
            probs = model(image).softmax(1)
            loss = margin(probs, y) + weight * (probs - reference).square().sum(1)
            (grad,) = torch.autograd.grad(loss.mean(), image)
        image = (image.detach() + size * grad.sign()).clamp(0.0, 1.0)
        image = x + (image - x).clamp(-eps, eps)
    return image.clamp(0.0, 1.0)


def margin(probs: Scores, y: Labels) -> PerExample:
    """The probability of the best wrong class less that of the label."""
    own = F.one_hot(y, probs.shape[1])
    best = (probs - 1000.0 * own).argmax(1, keepdim=True)
    return probs.gather(1, best).squeeze(1) - (probs * own).sum(1)


class GatSettings(NamedTuple):
    """What a step of GAT needs to know."""

    eps: float
    alpha: float  # size of the noise, in eps
    alternate: bool  # whether every second batch is attacked without the drift


def gat_step(  # one iteration of the paper's algorithm S1, in its order
    model: nn.Module, optimizer: torch.optim.Optimizer, x: Images, y: Labels, gat: GatSettings,
    weight: float, number: int,
) -> Tensor:  # fmt: skip
    """One iteration of GAT: a clean pass, the attack in evaluation mode, both passes in training mode."""
    with torch.no_grad():
        reference = model(x).softmax(1)
    model.eval()
    guide = 0.0 if gat.alternate and number % 2 == 0 else weight
    images = gat_images(model, x, y, gat, reference, guide)
    model.train()
    adversarial, clean = model(images), model(x)
    drift = (clean.softmax(1) - adversarial.softmax(1)).square().sum(1).mean()
    loss: Tensor = F.cross_entropy(clean, y) + weight * drift
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    return loss.detach()


def gat_images(
    model: nn.Module, x: Images, y: Labels, gat: GatSettings, reference: Scores, weight: float
) -> Images:
    """Sign noise, one step of the full eps up the cross-entropy plus the weighted drift, and the clips."""
    noise = gat.alpha * gat.eps * (0.5 - torch.rand_like(x)).sign()
    start = (x + noise).clamp(0.0, 1.0).requires_grad_()
    logits = model(start)
    drift = (logits.softmax(1) - reference).square().sum(1).mean()
    (grad,) = torch.autograd.grad(F.cross_entropy(logits, y) + weight * drift, start)
    moved = (start.detach() + gat.eps * grad.sign()).clamp(0.0, 1.0)
    return (x + (moved - x).clamp(-gat.eps, gat.eps)).clamp(0.0, 1.0)


def optimizer_for(settings: Settings, parameters: Sequence[nn.Parameter]) -> torch.optim.Optimizer:
    """torch's own optimiser with our settings."""
    if settings.optimizer == "adam":
        return torch.optim.Adam(
            parameters,
            lr=settings.rate,
            betas=(settings.momentum, 0.999),
            weight_decay=settings.weight_decay,
        )
    return torch.optim.SGD(
        parameters, lr=settings.rate, momentum=settings.momentum, weight_decay=settings.weight_decay
    )
