"""Weights meet networks: what is matched, and what is said when they do not fit."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from model_helpers import saved
from safetensors.torch import save_file
from torch import Tensor, nn

from gamagat.errors import CheckpointError
from gamagat.models.core import MODELS, build_model, load_model
from gamagat.registry import Entry

State = dict[str, Tensor]
TINY = "wrn:depth=10,width=1"


def same_answers(one: nn.Module, other: nn.Module, *shape: int) -> bool:
    x = torch.rand(2, *shape)
    with torch.no_grad():
        return torch.equal(one.eval()(x), other.eval()(x))


def refusal(spec: str, file: Path, **sizes: int) -> str:
    with pytest.raises(CheckpointError) as caught:
        load_model(spec, file, **sizes)
    assert str(file) in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    "change",
    [
        lambda state: state,
        lambda state: {f"model.{key}": value for key, value in state.items()},
        lambda state: {f"module.net.{key}": value for key, value in state.items()},
        lambda state: {key: value for key, value in state.items() if "num_batches_tracked" not in key},
        lambda state: (
            state | {f"sub_{key}": value for key, value in state.items() if key.startswith("block1.")}
        ),
        lambda state: {"net": {key: value.half() for key, value in state.items()}},
    ],
    ids=["plain", "one prefix", "two prefixes", "no counters", "unused copy", "half precision"],
)
def test_public_forms_are_matched(change: Callable[[State], State], tmp_path: Path) -> None:
    source = build_model(TINY)
    with torch.no_grad():
        for value in source.parameters():
            value.copy_(value.half())  # so that half precision loses nothing
    net = load_model(TINY, saved(tmp_path, change(source.state_dict())))
    assert {value.dtype for value in net.parameters()} == {torch.float32}
    assert same_answers(net, source, 3, 32, 32)


def test_plain_weights_fit_behind_a_normalisation_and_back(tmp_path: Path) -> None:
    wrapped = build_model("digits-cnn:normalize=half")
    inner = wrapped.get_submodule("net")
    assert same_answers(
        load_model("digits-cnn:normalize=half", saved(tmp_path, inner.state_dict())), wrapped, 1, 8, 8
    )
    assert same_answers(load_model("digits-cnn", saved(tmp_path, wrapped.state_dict())), inner, 1, 8, 8)


def madry_file(folder: Path, net: nn.Module) -> Path:
    state = net.state_dict()
    copies = {f"attacker.{key}": value for key, value in state.items()}
    return saved(
        folder, {"model": {f"module.{key}": value for key, value in (state | copies).items()}, "epoch": 3}
    )


def test_madrys_file_fits_with_its_duplicate_attacker(tmp_path: Path) -> None:
    source = build_model("resnet50-madry")
    file = madry_file(tmp_path, source)
    assert same_answers(load_model("resnet50-madry", file), source, 3, 32, 32)
    # The same numbers in our own layer are as good.
    assert same_answers(load_model("resnet50:normalize=cifar10-madry", file), source, 3, 32, 32)


def test_a_normalisation_in_the_file_is_not_dropped(tmp_path: Path) -> None:
    file = madry_file(tmp_path, build_model("resnet50-madry"))
    words = refusal("resnet50", file)
    assert "normalizer.new_mean = 0.4914, 0.4822, 0.4465" in words
    assert "Names and shapes fit resnet50-madry" in words
    assert "normalizer.new_std = 0.2023" in refusal("resnet50:normalize=cifar10", file)


def test_missing_unexpected_and_misshapen_tensors_are_named(tmp_path: Path) -> None:
    state = build_model("digits-cnn").state_dict()
    state["conv1.weight"] = torch.rand(16, 1, 5, 5)
    state["extra.weight"] = state.pop("conv2.weight")
    words = refusal("digits-cnn", saved(tmp_path, state))
    assert "missing: conv2.weight;" in words
    assert "unexpected: extra.weight;" in words
    assert "conv1.weight is (16, 1, 5, 5), should be (16, 1, 3, 3)" in words
    assert "The nearest registered model is digits-cnn" in words


def test_only_a_few_names_are_listed(tmp_path: Path) -> None:
    words = refusal(TINY, saved(tmp_path, {"a": torch.rand(1)}))
    assert "missing: conv1.weight, block1.layer.0.bn1.weight, block1.layer.0.bn1.bias and" in words
    assert "No registered model comes near" in words


@pytest.mark.parametrize(
    ("given", "fitting", "classes"),
    [
        ("resnet50", "resnet18 or resnet18-gat", 10),
        ("resnet18", "resnet18-imagenet", 37),
        ("resnet18", "preact-resnet18-fbf", 10),
        (TINY, "m-lenet", 10),
    ],
)
def test_the_network_that_would_fit_is_named(given: str, fitting: str, classes: int, tmp_path: Path) -> None:
    source = build_model(fitting.split(" or ", maxsplit=1)[0], classes=classes)
    assert f"Names and shapes fit {fitting}: give that" in refusal(
        given, saved(tmp_path, source.state_dict())
    )


def test_another_number_of_classes_is_said_so(tmp_path: Path) -> None:
    file = saved(tmp_path, build_model("digits-cnn", classes=26).state_dict())
    words = refusal("digits-cnn:classes=10", file)
    assert "tell 26 classes apart, the network is asked for 10" in words
    assert "missing" not in words


def test_the_file_says_how_many_classes_and_channels_there_are(tmp_path: Path) -> None:
    source = build_model("digits-cnn", classes=26, channels=3)
    net = load_model("digits-cnn", saved(tmp_path, source.state_dict()), classes=4, channels=1)
    assert same_answers(net, source, 3, 8, 8)


def test_classes_are_not_blamed_when_more_is_wrong(tmp_path: Path) -> None:
    state = build_model("digits-cnn", classes=26).state_dict()
    del state["conv2.bias"]
    assert "missing: conv2.bias" in refusal("digits-cnn", saved(tmp_path, state))


def test_another_input_of_the_last_layer_is_no_matter_of_classes(tmp_path: Path) -> None:
    state = build_model("digits-cnn").state_dict() | {"fc2.weight": torch.rand(10, 32)}
    assert "fc2.weight is (10, 32), should be (10, 64)" in refusal("digits-cnn", saved(tmp_path, state))


def test_whole_numbers_are_no_weights(tmp_path: Path) -> None:
    state = build_model("digits-cnn").state_dict()
    state["conv1.weight"] = torch.zeros(16, 1, 3, 3, dtype=torch.int8)
    assert "conv1.weight" in refusal("digits-cnn", saved(tmp_path, state))


def test_a_plug_in_that_cannot_be_built_empty_is_no_candidate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stubborn() -> nn.Module:
        raise RuntimeError("not on this device")

    monkeypatch.setitem(MODELS._entries, "stubborn", Entry(stubborn))
    state = build_model("m-lenet").state_dict()
    assert "fit m-lenet" in refusal("digits-cnn", saved(tmp_path, state))


def test_a_program_given_as_weights_is_recognised(tmp_path: Path) -> None:
    exported = torch.export.export(nn.Linear(2, 2), (torch.rand(1, 2),))
    torch.export.save(exported, tmp_path / "net.pt2")
    assert "give it as the model" in refusal("digits-cnn", tmp_path / "net.pt2")


def test_safetensors_and_torch_files_give_the_same_network(tmp_path: Path) -> None:
    state = build_model("digits-cnn").state_dict()
    save_file(state, tmp_path / "w.safetensors")
    one = load_model("digits-cnn", tmp_path / "w.safetensors")
    assert same_answers(one, load_model("digits-cnn", saved(tmp_path, state)), 1, 8, 8)
