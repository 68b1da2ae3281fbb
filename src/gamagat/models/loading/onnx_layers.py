"""ONNX operators with a window or with weights: convolution, pooling, normalisation, matrix products."""

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from gamagat.models.loading.onnx_node import Node, each

_CONV: Any = (None, F.conv1d, F.conv2d, F.conv3d)
_MAX_POOL: Any = (None, F.max_pool1d, F.max_pool2d, F.max_pool3d)
_AVERAGE_POOL: Any = (None, F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)


def _window(
    node: Node, x: Tensor, kernel: Sequence[int]
) -> tuple[list[int], list[int], list[int], list[int]]:
    """Strides, dilations, and the padding before and after each dimension."""
    rank = len(kernel)
    strides, dilations = each(node.option("strides"), rank), each(node.option("dilations"), rank)
    pads = each(node.option("pads"), 2 * rank, default=0)
    auto = node.option("auto_pad", "NOTSET")
    if auto not in ("NOTSET", "VALID"):
        shapes = zip(x.shape[2:], kernel, strides, dilations, strict=True)
        totals = [max(0, (math.ceil(n / s) - 1) * s + (k - 1) * d + 1 - n) for n, k, s, d in shapes]
        small, large = [t // 2 for t in totals], [t - t // 2 for t in totals]
        pads = small + large if auto == "SAME_UPPER" else large + small
    return strides, dilations, pads[:rank], pads[rank:]


def padded(
    x: Tensor, before: Sequence[int], after: Sequence[int], value: float = 0.0, mode: str = "constant"
) -> Tensor:
    """Pad the last dimensions; torch counts them from the last."""
    pairs = list(zip(before, after, strict=True))[::-1]
    return F.pad(x, [size for pair in pairs for size in pair], mode, value)


def conv(node: Node, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    strides, dilations, before, after = _window(node, x, weight.shape[2:])
    if before != after:
        x, before = padded(x, before, after), [0] * len(before)
    out: Tensor = _CONV[len(before)](x, weight, bias, strides, before, dilations, node.option("group", 1))
    return out


def max_pool(node: Node, x: Tensor) -> Tensor:
    kernel = node.option("kernel_shape")
    strides, dilations, before, after = _window(node, x, kernel)
    if before != after or any(2 * pad > size for pad, size in zip(before, kernel, strict=True)):
        x, before = padded(x, before, after, -math.inf), [0] * len(before)
    ceil = bool(node.option("ceil_mode", 0))
    out: Tensor = _MAX_POOL[len(kernel)](x, kernel, strides, before, dilations, ceil_mode=ceil)
    return out


def average_pool(node: Node, x: Tensor) -> Tensor:
    kernel, ceil = node.option("kernel_shape"), bool(node.option("ceil_mode", 0))
    strides, dilations, before, after = _window(node, x, kernel)
    if any(step != 1 for step in dilations):
        raise node.refuse("dilations are not supported")
    counted = bool(node.option("count_include_pad", 0))
    pool = _AVERAGE_POOL[len(kernel)]
    if before == after and all(2 * pad <= size for pad, size in zip(before, kernel, strict=True)):
        symmetric: Tensor = pool(x, kernel, strides, before, ceil, counted)
        return symmetric
    out: Tensor = pool(padded(x, before, after), kernel, strides, 0, ceil)
    # Without counting the padding: divide by the share of each window that lies on the image.
    return out if counted else out / pool(padded(torch.ones_like(x), before, after), kernel, strides, 0, ceil)


def global_average_pool(node: Node, x: Tensor) -> Tensor:
    return x.mean(dim=tuple(range(2, x.dim())), keepdim=True)


def global_max_pool(node: Node, x: Tensor) -> Tensor:
    return x.amax(dim=tuple(range(2, x.dim())), keepdim=True)


def batch_normalization(
    node: Node, x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, var: Tensor
) -> Tensor:
    if node.option("training_mode", 0):
        raise node.refuse("it is in training mode; export the network in eval mode")
    return F.batch_norm(x, mean, var, scale, bias, training=False, eps=node.option("epsilon", 1e-5))


def layer_normalization(node: Node, x: Tensor, scale: Tensor, bias: Tensor | None = None) -> Tensor:
    return F.layer_norm(x, x.shape[node.option("axis", -1) :], scale, bias, node.option("epsilon", 1e-5))


def gemm(node: Node, a: Tensor, b: Tensor, c: Tensor | None = None) -> Tensor:
    left = a.T if node.option("transA", 0) else a
    right = b.T if node.option("transB", 0) else b
    product: Tensor = node.option("alpha", 1.0) * (left @ right)
    return product if c is None else product + node.option("beta", 1.0) * c


def dropout(node: Node, x: Tensor, ratio: Tensor | None = None, training: Tensor | None = None) -> Tensor:
    if training is not None and bool(training):
        raise node.refuse("it is in training mode; export the network in eval mode")
    return x


def softmax(node: Node, x: Tensor) -> Tensor:
    if node.opset >= 13:
        return x.softmax(node.option("axis", -1))
    return _old_axis(node, x).softmax(1).view_as(x)


def log_softmax(node: Node, x: Tensor) -> Tensor:
    if node.opset >= 13:
        return x.log_softmax(node.option("axis", -1))
    return _old_axis(node, x).log_softmax(1).view_as(x)


def _old_axis(node: Node, x: Tensor) -> Tensor:
    """Before version 13, softmax ran over all dimensions from the axis on."""
    axis = node.option("axis", 1) % x.dim()
    return x.reshape(math.prod(x.shape[:axis]), -1)
