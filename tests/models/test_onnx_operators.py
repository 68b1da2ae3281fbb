"""Each ONNX operator, against ONNX's own reference."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from model_helpers import Arrays, floats, ints, node, save_graph

from gamagat.models.core import load_model
from gamagat.models.loading.onnx_operators import OPERATORS

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, numpy_helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

COLOUR = (2, 3, 8, 8)
KERNEL = {"w": floats(6, 3, 3, 3), "b": floats(6)}
NORM = {"s": floats(3), "b": floats(3), "m": floats(3), "v": np.abs(floats(3)) + 0.1}
FLAT = [node("Flatten", "x", into="f")]
SINGLE = (
    "Relu",
    "Sigmoid",
    "Tanh",
    "Abs",
    "Neg",
    "Exp",
    "Erf",
    "Identity",
    "Softplus",
    "HardSwish",
    "Reciprocal",
)

# name: (nodes, tensors known beforehand, version of the standard)
CASES: dict[str, tuple[list[Any], Arrays, int]] = {
    **{op: ([node(op, "x")], {}, 17) for op in SINGLE},
    "Conv": ([node("Conv", "x", "w", "b", pads=[1, 1, 1, 1])], KERNEL, 17),
    "Conv without bias, strided": ([node("Conv", "x", "w", strides=[2, 2])], KERNEL, 17),
    "Conv dilated, uneven padding": (
        [node("Conv", "x", "w", pads=[0, 1, 2, 3], dilations=[2, 2])],
        KERNEL,
        17,
    ),
    "Conv SAME_UPPER": ([node("Conv", "x", "w", auto_pad="SAME_UPPER", strides=[2, 2])], KERNEL, 17),
    "Conv SAME_LOWER": ([node("Conv", "x", "w", auto_pad="SAME_LOWER", strides=[2, 2])], KERNEL, 17),
    "Conv VALID": ([node("Conv", "x", "w", auto_pad="VALID")], KERNEL, 17),
    "Conv grouped": ([node("Conv", "x", "w", group=3)], {"w": floats(6, 1, 3, 3)}, 17),
    "Gemm": (
        [*FLAT, node("Gemm", "f", "w", "b", alpha=0.5, beta=2.0)],
        {"w": floats(192, 5), "b": floats(5)},
        17,
    ),
    "Gemm transposed": ([*FLAT, node("Gemm", "f", "w", transB=1)], {"w": floats(5, 192)}, 17),
    "MatMul": ([node("MatMul", "x", "w")], {"w": floats(8, 4)}, 17),
    "Add": ([node("Add", "x", "c")], {"c": floats(3, 1, 1)}, 17),
    "Sub": ([node("Sub", "x", "c")], {"c": floats(3, 1, 1)}, 17),
    "Mul": ([node("Mul", "x", "c")], {"c": floats(3, 1, 1)}, 17),
    "Div": ([node("Div", "x", "c")], {"c": floats(3, 1, 1)}, 17),
    "Sum, Max, Min": (
        [node("Sum", "x", "x", "c", into="a"), node("Max", "a", "c", into="b"), node("Min", "b", "x", "c")],
        {"c": floats(1, 3, 1, 1)},
        17,
    ),
    "Sqrt, Pow, Log": (
        [
            node("Mul", "x", "x", into="a"),
            node("Sqrt", "a", into="b"),
            node("Pow", "b", "p", into="c"),
            node("Log", "c"),
        ],
        {"p": np.array(3, np.float32)},
        17,
    ),
    "LeakyRelu": ([node("LeakyRelu", "x", alpha=0.3)], {}, 17),
    "LeakyRelu by default": ([node("LeakyRelu", "x")], {}, 17),
    "Elu": ([node("Elu", "x", alpha=0.7)], {}, 17),
    "PRelu": ([node("PRelu", "x", "c")], {"c": floats(3, 1, 1)}, 17),
    "HardSigmoid": ([node("HardSigmoid", "x")], {}, 17),
    "Gelu": ([node("Gelu", "x")], {}, 20),
    "Gelu tanh": ([node("Gelu", "x", approximate="tanh")], {}, 20),
    "Softmax": ([node("Softmax", "x", axis=1)], {}, 17),
    "LogSoftmax": ([node("LogSoftmax", "x")], {}, 17),
    "LogSoftmax of old": ([*FLAT, node("LogSoftmax", "f")], {}, 11),
    "Clip": (
        [node("Clip", "x", "l", "h")],
        {"l": np.array(-0.5, np.float32), "h": np.array(0.5, np.float32)},
        17,
    ),
    "Clip above": ([node("Clip", "x", "", "h")], {"h": np.array(0.5, np.float32)}, 17),
    "Clip nothing": ([node("Clip", "x")], {}, 17),
    "Clip of old": ([node("Clip", "x", min=-0.5, max=0.5)], {}, 6),
    "BatchNormalization": ([node("BatchNormalization", "x", "s", "b", "m", "v", epsilon=1e-3)], NORM, 17),
    "LayerNormalization": (
        [node("LayerNormalization", "x", "s", "b", axis=-1)],
        {"s": floats(8), "b": floats(8)},
        17,
    ),
    "MaxPool": ([node("MaxPool", "x", kernel_shape=[2, 2], strides=[2, 2])], {}, 17),
    "MaxPool padded, ceil": (
        [node("MaxPool", "x", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], ceil_mode=1)],
        {},
        17,
    ),
    "MaxPool uneven": (
        [node("MaxPool", "x", kernel_shape=[3, 3], strides=[2, 2], pads=[0, 0, 1, 1])],
        {},
        17,
    ),
    "AveragePool": ([node("AveragePool", "x", kernel_shape=[2, 2], strides=[2, 2])], {}, 17),
    "AveragePool padded": ([node("AveragePool", "x", kernel_shape=[3, 3], pads=[1, 1, 1, 1])], {}, 17),
    "AveragePool uneven": ([node("AveragePool", "x", kernel_shape=[3, 3], pads=[0, 0, 1, 1])], {}, 17),
    "AveragePool counting": (
        [node("AveragePool", "x", kernel_shape=[3, 3], pads=[0, 0, 1, 1], count_include_pad=1)],
        {},
        17,
    ),
    "GlobalAveragePool": ([node("GlobalAveragePool", "x")], {}, 17),
    "GlobalMaxPool": ([node("GlobalMaxPool", "x")], {}, 17),
    "Dropout": ([node("Dropout", "x", "r")], {"r": np.array(0.5, np.float32)}, 17),
    "Flatten axis 2": (
        [node("Flatten", "x", axis=2, into="f"), node("Reshape", "f", "s")],
        {"s": ints(2, 192)},
        17,
    ),
    "Reshape": ([node("Reshape", "x", "s")], {"s": ints(0, -1, 4)}, 17),
    "Transpose": ([node("Transpose", "x", perm=[0, 2, 3, 1])], {}, 17),
    "Transpose twice": ([node("Transpose", "x", into="t"), node("Transpose", "t")], {}, 17),
    "Concat": ([node("Concat", "x", "x", axis=1)], {}, 17),
    "Split": (
        [node("Split", "x", "s", into=["a", "b"], axis=1), node("Concat", "b", "a", axis=1)],
        {"s": ints(1, 2)},
        17,
    ),
    "Split evenly": (
        [node("Split", "x", into=["a", "b"], axis=2, num_outputs=2), node("Sub", "b", "a")],
        {},
        18,
    ),
    "Shape and back": (
        [
            node("Shape", "x", into="s"),
            node("Gather", "s", "zero", into="n"),
            node("Unsqueeze", "n", "axes", into="u"),
            node("Concat", "u", "rest", into="t", axis=0),
            node("Reshape", "x", "t"),
        ],
        {"zero": np.array(0), "axes": ints(0), "rest": ints(-1)},
        17,
    ),
    "Gather": ([node("Gather", "x", "i", axis=2)], {"i": np.array([[0, -1], [3, 2]])}, 17),
    "Unsqueeze, Squeeze": (
        [node("Unsqueeze", "x", "a", into="u"), node("Squeeze", "u", "b")],
        {"a": ints(1, -1), "b": ints(1)},
        17,
    ),
    "Unsqueeze, Squeeze of old": (
        [node("Unsqueeze", "x", axes=[1, 3], into="u"), node("Squeeze", "u")],
        {},
        11,
    ),
    "ReduceMean": ([node("ReduceMean", "x", axes=[2, 3], keepdims=0)], {}, 17),
    "ReduceMean of new": ([node("ReduceMean", "x", "a")], {"a": ints(2, 3)}, 18),
    "ReduceSum, ReduceMax": (
        [
            node("ReduceSum", "x", "a", into="s"),
            node("ReduceMax", "x", axes=[1], into="m"),
            node("Add", "s", "m"),
        ],
        {"a": ints(1)},
        17,
    ),
    "ReduceSum of nothing": ([node("ReduceSum", "x", noop_with_empty_axes=1)], {}, 17),
    "Mean of all": ([node("ReduceMean", "x", into="m"), node("Sub", "x", "m")], {}, 17),
    "Pad": (
        [node("Pad", "x", "p", "c")],
        {"p": ints(0, 0, 1, 2, 0, 0, 3, 0), "c": np.array(0.7, np.float32)},
        17,
    ),
    "Pad some axes": ([node("Pad", "x", "p", "", "a")], {"p": ints(1, 2, 3, 4), "a": ints(2, -1)}, 18),
    "Pad of old": ([node("Pad", "x", pads=[0, 0, 1, 1, 0, 0, 1, 1], value=0.3)], {}, 10),
    "Pad reflecting": ([node("Pad", "x", "p", mode="reflect")], {"p": ints(0, 0, 1, 2, 0, 0, 3, 0)}, 17),
    "Pad with the edge": ([node("Pad", "x", "p", mode="edge")], {"p": ints(0, 0, 1, 2, 0, 0, 3, 0)}, 17),
    "Cast": (
        [node("Cast", "x", into="i", to=TensorProto.INT32), node("Cast", "i", to=TensorProto.FLOAT)],
        {},
        17,
    ),
    "Slice": (
        [node("Slice", "x", "s", "e", "a", "t")],
        {"s": ints(1, -1), "e": ints(100, -100), "a": ints(2, 3), "t": ints(2, -1)},
        17,
    ),
    "Slice of old": ([node("Slice", "x", starts=[0, 1], ends=[9, -1], axes=[2, 3])], {}, 9),
    "Constant": ([node("Constant", into="c", value_float=2.5), node("Mul", "x", "c")], {}, 17),
    "Constant tensor": (
        [node("Constant", into="c", value=numpy_helper.from_array(floats(3, 1, 1))), node("Mul", "x", "c")],
        {},
        17,
    ),
    "Expand, ConstantOfShape": (
        [
            node("ConstantOfShape", "s", into="z", value=numpy_helper.from_array(floats(1))),
            node("Expand", "z", "t", into="e"),
            node("Add", "x", "e"),
        ],
        {"s": ints(1, 1), "t": ints(2, 1, 8, 8)},
        17,
    ),
    "Where, Equal, Greater, Less, logic": (
        [
            node("Greater", "x", "c", into="g"),
            node("Less", "x", "c", into="l"),
            node("Not", "l", into="n"),
            node("And", "g", "n", into="a"),
            node("Or", "a", "l", into="o"),
            node("Equal", "g", "o", into="e"),
            node("Where", "e", "x", "c"),
        ],
        {"c": np.array(0.1, np.float32)},
        17,
    ),
    "whole numbers divide and leave a rest": (
        [
            node("Div", "a", "b", into="q"),
            node("Mod", "a", "b", into="r"),
            node("Add", "q", "r", into="s"),
            node("Cast", "s", into="f", to=TensorProto.FLOAT),
            node("Mul", "x", "f"),
        ],
        {"a": ints(-7), "b": ints(2)},
        17,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_operator_agrees_with_the_reference(case: str, tmp_path: Path) -> None:
    nodes, known, opset = CASES[case]
    model = save_graph(tmp_path / "net.onnx", nodes, known, COLOUR, opset)
    x = floats(*COLOUR)
    (expected,) = ReferenceEvaluator(model).run(None, {"x": x})
    found = load_model(str(tmp_path / "net.onnx"))(torch.from_numpy(x))
    np.testing.assert_allclose(found.detach().numpy(), np.asarray(expected), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
def test_softmax_of_old_runs_over_all_dimensions_from_its_axis_on(op: str, tmp_path: Path) -> None:
    # ONNX's reference follows the new rule for every version, so the old rule is spelt out here.
    save_graph(tmp_path / "net.onnx", [node(op, "x", axis=2)], {}, COLOUR, 11)
    x = torch.from_numpy(floats(*COLOUR))
    probabilities = x.flatten(2).softmax(2).view_as(x)
    expected = probabilities if op == "Softmax" else probabilities.log()
    torch.testing.assert_close(load_model(str(tmp_path / "net.onnx"))(x), expected)


def test_numbers_from_sizes_follow_the_images_to_their_device(tmp_path: Path) -> None:
    nodes, known, opset = CASES["whole numbers divide and leave a rest"]
    save_graph(tmp_path / "net.onnx", nodes, known, COLOUR, opset)
    # The meta device stands for any that is not the CPU.
    found = load_model(str(tmp_path / "net.onnx")).to("meta")(torch.empty(COLOUR, device="meta"))
    assert found.shape == COLOUR


def test_every_operator_of_the_table_is_tested() -> None:
    tested = {step.op_type for nodes, _, _ in CASES.values() for step in nodes}
    assert OPERATORS.keys() <= tested
