"""A folder that training left is a network like any other."""

import json

import pytest
import torch

from gamagat.errors import ModelError
from gamagat.models.core import BUNDLED, check_weights, load_model
from gamagat.models.loading.card import NAME, read_card

CARD = {"model": "digits-cnn", "weights": "model.safetensors", "data": "digits", "norm": "linf", "eps": 0.3}


@pytest.fixture
def folder(tmp_path):
    """A folder with a card and weights."""
    made = tmp_path / "run"
    made.mkdir()
    (made / "model.safetensors").write_bytes((BUNDLED / "digits-cnn.safetensors").read_bytes())
    (made / NAME).write_text(json.dumps(CARD))
    return made


def test_a_card_tells_the_network_and_its_weights(folder):
    card = read_card(str(folder))
    assert card.model == "digits-cnn"
    assert card.weights == folder / "model.safetensors"
    assert (card.get("eps"), card.get("nothing")) == (0.3, None)


@pytest.mark.parametrize("hashes", [{"sha256": "00"}, {"file_sha256": "00", "weights_sha256": "11"}])
def test_cards_with_the_hashes_of_any_version_are_read(folder, hashes):
    (folder / NAME).write_text(json.dumps(CARD | hashes))
    assert read_card(str(folder)).model == "digits-cnn"
    assert load_model(str(folder)).fc2.out_features == 10


def test_the_folder_is_loaded_like_a_model(folder):
    ours, theirs = load_model(str(folder)).state_dict(), load_model("digits-cnn").state_dict()
    assert all(torch.equal(ours[key], theirs[key]) for key in theirs)
    check_weights(str(folder))


def test_weights_that_are_given_win_over_those_of_the_card(folder, tmp_path):
    from safetensors.torch import save_file  # noqa: PLC0415

    state = {key: value + 1 for key, value in load_model("digits-cnn").state_dict().items()}
    save_file(state, tmp_path / "other.safetensors")
    found = load_model(str(folder), tmp_path / "other.safetensors").state_dict()
    assert all(torch.equal(found[key], state[key]) for key in state)


def test_a_relative_folder_and_one_at_home_are_found(folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    monkeypatch.setenv("HOME", str(folder.parent))
    for name in ("run", "./run", "run/", "~/run"):
        assert read_card(name).model == "digits-cnn"


@pytest.mark.parametrize("with_card", [False, True])
@pytest.mark.parametrize("name", ["resnet18", "digits-cnn"])
def test_a_folder_called_like_a_model_is_not_that_model(folder, monkeypatch, name, with_card):
    monkeypatch.chdir(folder.parent)
    folder.rename(folder.parent / name)
    card = folder.parent / name / NAME
    if not with_card:
        card.unlink()
    assert read_card(name) is None
    if name == "resnet18":
        with pytest.raises(ModelError, match="no weights"):
            check_weights(name)
    else:
        assert load_model(name).fc2.out_features == 10  # and comes to an end
    if with_card:
        assert read_card(f"./{name}").model == "digits-cnn"
        assert load_model(f"./{name}").fc2.out_features == 10


@pytest.mark.parametrize(
    "spec", ["no/such/folder", "", "a" * 5000, "~nobody-of-this-name/x", "torchvision:x\0"]
)
def test_what_is_no_folder_has_no_card(spec):
    assert read_card(spec) is None


def test_a_folder_without_a_card_is_no_network(tmp_path):
    assert read_card(str(tmp_path)) is None
    (tmp_path / NAME).mkdir()
    assert read_card(str(tmp_path)) is None


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "7", "null", "{}", '{"model": "digits-cnn"}', '{"weights": "model.safetensors"}', "\xff"],
)
def test_a_damaged_card_is_one_sentence(folder, content):
    (folder / NAME).write_text(content, encoding="latin-1")
    with pytest.raises(ModelError, match=r"cannot read .*card\.json") as caught:
        load_model(str(folder))
    assert "\n" not in str(caught.value)


def test_missing_weights_are_one_sentence(folder):
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelError, match=r"model\.safetensors, named by the card beside it, is not there"):
        read_card(str(folder))
