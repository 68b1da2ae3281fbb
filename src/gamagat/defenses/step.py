"""One training step, the same for every recipe: what it minimises, differentiated."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gamagat.defenses.core import Recipe, Stage, Terms


def gradients(
    recipe: Recipe,
    stage: Stage,
    parameters: Sequence[Tensor],
    awp: float = 0.0,
    scale: Tensor | float = 1.0,
) -> tuple[Terms, list[Tensor]]:
    """The terms of the recipe and the gradient of `scale` times their sum, for each parameter.

    With `awp` they are taken where a step of that relative size has made the weights worse (adversarial
    weight perturbation); the weights come back as they were.
    """
    terms = recipe(stage)
    if awp == 0:
        return terms, _differentiated(terms, parameters, scale)
    matrices = [parameter for parameter in parameters if parameter.ndim > 1]
    slopes = torch.autograd.grad(scale * terms.loss, matrices, allow_unused=True, materialize_grads=True)
    shifts = _worse(matrices, slopes, awp)
    kept = [matrix.detach().clone() for matrix in matrices]  # to subtract the shift again would round
    stage.seen = 0  # the same adversarial images once more
    try:
        _shifted(matrices, shifts)
        terms = recipe(stage)
        return terms, _differentiated(terms, parameters, scale)
    finally:
        stage.seen = None
        _restored(matrices, kept)


def _differentiated(terms: Terms, parameters: Sequence[Tensor], scale: Tensor | float) -> list[Tensor]:
    wanted = [*parameters] if terms.leaf is None else [*parameters, terms.leaf]
    grads = torch.autograd.grad(scale * terms.loss, wanted, allow_unused=True, materialize_grads=True)
    if terms.leaf is not None and terms.carry is not None:
        terms.carry(grads[-1].nan_to_num(0.0, 0.0, 0.0))
    return list(grads[: len(parameters)])


def _worse(weights: Sequence[Tensor], grads: Sequence[Tensor], size: float) -> list[Tensor]:
    """A step up the gradient for each weight, as long as `size` times the weight itself."""
    shifts = [
        size * weight.detach().norm() * grad / grad.norm().clamp_min(torch.finfo(grad.dtype).tiny)
        for weight, grad in zip(weights, grads, strict=True)
    ]
    return [shift.nan_to_num(0.0, 0.0, 0.0) for shift in shifts]  # where a scaled gradient overflowed


@torch.no_grad()
def _shifted(weights: Sequence[Tensor], shifts: Sequence[Tensor]) -> None:
    for weight, shift in zip(weights, shifts, strict=True):
        weight.add_(shift)


@torch.no_grad()
def _restored(weights: Sequence[Tensor], kept: Sequence[Tensor]) -> None:
    for weight, old in zip(weights, kept, strict=True):
        weight.copy_(old)
