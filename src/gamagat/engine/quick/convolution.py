"""A convolution with its ReLU as one operation, for frozen weights; on a GPU cuDNN does both in one pass."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


@torch.library.custom_op("gamagat::conv_relu", mutates_args=())
def conv_relu(x: Tensor, weight: Tensor, bias: Tensor, stride: list[int], padding: list[int]) -> Tensor:
    """relu(conv(x)); the gradient goes to x alone."""
    if x.is_cuda:
        return torch.cudnn_convolution_relu(x, weight, bias, stride, padding, [1, 1], 1)
    return F.conv2d(x, weight, bias, stride, padding).relu()


@conv_relu.register_fake
def _(x: Tensor, weight: Tensor, bias: Tensor, stride: list[int], padding: list[int]) -> Tensor:
    return torch.empty_like(F.conv2d(x, weight, bias, stride, padding))


def _remember(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, weight, _, ctx.stride, ctx.padding = inputs
    ctx.save_for_backward(x, weight, output)


def _back(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    x, weight, output = ctx.saved_tensors
    through = torch.ops.aten.threshold_backward(grad, output, 0)
    to_x, _, _ = torch.ops.aten.convolution_backward(
        through, x, weight, None, ctx.stride, ctx.padding, [1, 1], False, [0, 0], 1, [True, False, False]
    )
    return to_x, None, None, None, None


conv_relu.register_autograd(_back, setup_context=_remember)
