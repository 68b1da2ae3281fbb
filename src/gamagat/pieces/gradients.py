"""Gradient oracles: what a network says of an image, and which way the loss climbs there."""

from collections.abc import Callable
from typing import NamedTuple

import torch

from gamagat.errors import ModelError
from gamagat.pieces.losses import Slope
from gamagat.pieces.types import Images, Model, Scores


class Reading(NamedTuple):
    """One look at the network."""

    logits: Scores
    grad: Images  # the gradient with respect to the images, times a positive number for each image


class Gradient(NamedTuple):
    """A way of reading the network, and what it costs."""

    read: Callable[[Model, Images, Callable[[Scores], Slope]], Reading]
    forwards: int
    backwards: int


def logits_of(model: Model, images: Images) -> Scores:
    """The network's logits, in single precision at least, whatever it computes in."""
    # A copy, for networks that write over their input.
    logits = model(images.clone())
    return logits if logits.dtype == torch.float64 else logits.float()


def _backprop(model: Model, images: Images, slope: Callable[[Scores], Slope]) -> Reading:
    images = images.detach().requires_grad_()
    with torch.enable_grad():
        logits = logits_of(model, images)
    if not logits.requires_grad:
        raise ModelError(
            "the network cuts the gradient between its input and its logits (no_grad, detach or numpy "
            "inside); only attacks without gradients can judge it"
        )
    seed = slope(logits.detach()).rescaled()
    (grad,) = torch.autograd.grad(logits, images, seed, allow_unused=True, materialize_grads=True)
    # One infinite entry would make a whole normalised step NaN, and an image of NaN looks robust.
    return Reading(logits.detach(), torch.nan_to_num(grad, nan=0.0, posinf=0.0, neginf=0.0))


backprop = Gradient(_backprop, forwards=1, backwards=1)
