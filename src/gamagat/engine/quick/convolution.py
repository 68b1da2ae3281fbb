"""A convolution and what follows it as one operation, for frozen weights: cuDNN does it in one pass."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


@torch.library.custom_op("gamagat::conv_relu", mutates_args=())
def conv_relu(
    x: Tensor,
    weight: Tensor,
    turned: Tensor,
    bias: Tensor,
    stride: list[int],
    padding: list[int],
    other: Tensor | None = None,
) -> Tensor:
    """relu(conv(x) + other), with the weights once more as `turned` makes them.

    The gradient goes to x and to the other alone.
    """
    if not x.is_cuda:
        out = F.conv2d(x, weight, bias, stride, padding)
        return (out if other is None else out + other).relu()
    if other is None:
        return torch.cudnn_convolution_relu(x, weight, bias, stride, padding, [1, 1], 1)
    return torch.cudnn_convolution_add_relu(x, weight, other, 1.0, bias, stride, padding, [1, 1], 1)


@conv_relu.register_fake
def _(
    x: Tensor,
    weight: Tensor,
    turned: Tensor,
    bias: Tensor,
    stride: list[int],
    padding: list[int],
    other: Tensor | None = None,
) -> Tensor:
    return torch.empty_like(F.conv2d(x, weight, bias, stride, padding))


def turned(weight: Tensor) -> Tensor:
    """The weights of the convolution that takes a gradient back."""
    return weight.transpose(0, 1).flip(2, 3).contiguous(memory_format=torch.channels_last)


@torch.library.custom_op("gamagat::conv_back", mutates_args=())
def conv_back(
    grad: Tensor, x: Tensor, weight: Tensor, turned: Tensor, stride: list[int], padding: list[int]
) -> Tensor:
    """The gradient for x; without a stride as a convolution with the turned weights, which is faster.

    That has no use for x. But x being asked for, a compiler keeps it, and the ReLU that made it needs it.
    """
    around = [size - 1 - side for size, side in zip(weight.shape[2:], padding, strict=True)]
    if stride == [1, 1] and min(around) >= 0:
        return F.conv2d(grad, turned, padding=around)
    to_x: Tensor = torch.ops.aten.convolution_backward(
        grad, x, weight, None, stride, padding, [1, 1], False, [0, 0], 1, [True, False, False]
    )[0]
    return to_x


@conv_back.register_fake
def _(
    grad: Tensor, x: Tensor, weight: Tensor, turned: Tensor, stride: list[int], padding: list[int]
) -> Tensor:
    return torch.empty_like(x)


def _remember(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, weight, turned, _, ctx.stride, ctx.padding, other = inputs
    ctx.save_for_backward(x, weight, turned, output)
    ctx.added = other is not None


def _back(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    *parts, output = ctx.saved_tensors
    through = torch.ops.aten.threshold_backward(grad, output, 0)
    to_x = conv_back(through, *parts, ctx.stride, ctx.padding)
    return to_x, None, None, None, None, None, through if ctx.added else None


conv_relu.register_autograd(_back, setup_context=_remember)
