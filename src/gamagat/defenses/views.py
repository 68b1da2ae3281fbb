"""Several views of a batch through the network at once, each normalised by statistics of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class ViewNorm(nn.BatchNorm2d):
    """Batch norm for a batch of `views` equal parts: what `views` separate passes compute, one after another.

    Convolutions are faster on one large batch than on two small ones; statistics must not be shared.
    """

    views: int = 1

    def forward(self, x: Tensor) -> Tensor:
        if self.views == 1 or not self.training:
            return super().forward(x)
        # First within each image, then over those of a view: so the compiler keeps channels last throughout.
        count, wide = len(x) // self.views, x.to(self.weight.dtype)
        spreads, means = (
            part.view(self.views, count, -1) for part in torch.var_mean(wide, (2, 3), correction=0)
        )
        mean = means.mean(1)
        spread = spreads.mean(1) + (means - mean[:, None]).square().mean(1)
        self._follow(mean.detach(), spread.detach(), count * x.shape[2] * x.shape[3])
        scale = self.weight * (spread + self.eps).rsqrt()
        shift = self.bias - mean * scale
        return (wide * _lifted(scale, count) + _lifted(shift, count)).to(x.dtype)

    @torch.no_grad()
    def _follow(self, mean: Tensor, spread: Tensor, count: int) -> None:
        """The running statistics, moved by one view after another."""
        if self.running_mean is None or self.running_var is None or self.num_batches_tracked is None:
            return
        unbiased = spread * (count / max(1, count - 1))
        for view in range(self.views):
            self.running_mean.lerp_(mean[view], float(self.momentum or 0.0))
            self.running_var.lerp_(unbiased[view], float(self.momentum or 0.0))
        self.num_batches_tracked += self.views


def _lifted(values: Tensor, count: int) -> Tensor:
    """One number for each view and channel, for each of the `count` images of a view."""
    return values.repeat_interleave(count, 0)[:, :, None, None]


def can_be_joined(model: nn.Module) -> bool:
    """Make the network ready for several views at once; false if it has norms that we do not know."""
    norms = [layer for layer in model.modules() if isinstance(layer, nn.modules.batchnorm._BatchNorm)]
    usual = (nn.BatchNorm2d, ViewNorm)
    if not all(type(layer) in usual and layer.affine and layer.momentum is not None for layer in norms):
        return False
    for layer in norms:
        layer.__class__ = ViewNorm  # the same parameters and buffers under the same names
    return True


@contextmanager
def seeing(model: nn.Module, views: int) -> Iterator[None]:
    """The batches of this network have so many parts."""
    norms = [layer for layer in model.modules() if isinstance(layer, ViewNorm)]
    for layer in norms:
        layer.views = views
    try:
        yield
    finally:
        for layer in norms:
            layer.views = 1
