"""Whole ONNX graphs, against torch, and everything about them that can be wrong."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from model_helpers import Arrays, floats, ints, node, save_graph, scramble
from torch import nn

from gamagat.errors import ModelError
from gamagat.models.core import load_model

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper  # noqa: E402

COLOUR = (2, 3, 8, 8)
NORM = {"s": floats(3), "b": floats(3), "m": floats(3), "v": np.abs(floats(3)) + 0.1}


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.conv2, self.fc = nn.Conv2d(4, 4, 3, stride=2, padding=1), nn.Linear(4 * 4, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = torch.max_pool2d(torch.relu(self.bn(self.conv1((x - 0.5) / 0.25))), 2)
        out = nn.functional.avg_pool2d(nn.functional.leaky_relu(self.conv2(out), 0.1) + 1, 1)
        return torch.log_softmax(self.fc(out.flatten(1)), 1)


NET_NODES = [
    node("Sub", "x", "half", into="c"),
    node("Div", "c", "quarter", into="n"),
    node("Conv", "n", "conv1.weight", "conv1.bias", into="h1", pads=[1, 1, 1, 1]),
    node("BatchNormalization", "h1", "bn.weight", "bn.bias", "bn.running_mean", "bn.running_var", into="h2"),
    node("Relu", "h2", into="h3"),
    node("MaxPool", "h3", into="h4", kernel_shape=[2, 2], strides=[2, 2]),
    node("Conv", "h4", "conv2.weight", "conv2.bias", into="h5", pads=[1, 1, 1, 1], strides=[2, 2]),
    node("LeakyRelu", "h5", into="h6", alpha=0.1),
    node("Add", "h6", "one", into="h7"),
    node("AveragePool", "h7", into="h8", kernel_shape=[1, 1]),
    node("Flatten", "h8", into="h9"),
    node("Gemm", "h9", "fc.weight", "fc.bias", into="h10", transB=1),
    node("LogSoftmax", "h10", axis=1),
]


def whole_net(file: Path, batch: int | str) -> nn.Module:
    net = scramble(Net())
    known = {key: value.numpy() for key, value in net.state_dict().items() if value.is_floating_point()}
    numbers = {"half": 0.5, "quarter": 0.25, "one": 1.0}
    known |= {name: np.array(number, np.float32) for name, number in numbers.items()}
    save_graph(file, NET_NODES, known, (batch, 3, 8, 8), 17)
    return net


def test_a_whole_network_has_the_answers_and_gradients_of_torch(tmp_path: Path) -> None:
    net = whole_net(tmp_path / "net.onnx", "batch")
    loaded = load_model(str(tmp_path / "net.onnx"))
    assert not loaded.training
    assert {value.dtype for value in loaded.parameters()} == {torch.float32}
    for batch in (1, 3):
        x = torch.rand(batch, 3, 8, 8, requires_grad=True)
        first, second = loaded(x), net(x)
        torch.testing.assert_close(first, second)
        gradients = [torch.autograd.grad(logits[:, 0].sum(), x)[0] for logits in (first, second)]
        torch.testing.assert_close(*gradients)
        assert gradients[0].abs().sum() > 0


def test_gradients_agree_with_finite_differences(tmp_path: Path) -> None:
    whole_net(tmp_path / "net.onnx", "batch")
    loaded = load_model(str(tmp_path / "net.onnx")).double()
    x = torch.rand(1, 3, 8, 8, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(loaded, x, fast_mode=True)


def test_a_stated_batch_size_does_not_bind_a_graph_that_serves_any(tmp_path: Path) -> None:
    whole_net(tmp_path / "net.onnx", 1)
    assert load_model(str(tmp_path / "net.onnx"))(torch.rand(4, 3, 8, 8)).shape == (4, 5)


@pytest.mark.parametrize("size", [ints(1, 192), ints(1, -1)])
def test_a_graph_bound_to_its_batch_size_says_so(size: Any, tmp_path: Path) -> None:
    save_graph(tmp_path / "net.onnx", [node("Reshape", "x", "s")], {"s": size}, (1, 3, 8, 8), 17)
    loaded = load_model(str(tmp_path / "net.onnx"))
    assert loaded(torch.rand(1, 3, 8, 8)).shape == (1, 192)
    with pytest.raises(ModelError, match=r"shape \(4, 3, 8, 8\).*exported for batches of 1"):
        loaded(torch.rand(4, 3, 8, 8))


def test_images_of_another_shape_are_refused(tmp_path: Path) -> None:
    save_graph(tmp_path / "net.onnx", [node("Flatten", "x")], {}, ("n", 3, 8, 8), 17)
    loaded = load_model(str(tmp_path / "net.onnx"))
    for shape in ((2, 1, 8, 8), (2, 3, 32, 32), (2, 192)):
        with pytest.raises(ModelError, match="takes images of shape any x 3 x 8 x 8, got"):
            loaded(torch.rand(shape))


def test_unknown_operators_are_all_named(tmp_path: Path) -> None:
    nodes = [node("Det", "x", into="d"), node("Sin", "d", into="s"), node("Identity", "s")]
    save_graph(tmp_path / "net.onnx", nodes, {}, COLOUR, 17)
    with pytest.raises(ModelError, match="not supported: Det, Sin;"):
        load_model(str(tmp_path / "net.onnx"))


def test_operators_of_other_vendors_are_named_with_their_domain(tmp_path: Path) -> None:
    model = save_graph(tmp_path / "net.onnx", [node("FastGelu", "x", domain="com.microsoft")], {}, COLOUR, 17)
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    onnx.save(model, tmp_path / "net.onnx")
    with pytest.raises(ModelError, match=r"com\.microsoft\.FastGelu"):
        load_model(str(tmp_path / "net.onnx"))


@pytest.mark.parametrize(
    ("nodes", "known", "words"),
    [
        ([node("BatchNormalization", "x", "s", "b", "m", "v", training_mode=1)], NORM, "training mode"),
        (
            [node("Dropout", "x", "r", "t")],
            {"r": np.array(0.5, np.float32), "t": np.array(True)},
            "training mode",
        ),
        ([node("Pad", "x", "p", mode="wrap")], {"p": ints(0, 0, 1, 1, 0, 0, 1, 1)}, "mode 'wrap'"),
        ([node("AveragePool", "x", kernel_shape=[2, 2], dilations=[2, 2])], {}, "dilations"),
        ([node("Cast", "x", to=TensorProto.STRING)], {}, "type number 8"),
        ([node("MatMul", "x", "w")], {"w": floats(3, 3)}, "ONNX operator MatMul"),
    ],
)
def test_forms_of_operators_that_cannot_run_are_named(
    nodes: list[Any], known: Arrays, words: str, tmp_path: Path
) -> None:
    save_graph(tmp_path / "net.onnx", nodes, known, ("n", 3, 8, 8), 19)
    with pytest.raises(ModelError, match=words):
        load_model(str(tmp_path / "net.onnx"))(torch.rand(COLOUR))


def test_a_graph_with_two_answers_is_refused(tmp_path: Path) -> None:
    nodes = [node("Relu", "x"), node("Abs", "x", into="z")]
    save_graph(tmp_path / "net.onnx", nodes, {}, COLOUR, 17, outputs=("y", "z"))
    with pytest.raises(ModelError, match=r"it has \['x'\] -> \['y', 'z'\]"):
        load_model(str(tmp_path / "net.onnx"))


def test_a_file_that_breaks_the_standard_is_refused(tmp_path: Path) -> None:
    save_graph(tmp_path / "net.onnx", [node("Relu", "nowhere")], {}, COLOUR, 17)
    with pytest.raises(ModelError, match="is no valid ONNX model"):
        load_model(str(tmp_path / "net.onnx"))


def test_types_that_torch_lacks_are_refused(tmp_path: Path) -> None:
    save_graph(
        tmp_path / "net.onnx", [node("Identity", "x")], {"t": np.array(["word"], dtype=object)}, COLOUR, 17
    )
    with pytest.raises(ModelError, match="'t' is of a type that torch cannot take"):
        load_model(str(tmp_path / "net.onnx"))


def test_the_package_onnx_is_named_where_it_is_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_graph(tmp_path / "net.onnx", [node("Relu", "x")], {}, COLOUR, 17)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ModelError, match=r"pip install gamagat\[onnx\]"):
        load_model(str(tmp_path / "net.onnx"))
