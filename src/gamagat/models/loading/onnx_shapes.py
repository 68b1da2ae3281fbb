"""ONNX operators that move, cut, join or describe tensors, and sums over dimensions."""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from gamagat.models.loading.onnx_layers import padded
from gamagat.models.loading.onnx_node import Node, each

DTYPES = {
    1: torch.float32, 2: torch.uint8, 3: torch.int8, 5: torch.int16, 6: torch.int32, 7: torch.int64,
    9: torch.bool, 10: torch.float16, 11: torch.float64, 16: torch.bfloat16,
}  # fmt: skip


def flatten(node: Node, x: Tensor) -> Tensor:
    axis = node.option("axis", 1)
    return x.reshape(math.prod(x.shape[:axis]), -1)


def reshape(node: Node, x: Tensor, shape: Tensor | None = None) -> Tensor:
    sizes = node.integers("shape", shape) or []
    keep = not node.option("allowzero", 0)
    return x.reshape([x.shape[i] if size == 0 and keep else size for i, size in enumerate(sizes)])


def transpose(node: Node, x: Tensor) -> Tensor:
    return x.permute(node.option("perm") or list(range(x.dim()))[::-1])


def concat(node: Node, *parts: Tensor) -> Tensor:
    return torch.cat(parts, dim=node.option("axis"))


def split(node: Node, x: Tensor, sizes: Tensor | None = None) -> Sequence[Tensor]:
    axis, count = node.option("axis", 0), len(node.outputs)
    lengths = node.integers("split", sizes) or math.ceil(x.shape[axis] / count)
    return torch.split(x, lengths, dim=axis)


def shape(node: Node, x: Tensor) -> Tensor:
    return torch.tensor(x.shape[node.option("start", 0) : node.option("end")])


def gather(node: Node, x: Tensor, indices: Tensor) -> Tensor:
    axis = node.option("axis", 0) % x.dim()
    places = indices.to(x.device).flatten() % x.shape[axis]
    return x.index_select(axis, places).reshape([*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]])


def unsqueeze(node: Node, x: Tensor, axes: Tensor | None = None) -> Tensor:
    places = node.integers("axes", axes) or []
    for axis in sorted(axis % (x.dim() + len(places)) for axis in places):
        x = x.unsqueeze(axis)
    return x


def squeeze(node: Node, x: Tensor, axes: Tensor | None = None) -> Tensor:
    places = node.integers("axes", axes)
    return x.squeeze() if places is None else x.squeeze(tuple(places))


def cut(
    node: Node,
    x: Tensor,
    starts: Tensor | None = None,
    ends: Tensor | None = None,
    axes: Tensor | None = None,
    steps: Tensor | None = None,
) -> Tensor:
    first, last = node.integers("starts", starts) or [], node.integers("ends", ends) or []
    places = node.integers("axes", axes) or range(len(first))
    strides = each(node.integers("steps", steps), len(first))
    for start, end, axis, step in zip(first, last, places, strides, strict=True):
        chosen = range(*slice(start, end, step).indices(x.shape[axis]))
        x = x.index_select(axis, torch.tensor(chosen, dtype=torch.int64, device=x.device))
    return x


def pad(
    node: Node, x: Tensor, pads: Tensor | None = None, value: Tensor | None = None, axes: Tensor | None = None
) -> Tensor:
    sizes, fill = (
        node.integers("pads", pads) or [],
        node.option("value", 0.0) if value is None else value.item(),
    )
    places = [axis % x.dim() for axis in node.integers("axes", axes) or range(x.dim())]
    before, after = [0] * x.dim(), [0] * x.dim()
    for index, axis in enumerate(places):
        before[axis], after[axis] = sizes[index], sizes[index + len(places)]
    mode = node.option("mode", "constant")
    if mode == "constant":
        return padded(x, before, after, fill)
    if mode not in ("reflect", "edge") or any(before[:2] + after[:2]):
        raise node.refuse(
            f"mode {mode!r} is supported as constant, reflect or edge, the latter two inside images"
        )
    return padded(x, before[2:], after[2:], mode="replicate" if mode == "edge" else mode)


def cast(node: Node, x: Tensor) -> Tensor:
    if node.option("to") not in DTYPES:
        raise node.refuse(f"type number {node.option('to')} is not supported")
    return x.to(DTYPES[node.option("to")])


def expand(node: Node, x: Tensor, sizes: Tensor) -> Tensor:
    wanted = torch.broadcast_shapes(x.shape, sizes.tolist())  # type: ignore[no-untyped-call]
    return x.expand(wanted)


def constant_of_shape(node: Node, sizes: Tensor) -> Tensor:
    value = node.option("value", torch.zeros(1))
    return torch.full(sizes.tolist(), value.item(), dtype=value.dtype)


def reduced(sum_up: Callable[[Tensor, list[int], bool], Tensor]) -> Callable[..., Tensor]:
    """An operator that sums up over some dimensions, or over all."""

    def operator(node: Node, x: Tensor, axes: Tensor | None = None) -> Tensor:
        places = node.integers("axes", axes)
        if not places and node.option("noop_with_empty_axes", 0):
            return x
        return sum_up(x, places or list(range(x.dim())), bool(node.option("keepdims", 1)))

    return operator
