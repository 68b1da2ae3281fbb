"""Convolutions that GPUs are slow at, computed as others that they are fast at.

A strided 1x1 convolution is a product with each pixel of an image thinned out before. A 3x3 convolution of
three colours leaves tensor cores idle; as a product with the 27 numbers of each window it does not.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
import torch.nn.functional as F
from torch import Tensor, nn

WINDOW = 32  # numbers in a window up to which it is worth being laid out
LANES = 8  # channels come in multiples of this


class EasedConv(nn.Conv2d, ABC):
    """A convolution that is computed as a product of a matrix with each pixel; it keeps its parameters."""

    @abstractmethod
    def laid_out(self, x: Tensor) -> Tensor:
        """What the matrix is multiplied with: images with their channels last."""

    @abstractmethod
    def matrix(self, weight: Tensor) -> Tensor:
        """The weights as one row for each channel that comes out."""

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim != 4:  # a single image
            return super().forward(input)
        return F.linear(self.laid_out(input), self.matrix(self.weight), self.bias).permute(0, 3, 1, 2)


class ThinnedConv(EasedConv):
    """A 1x1 convolution with a stride."""

    def laid_out(self, x: Tensor) -> Tensor:
        down, right = self.stride
        return x.permute(0, 2, 3, 1)[:, ::down, ::right]

    def matrix(self, weight: Tensor) -> Tensor:
        return weight.flatten(1)


class WindowConv(EasedConv):
    """A convolution of few channels without a stride."""

    def laid_out(self, x: Tensor) -> Tensor:
        (high, wide), (above, beside) = self.kernel_size, (int(side) for side in self.padding)
        x = F.pad(x.permute(0, 2, 3, 1), (0, 0, beside, beside, above, above))
        rows, columns = x.shape[1] - high + 1, x.shape[2] - wide + 1
        windows = [x[:, i : i + rows, j : j + columns] for i in range(high) for j in range(wide)]
        return _filled(torch.cat(windows, 3))

    def matrix(self, weight: Tensor) -> Tensor:
        return _filled(weight.permute(0, 2, 3, 1).flatten(1))


def _filled(values: Tensor) -> Tensor:
    """With zeros at the end of every row up to the next multiple that tensor cores want."""
    return F.pad(values, (0, -values.shape[-1] % LANES))


def ease(model: nn.Module) -> None:
    """Turn such convolutions of the network, which keep their parameters under the same names."""
    for layer in model.modules():
        if type(layer) is nn.Conv2d and is_plain(layer):
            layer.__class__ = _easier(layer)


def is_plain(conv: nn.Conv2d) -> bool:
    """Whether it is a convolution without groups, dilation or special padding."""
    zeros = conv.padding_mode == "zeros" and not isinstance(conv.padding, str)
    return zeros and conv.groups == 1 and tuple(conv.dilation) == (1, 1)


def _easier(conv: nn.Conv2d) -> type[nn.Conv2d]:
    point, still = tuple(conv.kernel_size) == (1, 1), tuple(conv.stride) == (1, 1)
    if point and not still and tuple(conv.padding) == (0, 0):
        return ThinnedConv
    return WindowConv if still and not point and conv.weight[0].numel() <= WINDOW else nn.Conv2d
