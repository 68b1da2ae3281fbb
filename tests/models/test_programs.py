"""Whole networks in files: torch.export programs and TorchScript."""

import warnings
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from gamagat.data.core import from_tensors
from gamagat.engine.checks import check_model
from gamagat.engine.doctor import examine
from gamagat.errors import ModelError
from gamagat.models.core import build_model, load_model


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.bn = nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.fc = nn.Linear(4 * 16, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.max_pool2d(torch.relu(self.bn(self.conv(x))), 2)
        scores: Tensor = self.fc(nn.functional.dropout(x.flatten(1), 0.5, self.training))
        return scores


def export(net: nn.Module, file: Path, batch: bool = True) -> Path:
    free = ({0: torch.export.Dim("batch", min=1, max=64)},) if batch else None
    torch.export.save(torch.export.export(net, (torch.rand(2, 1, 8, 8),), dynamic_shapes=free), file)
    return file


@pytest.fixture(scope="module")
def net() -> nn.Module:
    torch.manual_seed(0)
    return Net().eval()


@pytest.fixture(scope="module")
def exported(net: nn.Module, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export(net, tmp_path_factory.mktemp("programs") / "net.pt2")


def scripted(net: nn.Module, file: Path) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.save(torch.jit.script(net), file)
    return file


def assert_same_answers_and_gradients(one: nn.Module, other: nn.Module, batch: int) -> None:
    x = torch.rand(batch, 1, 8, 8, requires_grad=True)
    for net in (one, other):
        assert not net.training
    first, second = one(x), other(x)
    torch.testing.assert_close(first, second)
    gradients = [torch.autograd.grad(logits.square().sum(), x)[0] for logits in (first, second)]
    torch.testing.assert_close(*gradients)
    assert gradients[0].abs().sum() > 0


def test_an_exported_program_answers_and_differentiates_as_its_network(
    net: nn.Module, exported: Path
) -> None:
    loaded = load_model(str(exported), classes=10, channels=1)
    for batch in (1, 2, 5):
        assert_same_answers_and_gradients(loaded, net, batch)
    assert {value.dtype for value in loaded.parameters()} == {torch.float32}


def test_an_exported_program_stays_in_eval_mode(exported: Path) -> None:
    loaded = load_model(str(exported))
    assert loaded.eval() is loaded
    with pytest.raises(ModelError, match="cannot be trained"):
        loaded.train()
    assert not loaded.training


def test_a_fixed_batch_size_is_said_when_another_one_comes(net: nn.Module, tmp_path: Path) -> None:
    loaded = load_model(str(export(net, tmp_path / "net.pt2", batch=False)))
    assert_same_answers_and_gradients(loaded, net, 2)
    with pytest.raises(ModelError, match=r"shape \(3, 1, 8, 8\).*size\(\)\[0\] == 2.*dynamic_shapes"):
        loaded(torch.rand(3, 1, 8, 8))


def test_a_limit_of_the_batch_size_is_kept(exported: Path) -> None:
    with pytest.raises(ModelError, match="<= 64"):
        load_model(str(exported))(torch.rand(65, 1, 8, 8))


def test_a_program_in_training_mode_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"training mode; call \.eval\(\)"):
        load_model(str(export(Net().train(), tmp_path / "net.pt2")))


class TwoHeads(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x.flatten(1), x.mean((2, 3))


class Boxed(nn.Module):
    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"logits": x.flatten(1)}


def test_a_program_must_return_logits_alone(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="nothing else"):
        load_model(str(export(TwoHeads(), tmp_path / "two.pt2")))
    with pytest.raises(ModelError, match="must return logits, got dict"):
        load_model(str(export(Boxed(), tmp_path / "boxed.pt2")))(torch.rand(2, 1, 8, 8))


def test_what_a_program_says_itself_is_all_that_is_said(net: nn.Module, tmp_path: Path) -> None:
    fixed = load_model(str(export(net, tmp_path / "fixed.pt2", batch=False)))
    with pytest.raises(ModelError) as caught:
        check_model(fixed, torch.rand(3, 1, 8, 8))
    assert str(caught.value).startswith(f"{tmp_path / 'fixed.pt2'} was not exported for images of shape")
    assert str(caught.value).endswith('dynamic_shapes={"x": {0: torch.export.Dim("batch")}}')


def test_of_torchscript_the_cause_is_told_and_no_traceback(net: nn.Module, tmp_path: Path) -> None:
    script, images = load_model(str(scripted(net, tmp_path / "net.pt"))), torch.rand(3, 1, 8, 10)
    with pytest.raises(ModelError, match=r"width\): mat1 and mat2 shapes cannot be multiplied .*; give it"):
        check_model(script, images)
    data = from_tensors(images, name="wide", labels=torch.arange(3))
    (found,) = examine(script, data, device=torch.device("cpu"))
    assert "the network raised RuntimeError: mat1 and mat2 shapes cannot be multiplied" in found.seen


def test_a_registered_network_survives_export(tmp_path: Path) -> None:
    net = build_model("digits-cnn:normalize=half").eval()
    assert_same_answers_and_gradients(load_model(str(export(net, tmp_path / "net.pt2"))), net, 3)


@pytest.mark.parametrize("suffix", [".pt", ".pth", ".ts"])
def test_torchscript_answers_and_differentiates_as_its_network(
    suffix: str, net: nn.Module, tmp_path: Path
) -> None:
    loaded = load_model(str(scripted(Net().train(), tmp_path / f"trained{suffix}")))
    assert not loaded.training
    loaded = load_model(str(scripted(net, tmp_path / f"net{suffix}")))
    assert_same_answers_and_gradients(loaded, net, 3)


@pytest.mark.parametrize("name", ["net.pt2", "net.onnx", "net.pt", "net.safetensors"])
def test_files_that_hold_no_network_are_refused_in_words(name: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="does not exist"):
        load_model(str(tmp_path / name))
    (tmp_path / name).mkdir()
    with pytest.raises(ModelError, match="is a folder"):
        load_model(str(tmp_path / name))
    (tmp_path / name).rmdir()
    (tmp_path / name).write_text("<html>")
    with pytest.raises(
        ModelError, match=r"is no (torch\.export program|valid ONNX model|TorchScript program)"
    ):
        load_model(str(tmp_path / name))


def test_weights_given_as_the_model_are_recognised(tmp_path: Path) -> None:
    torch.save({"conv.weight": torch.rand(3)}, tmp_path / "net.pt")
    with pytest.raises(ModelError, match="if it holds weights, name the network"):
        load_model(str(tmp_path / "net.pt"))
    torch.save({"conv.weight": torch.rand(3)}, tmp_path / "net.pt2")
    with pytest.raises(ModelError, match=r"torch\.export program"):
        load_model(str(tmp_path / "net.pt2"))


def test_a_program_takes_no_weights_and_no_training(exported: Path) -> None:
    with pytest.raises(ModelError, match="holds its own weights"):
        load_model(str(exported), "weights.pt")
    with pytest.raises(ModelError, match="is a finished program"):
        build_model(str(exported))
