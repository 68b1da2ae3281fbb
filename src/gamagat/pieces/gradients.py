"""Gradient oracles: what a network says of an image, and which way the loss climbs there."""

from collections.abc import Callable
from typing import NamedTuple

import torch

from gamagat.errors import ConfigError, ModelError
from gamagat.pieces.losses import Slope
from gamagat.pieces.noise import Noise
from gamagat.pieces.trees import lift
from gamagat.pieces.types import Images, Model, PerExample, Scores


class Reading(NamedTuple):
    """One look at the network."""

    logits: Scores
    grad: Images  # the gradient with respect to the images, times a positive number for each image


class Objective(NamedTuple):
    """What is to climb, as a function of the logits of a batch."""

    value: Callable[[Scores], PerExample]
    slope: Callable[[Scores], Slope]


class Gradient(NamedTuple):
    """A way of reading the network, and what it costs."""

    read: Callable[[Model, Images, Objective, Noise], Reading]
    forwards: int
    backwards: int
    random: bool = False  # whether it draws from the noise


def logits_of(model: Model, images: Images) -> Scores:
    """The network's logits, in single precision at least, whatever it computes in."""
    # A copy, for networks that write over their input.
    logits = model(images.clone())
    return logits if logits.dtype == torch.float64 else logits.float()


def answer(model: Model, images: Images) -> Scores:
    """The logits of images that want a gradient, with a graph to go back through."""
    with torch.enable_grad():
        logits = logits_of(model, images)
    if not logits.requires_grad:
        raise ModelError(
            "the network cuts the gradient between its input and its logits (no_grad, detach or numpy "
            "inside); only attacks without gradients can judge it"
        )
    return logits


def _backprop(model: Model, images: Images, objective: Objective, noise: Noise) -> Reading:
    logits, _, grad = _pulled_back(model, images, objective)
    return Reading(logits, grad)


def _pulled_back(model: Model, images: Images, objective: Objective) -> tuple[Scores, Slope, Images]:
    """The logits, the slope there, and its rescaled direction pulled back through the network."""
    images = images.detach().requires_grad_()
    logits = answer(model, images)
    slope = objective.slope(logits.detach())
    (grad,) = torch.autograd.grad(logits, images, slope.rescaled(), allow_unused=True, materialize_grads=True)
    # One infinite entry would make a whole normalised step NaN, and an image of NaN looks robust.
    return logits.detach(), slope, torch.nan_to_num(grad, nan=0.0, posinf=0.0, neginf=0.0)


backprop = Gradient(_backprop, forwards=1, backwards=1)


def averaged(times: int) -> Gradient:
    """The mean over several looks at a network that answers at random; the logits are means, too."""
    if times < 1:
        raise ConfigError(f"a gradient must be averaged over at least one look, got {times}")

    def read(model: Model, images: Images, objective: Objective, noise: Noise) -> Reading:
        logits, slope, grad = _pulled_back(model, images, objective)
        size = slope.log_scale()
        for _ in range(times - 1):
            more, slope, step = _pulled_back(model, images, objective)
            # Each look comes back rescaled; their mean needs the true sizes.
            larger = torch.maximum(size, slope.log_scale())
            # A network of double precision has slopes of double precision, whatever its images are.
            old, new = ((part - larger).exp().to(grad.dtype) for part in (size, slope.log_scale()))
            grad = lift(old, grad) * grad + lift(new, grad) * step
            logits, size = logits + more, larger
        return Reading(logits / times, grad)

    return Gradient(read, forwards=times, backwards=times)


def spsa(samples: int, delta: float) -> Gradient:
    """The gradient from differences of the loss along random signs, without looking inside the network."""
    if samples < 1 or not delta > 0:
        raise ConfigError(
            f"spsa needs at least one sample and a positive delta, got samples={samples}, delta={delta:g}"
        )

    @torch.no_grad()
    def read(model: Model, images: Images, objective: Objective, noise: Noise) -> Reading:
        grad = torch.zeros_like(images)
        for sample in range(samples):
            signs = noise.fold(sample).signs(images)
            ahead, behind = (
                objective.value(logits_of(model, images + way * signs)) for way in (delta, -delta)
            )
            rise = (ahead - behind).to(images.dtype) / (2 * delta)
            grad += lift(torch.nan_to_num(rise, nan=0.0, posinf=0.0, neginf=0.0), images) * signs
        return Reading(logits_of(model, images), grad / samples)

    return Gradient(read, forwards=2 * samples + 1, backwards=0, random=True)
