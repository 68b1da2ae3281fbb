"""Registered names as model specs, and every way to get one wrong."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from gamagat.engine.request import EvaluationRequest, prepare
from gamagat.errors import CheckpointError, ConfigError, ModelError
from gamagat.models import core
from gamagat.models.core import MODELS, build_model, check_weights, load_model
from gamagat.registry import Entry


@pytest.fixture
def digits_weights(tmp_path: Path) -> Path:
    file = tmp_path / "digits.safetensors"
    save_file(build_model("digits-cnn").state_dict(), file)
    return file


def test_a_name_with_weights_loads_in_eval_mode_on_the_cpu(digits_weights: Path) -> None:
    net = load_model("digits-cnn", digits_weights)
    assert not any(module.training for module in net.modules())
    assert {value.device.type for value in net.parameters()} == {"cpu"}
    assert {value.dtype for value in net.parameters()} == {torch.float32}


def test_loading_leaves_the_random_state_alone(digits_weights: Path) -> None:
    torch.manual_seed(3)
    before = torch.get_rng_state()
    load_model("digits-cnn", str(digits_weights))
    assert torch.equal(torch.get_rng_state(), before)


def test_a_name_without_weights_uses_those_of_the_package(
    digits_weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digits_weights.rename(digits_weights.with_name("digits-cnn.safetensors"))
    monkeypatch.setattr(core, "BUNDLED", digits_weights.parent)
    bundled = load_model("digits-cnn")
    x = torch.rand(2, 1, 8, 8)
    assert torch.equal(
        bundled(x), load_model("digits-cnn", digits_weights.with_name("digits-cnn.safetensors"))(x)
    )
    with pytest.raises(CheckpointError, match="10 classes apart, the network is asked for 7"):
        load_model("digits-cnn:classes=7")


@pytest.mark.parametrize("spec", ["m-lenet", "wrn:depth=10,width=1"])
def test_a_network_without_weights_is_not_evaluated(spec: str) -> None:
    with pytest.raises(ModelError, match=r"has no weights.*--weights FILE"):
        load_model(spec)


def test_classes_and_channels_of_the_data_fill_what_the_spec_leaves_open() -> None:
    assert build_model("digits-cnn", classes=7).get_submodule("fc2").out_features == 7
    assert build_model("digits-cnn:classes=5", classes=7).get_submodule("fc2").out_features == 5
    assert build_model("resnet18", channels=1).get_submodule("conv1").in_channels == 1
    # This factory has no option for channels, and is not asked for one.
    assert (
        build_model("resnet50-madry", classes=7, channels=3).get_submodule("model.linear").out_features == 7
    )


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("resnet19", "unknown model 'resnet19'; did you mean 'resnet18'"),
        ("resnet19:classes=3", "did you mean 'resnet18'"),
        ("", "unknown model ''"),
        ("resnet18:depth=3", "unknown option of model 'resnet18' 'depth'"),
        ("resnet18:depth", "write name:key=value"),
        ("resnet18:classes=ten", "resnet18:classes must be a whole number"),
        ("resnet18:classes=0", "classes of model 'resnet18' must be at least 1, got 0"),
        ("wrn:depth=30", "must be 6n + 4"),
        ("wrn:depth=4", "must be 6n + 4"),
    ],
)
def test_a_wrong_name_or_option_is_refused_in_words(spec: str, words: str) -> None:
    for attempt in (build_model, load_model):
        with pytest.raises(ConfigError) as caught:
            attempt(spec)
        assert words in str(caught.value)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("resnt18", "did you mean 'resnet18'. known: .*; or write package.module:callable, zoo:NAME"),
        ("nets.py", "cannot read 'nets.py'; a callable in nets.py is written nets:callable"),
        ("nets.py:build", "a callable in nets.py is written nets:callable"),
        ("nets:build:k=10", "a callable takes no options; write nets:callable with them inside"),
        (".", "the folder . holds no trained network: there is no card.json in it"),
    ],
)
def test_what_names_no_network_is_refused_before_data_are_looked_for(
    spec: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for attempt in (build_model, load_model, check_weights):
        with pytest.raises(ConfigError, match=words):
            attempt(spec)
    with pytest.raises(ConfigError, match=words):
        prepare(EvaluationRequest(spec, data="folder:nowhere"))


def test_a_plug_in_joins_by_registering_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def flat(classes: int = 10) -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(4, classes))

    monkeypatch.setitem(MODELS._entries, "flat", Entry(flat))
    net = build_model("flat:normalize=half", classes=3, channels=1)
    assert net(torch.ones(1, 1, 2, 2)).shape == (1, 3)
