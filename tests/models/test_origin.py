"""Weights that say what they were trained as are not taken for those of another network."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from model_helpers import saved
from safetensors.torch import save_file
from torch import nn

from gamagat.errors import CheckpointError
from gamagat.models.core import MODELS, build_model, load_model
from gamagat.models.loading.origin import CARD, WORD, Origin, origin_of, same_parts

TINY = "wrn:depth=10,width=1"
NORMALIZED = f"{TINY},normalize=half"


def weights_of(spec: str) -> dict[str, torch.Tensor]:
    return build_model(spec).state_dict()


def filed(folder: Path, model: str, teller: str, state: dict[str, torch.Tensor] | None = None) -> Path:
    """A file of weights of this model; a card beside it says so, or the file itself."""
    file = folder / "model.safetensors"
    save_file(weights_of(model) if state is None else state, file, {WORD: model} if teller == "file" else {})
    if teller == "card":
        (folder / CARD).write_text(json.dumps({"model": model, "weights": file.name}))
    return file


@pytest.mark.parametrize("teller", ["card", "file"])
@pytest.mark.parametrize(
    ("trained", "asked"),
    [
        ("resnet18-gat", "resnet18"),
        ("resnet18", "resnet18-gat"),
        ("preact-resnet18", "preact-resnet18-fbf:bn_before_fc=true"),
        ("preact-resnet18", "preact-resnet18:normalize=none"),
        (TINY, NORMALIZED),
        (NORMALIZED, TINY),
        (NORMALIZED, f"{TINY},normalize=cifar10"),
    ],
)
def test_another_network_with_the_same_names_is_refused(tmp_path, teller, trained, asked):
    file = filed(tmp_path, trained, teller)
    with pytest.raises(CheckpointError) as caught:
        load_model(asked, file)
    words = str(caught.value)
    assert all(
        part in words for part in (str(file), repr(trained), repr(asked), f"give {trained} as the model")
    )
    assert "\n" not in words
    assert load_model(trained, file)


@pytest.mark.parametrize("teller", ["card", "file"])
@pytest.mark.parametrize(
    ("trained", "asked"),
    [
        ("wrn:depth=10,width=1,dropout=0.3", TINY),
        (TINY, "wrn:width=1,depth=10,normalize=none"),
        (TINY, f"{TINY},classes=10"),
        (f"{TINY},channels=1", TINY),  # the file tells
    ],
)
def test_the_same_network_in_other_words_is_not(tmp_path, teller, trained, asked):
    net = load_model(asked, filed(tmp_path, trained, teller))
    assert list(net.state_dict()) == list(weights_of(trained))


def test_no_two_registered_names_mean_one_network_but_for_the_usual_wide_ones():
    with torch.device("meta"):
        nets = {name: build_model(name) for name in MODELS.names()}
    same = {(a, b) for a in nets for b in nets if a < b and same_parts(nets[a], nets[b])}
    assert same == {("wrn", "wrn-34-10"), ("wrn-34-10-gat", "wrn-gat")}


def test_weights_of_another_shape_are_refused_for_what_they_are(tmp_path):
    with pytest.raises(CheckpointError, match=f"holds the weights of '{TINY}'"):
        load_model("digits-cnn", filed(tmp_path, TINY, "card"))


def test_weights_of_another_network_do_not_fill_a_trained_folder(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    folder, other = filed(tmp_path / "a", TINY, "card").parent, filed(tmp_path / "b", NORMALIZED, "card")
    with pytest.raises(CheckpointError, match="is another network"):
        load_model(str(folder), other)


def test_the_weights_of_the_package_belong_to_their_network_alone():
    assert isinstance(load_model("digits-cnn:classes=10"), nn.Module)
    with pytest.raises(CheckpointError, match=r"'digits-cnn', as the package says.*normalize=half"):
        load_model("digits-cnn:normalize=half")


def test_a_file_that_nobody_speaks_for_is_loaded_as_before(tmp_path):
    state = weights_of("resnet18-gat")
    (tmp_path / CARD).write_text(json.dumps({"model": "resnet18-gat", "weights": "other.safetensors"}))
    for file in (saved(tmp_path, state), filed(tmp_path, "resnet18-gat", "nobody", state)):
        assert origin_of(file) is None
        assert load_model("resnet18", file)


@pytest.mark.parametrize("teller", ["card", "file"])
@pytest.mark.parametrize("word", ["", "resnet18\n", "\x1b[31mresnet18", "resnet18:" + "x" * 1000])
def test_what_cannot_be_a_name_is_none(tmp_path, teller, word):
    assert origin_of(filed(tmp_path, word, teller, weights_of(TINY))) is None


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "7", "{}", '{"weights": "model.safetensors"}', '{"model": 1}']
)
def test_a_card_of_something_else_says_nothing(tmp_path, content):
    (tmp_path / CARD).write_text(content)
    assert origin_of(filed(tmp_path, TINY, "nobody")) is None


def test_a_card_is_found_beside_what_a_link_means(tmp_path):
    (tmp_path / "run").mkdir()
    file = filed(tmp_path / "run", TINY, "card")
    (tmp_path / "best.safetensors").symlink_to(file)
    assert origin_of(tmp_path / "best.safetensors") == Origin(TINY, f"the {CARD} beside it")


def test_the_word_of_the_file_goes_before_that_of_a_card(tmp_path):
    shutil.copy(filed(tmp_path, TINY, "file"), tmp_path / "copy.safetensors")
    (tmp_path / CARD).write_text(json.dumps({"model": "resnet18", "weights": "copy.safetensors"}))
    assert origin_of(tmp_path / "copy.safetensors") == Origin(TINY, "the file itself")


def test_code_of_a_card_is_not_run_and_code_that_is_asked_for_is_trusted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "named_by_a_card.py").write_text("raise SystemExit('run')")
    (tmp_path / "of_the_users.py").write_text(
        f"from gamagat.models.core import build_model\ndef make():\n    return build_model({TINY!r})\n"
    )
    file = filed(tmp_path, "named_by_a_card:make", "card", weights_of(TINY))
    with pytest.raises(CheckpointError, match="give named_by_a_card:make as the model"):
        load_model(TINY, file)
    assert load_model("of_the_users:make", file)
