"""A network in half precision whose gradients neither vanish nor overflow on their way back."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from gamagat.engine.quick.agreement import pulled
from gamagat.pieces.types import Images, Scores

FACTORS = (2.0**12, 2.0**8, 2.0**4, 1.0)  # how much louder gradients may travel in half precision
HEADROOM = 2.0**6  # by how much a gradient may be larger than those of the sample


class HalfNetwork:
    """A network in half precision; gradients travel through it `factor` times as loud, lest they vanish."""

    def __init__(self, net: Callable[[Images], Scores], compiled: bool = False) -> None:
        self.net, self.compiled, self.factor = net, compiled, 1.0

    def __call__(self, images: Images) -> Scores:
        images = louder(images.contiguous(memory_format=torch.channels_last), 1 / self.factor)
        if self.compiled and len(images) > 1:
            _any_number_of(images)
        with torch.autocast(images.device.type, torch.float16), _quiet():
            scores = self.net(images)
        return louder(scores.float(), self.factor)


def _any_number_of(images: Images) -> None:
    """Tell the compiler that batches have many sizes, so that it compiles once for all."""
    from torch._dynamo import mark_dynamic  # noqa: PLC0415 - two seconds that most commands can do without

    mark_dynamic(images, 0)


class Louder(torch.autograd.Function):
    """The same values; the gradient on its way back times a factor."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        return values.clone()  # a view could not be written over, as some networks do

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return grads[0] * ctx.factor, None


def louder(values: Tensor, factor: float) -> Tensor:
    """The same values, whose gradient will be multiplied by the factor."""
    same: Tensor = Louder.apply(values, factor)  # type: ignore[no-untyped-call]
    return same


def tuned(net: HalfNetwork, sample: Images) -> bool:
    """Make gradients as loud as they may be; false if they overflow however soft."""
    for factor in FACTORS:
        net.factor = factor * HEADROOM if factor > 1 else 1.0
        fits = bool(pulled(net, sample)[1].isfinite().all())
        net.factor = factor
        if fits:
            return True
    return False


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the compiler's remarks on ranges of sizes, which mean nothing to a user."""
    logger = logging.getLogger("torch.utils._sympy.interp")
    # Not by its level: that would have every logger think anew at each step.
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before
