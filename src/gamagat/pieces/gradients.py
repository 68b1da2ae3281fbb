"""Gradient oracles: what a network says of an image, and which way the loss climbs there."""

from collections.abc import Callable
from typing import NamedTuple

import torch

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
    logits = model(images)
    return logits if logits.dtype == torch.float64 else logits.float()


def _backprop(model: Model, images: Images, slope: Callable[[Scores], Slope]) -> Reading:
    images = images.detach().requires_grad_()
    with torch.enable_grad():
        logits = logits_of(model, images)
    seed = slope(logits.detach()).rescaled()
    (grad,) = torch.autograd.grad(logits, images, seed)
    return Reading(logits.detach(), grad)


backprop = Gradient(_backprop, forwards=1, backwards=1)
