"""Several views of a batch through the network at once, each normalised by statistics of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy

import torch
from torch import Tensor, nn

from gamagat.pieces.types import Images


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


def can_be_joined(model: nn.Module, sample: Images) -> bool:
    """Make the network ready for several views at once, if that is the same as one after another.

    It is not where images of a batch meet in something else than a batch norm that we know.
    """
    norms = [layer for layer in model.modules() if isinstance(layer, nn.modules.batchnorm._BatchNorm)]
    usual = (nn.BatchNorm2d, ViewNorm)
    if not all(type(layer) in usual and layer.affine and layer.momentum is not None for layer in norms):
        return False
    for layer in norms:
        layer.__class__ = ViewNorm  # the same parameters and buffers under the same names
    if _joined_is_apart(model, sample):
        return True
    for layer in norms:
        layer.__class__ = nn.BatchNorm2d
    return False


@torch.no_grad()
def _joined_is_apart(model: nn.Module, sample: Images) -> bool:
    """Whether two views in one batch give what they give apart, but for rounding."""
    apart, together = (deepcopy(model).train() for _ in range(2))
    for layer in (*apart.modules(), *together.modules()):
        if isinstance(layer, nn.modules.dropout._DropoutNd):
            layer.eval()  # its dice fall otherwise in a batch of another size
    views = (sample, 1 - sample.square().roll(1, 0))  # unlike in more than scale, which a norm takes away
    expected = torch.cat([apart(view) for view in views])
    with seeing(together, 2):
        gap = (together(torch.cat(views)) - expected).abs().amax()
    return bool(gap <= 0.02 * expected.abs().amax())


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
