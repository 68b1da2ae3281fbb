"""Runs ONNX graphs of image classifiers in torch, so that gradients flow through them."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from gamagat.errors import ModelError
from gamagat.models.loading.onnx_node import Node
from gamagat.models.loading.onnx_operators import OPERATORS
from gamagat.pieces.types import Images, Scores


@dataclass(frozen=True, slots=True)
class Graph:
    """What a file holds: the steps in order, the tensors known beforehand, and what goes in and out."""

    nodes: list[Node]
    known: dict[str, Tensor]
    source: str
    shape: list[int | None]  # of the images; None where any size is welcome
    result: str


def load_onnx(file: Path) -> nn.Module:
    """The network in an .onnx file; weights in files beside it are found."""
    try:
        onnx = importlib.import_module("onnx")
    except ImportError:
        raise ModelError(f"{file} needs the package onnx; run: pip install gamagat[onnx]") from None
    try:
        model = onnx.load(file)
    except Exception as error:
        first = (str(error) or type(error).__name__).splitlines()[0]
        raise ModelError(f"{file} is no valid ONNX model: {first}") from None
    return OnnxNet(_graph(onnx, model, file), file)


def _graph(onnx: Any, model: Any, file: Path) -> Graph:
    opset = next((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), 1)
    nodes = [_node(onnx, node, opset) for node in model.graph.node]
    _check_operators(nodes, file)
    known = {tensor.name: _tensor(onnx, tensor) for tensor in model.graph.initializer}
    known |= {node.outputs[0]: _constant(node) for node in nodes if node.op == "Constant"}
    sources = [value for value in model.graph.input if value.name not in known]
    if len(sources) != 1 or len(model.graph.output) != 1:
        names = [[value.name for value in side] for side in (sources, model.graph.output)]
        raise ModelError(
            f"{file} must take images and return logits, nothing else; it has {names[0]} -> {names[1]}"
        )
    steps = [node for node in nodes if node.op != "Constant"]
    graph = Graph(steps, known, sources[0].name, _shape(sources[0]), model.graph.output[0].name)
    _check_names(graph, file)
    return graph


def _node(onnx: Any, node: Any, opset: int) -> Node:
    options = {entry.name: _option(onnx, entry) for entry in node.attribute}
    op = node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"
    return Node(op, node.name, tuple(node.input), tuple(node.output), options, opset)


def _option(onnx: Any, entry: Any) -> Any:
    value = onnx.helper.get_attribute_value(entry)
    if isinstance(value, onnx.TensorProto):
        return _tensor(onnx, value)
    if isinstance(value, bytes):
        return value.decode()
    return list(value) if isinstance(value, Sequence) else value


def _tensor(onnx: Any, tensor: Any) -> Tensor:
    try:
        return torch.from_numpy(onnx.numpy_helper.to_array(tensor).copy())
    except TypeError as error:
        raise ModelError(
            f"ONNX tensor {tensor.name!r} is of a type that torch cannot take: {error}"
        ) from None


def _constant(node: Node) -> Tensor:
    """The value of a Constant, under whichever of its settings it is kept."""
    value = next(iter(node.options.values()))
    return value if isinstance(value, Tensor) else torch.tensor(value)


def _check_operators(nodes: Sequence[Node], file: Path) -> None:
    foreign = sorted({node.op for node in nodes} - OPERATORS.keys() - {"Constant"})
    if foreign:
        raise ModelError(
            f"{file} uses ONNX operators that are not supported: {', '.join(foreign)}; "
            "give the network as a torch.export program (.pt2) or as package.module:callable"
        )


def _check_names(graph: Graph, file: Path) -> None:
    """Every value must have been written before it is read."""
    written = {"", graph.source, *graph.known}
    for node in graph.nodes:
        if lost := [name for name in node.inputs if name not in written]:
            raise ModelError(
                f"{file} is no valid ONNX model: {node.op} reads {lost[0]!r}, which nothing writes"
            )
        written.update(node.outputs)
    if graph.result not in written:
        raise ModelError(f"{file} is no valid ONNX model: nothing writes its output {graph.result!r}")


def _shape(value: Any) -> list[int | None]:
    return [size.dim_value or None for size in value.type.tensor_type.shape.dim]


class OnnxNet(nn.Module):
    """An ONNX graph with one input, the images, and one output, the logits."""

    def __init__(self, graph: Graph, file: Path) -> None:
        super().__init__()
        self._graph, self._file = graph, file
        # Floats follow the network to its device; integers are sizes and places, which Python reads.
        floats = [name for name, value in graph.known.items() if value.is_floating_point()]
        self._floats = {name: f"value{index}" for index, name in enumerate(floats)}
        for name, attribute in self._floats.items():
            self.register_parameter(attribute, nn.Parameter(graph.known[name], requires_grad=False))
        self._last_use = {name: index for index, node in enumerate(graph.nodes) for name in node.inputs}

    def forward(self, x: Images) -> Scores:
        self._check(x)
        values: dict[str, Any] = dict(self._graph.known)
        values |= {name: getattr(self, attribute) for name, attribute in self._floats.items()}
        values |= {"": None, self._graph.source: x}  # an input left out has the empty name
        for index, node in enumerate(self._graph.nodes):
            values.update(zip(node.outputs, self._run(node, values), strict=False))
            self._forget(node, index, values)
        scores: Scores = values[self._graph.result]
        if scores.shape[:1] != x.shape[:1]:
            raise self._fixed(x, f"it returned {tuple(scores.shape)}")
        return scores

    def _check(self, x: Images) -> None:
        """The batch size may differ from the one in the file: most graphs serve any."""
        wanted = self._graph.shape
        fits = all(size in (None, given) for size, given in zip(wanted[1:], x.shape[1:], strict=False))
        if wanted and (len(wanted) != x.dim() or not fits):
            sizes = " x ".join(str(size or "any") for size in wanted)
            raise ModelError(f"{self._file} takes images of shape {sizes}, got {tuple(x.shape)}")

    def _run(self, node: Node, values: dict[str, Any]) -> list[Tensor]:
        device = values[self._graph.source].device
        try:
            made = OPERATORS[node.op](node, *(values[name] for name in node.inputs))
        except (ModelError, torch.OutOfMemoryError):
            raise
        except Exception as error:
            raise self._fixed(values[self._graph.source], str(node.refuse(str(error)))) from error
        results = [made] if isinstance(made, Tensor) else made
        # A float that was computed from sizes meets the images sooner or later.
        return [value.to(device) if value.is_floating_point() else value for value in results]

    def _forget(self, node: Node, index: int, values: dict[str, Any]) -> None:
        """Values that no later step reads need not stay in memory."""
        kept = {"", self._graph.source, self._graph.result}
        for name in set(node.inputs) - kept:
            if self._last_use[name] == index:
                del values[name]

    def _fixed(self, x: Images, what: str) -> ModelError:
        size = self._graph.shape[0] if self._graph.shape else None
        hint = f"; it was exported for batches of {size}, export it with a free batch size" if size else ""
        return ModelError(f"{self._file} fails on a batch of shape {tuple(x.shape)}: {what}{hint}")
