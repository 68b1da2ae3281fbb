"""Networks by their names in the zoo."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from gamagat.engine.catalog import catalog
from gamagat.engine.request import EvaluationRequest, completed, prepare
from gamagat.errors import ModelError
from gamagat.models.core import BUNDLED, build_model, load_model
from gamagat.models.loading import zoo as zoo_module
from gamagat.models.loading.card import NAME
from gamagat.models.loading.zoo import zoo_folder, zoo_names

CARD = {
    "model": "digits-cnn", "weights": "model.safetensors", "data": "digits", "norm": "linf", "eps": 0.25,
    "recipe": "gat:epochs=3", "figures": {"selected": {"images": 360, "clean": 97.5}},
}  # fmt: skip


@pytest.fixture
def zoo(tmp_path, monkeypatch) -> Path:
    """A zoo with one network, in half precision."""
    home = tmp_path / "zoo" / "gat-digits"
    home.mkdir(parents=True)
    state = load_file(BUNDLED / "digits-cnn.safetensors")
    save_file({key: value.half() for key, value in state.items()}, home / "model.safetensors")
    (home / NAME).write_text(json.dumps(CARD))
    (tmp_path / "zoo" / ".half.1.part").mkdir()  # what was being written when the machine fell
    (tmp_path / "zoo" / ".half.1.part" / NAME).write_text("{}")
    monkeypatch.setenv("GAMAGAT_ZOO", str(tmp_path / "zoo"))
    return tmp_path / "zoo"


def test_weights_in_half_precision_make_a_network_in_single(zoo):
    network = load_model("zoo:gat-digits")
    assert {value.dtype for value in network.state_dict().values() if value.is_floating_point()} == {
        torch.float32
    }
    stored = load_file(zoo / "gat-digits" / "model.safetensors")
    assert {value.dtype for value in stored.values()} == {torch.float16}
    assert all(torch.equal(network.state_dict()[key], value.float()) for key, value in stored.items())


def test_the_evaluated_network_is_float32_and_the_card_says_the_rest(zoo):
    prepared = prepare(EvaluationRequest("zoo:gat-digits", n=4, device="cpu", attacks=("fgsm",)))
    assert all(value.dtype == torch.float32 for value in prepared.model.parameters())
    assert (prepared.data.name, prepared.threat.eps) == ("digits", 0.25)
    assert prepared.model(torch.rand(2, *prepared.data.shape)).dtype == torch.float32


def test_a_run_is_kept_under_the_name_not_the_folder(zoo):
    assert completed(EvaluationRequest("zoo:gat-digits")).model == "zoo:gat-digits"
    assert completed(EvaluationRequest(str(zoo / "gat-digits"))).model == str(zoo / "gat-digits")


def test_an_unknown_name_is_refused_with_those_that_are_there(zoo):
    with pytest.raises(ModelError, match="'gat-digit'; did you mean 'gat-digits'"):
        load_model("zoo:gat-digit")
    with pytest.raises(ModelError, match="network of the zoo ''; known: gat-digits"):
        load_model("zoo:")


@pytest.mark.parametrize("name", ["../gat-digits", "gat-digits/../gat-digits", "/etc"])
def test_a_name_is_no_path(zoo, name):
    with pytest.raises(ModelError, match="unknown network of the zoo"):
        load_model(f"zoo:{name}")


def test_without_a_zoo_it_is_said_where_to_get_one(tmp_path, monkeypatch):
    monkeypatch.setenv("GAMAGAT_ZOO", str(tmp_path / "nowhere"))
    with pytest.raises(ModelError, match=r"no networks in .*nowhere; get the folder zoo of the repository"):
        load_model("zoo:gat-digits")
    assert catalog("zoo") == []
    monkeypatch.delenv("GAMAGAT_ZOO")
    monkeypatch.setattr(
        zoo_module, "__file__", str(tmp_path / "lib/site-packages/gamagat/models/loading/zoo.py")
    )
    assert zoo_folder() is None
    with pytest.raises(
        ModelError, match="an installed package comes without trained weights; get the folder"
    ):
        load_model("zoo:gat-digits")


def test_an_editable_install_has_the_zoo_beside_its_source(monkeypatch):
    monkeypatch.delenv("GAMAGAT_ZOO", raising=False)
    assert zoo_folder() == Path(zoo_module.__file__).parents[4] / "zoo"


def test_the_zoo_is_listed_with_what_its_cards_say(zoo):
    assert zoo_names() == ["gat-digits"]
    (item,) = catalog("zoo")
    assert item.name == "zoo:gat-digits"
    assert item.summary == "digits-cnn trained with gat on digits, linf, eps 0.25."
    assert item.options == {"clean": "97.50"}


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["cat", "dog", "emu"], "3 classes: cat, dog, emu."),
        ([f"n{number:02}" for number in range(40)], "40 classes: n00, n01, ..., n39."),
    ],
)
def test_the_zoo_lists_classes_that_have_names_and_no_path_of_a_machine(zoo, names, words):
    card = CARD | {"data": "folder:/home/me/pictures", "classes": names}
    (zoo / "gat-digits" / NAME).write_text(json.dumps(card))
    (item,) = catalog("zoo")
    assert item.summary == f"digits-cnn trained with gat on folder:pictures, linf, eps 0.25. {words}"


def test_it_is_not_trained_anew(zoo):
    with pytest.raises(ModelError, match="is a trained network; to train one anew"):
        build_model("zoo:gat-digits")
