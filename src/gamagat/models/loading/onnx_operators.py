"""The table of ONNX operators that image classifiers use: one small differentiable function each."""

import functools
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from gamagat.models.loading import onnx_layers as layers
from gamagat.models.loading import onnx_shapes as shapes
from gamagat.models.loading.onnx_node import Node

Operator = Callable[..., Tensor | Sequence[Tensor]]


def _plain(function: Callable[..., Tensor]) -> Operator:
    """An operator without settings."""
    return lambda node, *values: function(*values)


def _folded(function: Callable[[Tensor, Tensor], Tensor]) -> Operator:
    """An operator over any number of values."""
    return lambda node, *values: functools.reduce(function, values)


def _with(function: Callable[..., Tensor], **settings: float) -> Operator:
    """An operator whose settings have defaults and go to torch in this order."""
    return lambda node, x: function(x, *(node.option(key, default) for key, default in settings.items()))


def _divide(a: Tensor, b: Tensor) -> Tensor:
    whole = not (a.is_floating_point() or b.is_floating_point())
    return torch.div(a, b, rounding_mode="trunc") if whole else a / b


def _clip(node: Node, x: Tensor, low: Tensor | None = None, high: Tensor | None = None) -> Tensor:
    low, high = (node.option(key) if value is None else value for key, value in (("min", low), ("max", high)))
    return x if low is None and high is None else torch.clamp(x, low, high)


OPERATORS: dict[str, Operator] = {
    "Abs": _plain(torch.abs),
    "Add": _plain(torch.add),
    "And": _plain(torch.logical_and),
    "AveragePool": layers.average_pool,
    "BatchNormalization": layers.batch_normalization,
    "Cast": shapes.cast,
    "Clip": _clip,
    "Concat": shapes.concat,
    "ConstantOfShape": shapes.constant_of_shape,
    "Conv": layers.conv,
    "Div": _plain(_divide),
    "Dropout": layers.dropout,
    "Elu": _with(F.elu, alpha=1.0),
    "Equal": _plain(torch.eq),
    "Erf": _plain(torch.erf),
    "Exp": _plain(torch.exp),
    "Expand": shapes.expand,
    "Flatten": shapes.flatten,
    "Gather": shapes.gather,
    "Gelu": lambda node, x: F.gelu(x, approximate=node.option("approximate", "none")),
    "Gemm": layers.gemm,
    "GlobalAveragePool": layers.global_average_pool,
    "GlobalMaxPool": layers.global_max_pool,
    "Greater": _plain(torch.gt),
    "HardSigmoid": _with(lambda x, alpha, beta: (alpha * x + beta).clamp(0, 1), alpha=0.2, beta=0.5),
    "HardSwish": _plain(F.hardswish),
    "Identity": _plain(lambda x: x),
    "LayerNormalization": layers.layer_normalization,
    "LeakyRelu": _with(F.leaky_relu, alpha=0.01),
    "Less": _plain(torch.lt),
    "Log": _plain(torch.log),
    "LogSoftmax": layers.log_softmax,
    "MatMul": _plain(torch.matmul),
    "Max": _folded(torch.maximum),
    "MaxPool": layers.max_pool,
    "Min": _folded(torch.minimum),
    "Mod": lambda node, a, b: torch.fmod(a, b) if node.option("fmod", 0) else torch.remainder(a, b),
    "Mul": _plain(torch.mul),
    "Neg": _plain(torch.neg),
    "Not": _plain(torch.logical_not),
    "PRelu": _plain(lambda x, slope: torch.where(x < 0, slope * x, x)),
    "Or": _plain(torch.logical_or),
    "Pad": shapes.pad,
    "Pow": _plain(torch.pow),
    "Reciprocal": _plain(torch.reciprocal),
    "ReduceMax": shapes.reduced(torch.amax),
    "ReduceMean": shapes.reduced(torch.mean),
    "ReduceSum": shapes.reduced(torch.sum),
    "Relu": _plain(F.relu),
    "Reshape": shapes.reshape,
    "Shape": shapes.shape,
    "Sigmoid": _plain(torch.sigmoid),
    "Slice": shapes.cut,
    "Softmax": layers.softmax,
    "Softplus": _plain(F.softplus),
    "Split": shapes.split,
    "Sqrt": _plain(torch.sqrt),
    "Squeeze": shapes.squeeze,
    "Sub": _plain(torch.sub),
    "Sum": _folded(torch.add),
    "Tanh": _plain(torch.tanh),
    "Transpose": shapes.transpose,
    "Unsqueeze": shapes.unsqueeze,
    "Where": _plain(torch.where),
}
