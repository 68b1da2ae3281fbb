"""From a training to the zoo."""

import hashlib
import json
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from gamagat import cli
from gamagat.engine.manifest import weights_hash
from gamagat.engine.request import EvaluationRequest, prepare
from gamagat.errors import ConfigError, RunError
from gamagat.experiments import shelving
from gamagat.experiments.shelving import PAGE, add_to_zoo, halved
from gamagat.models.core import BUNDLED, load_model
from gamagat.models.loading.origin import Origin, origin_of
from gamagat.models.loading.zoo import zoo_folder

FILE, TENSORS = "0" * 64, "1" * 64
README = (
    "# digits-cnn\n\n`gamagat evaluate DIR` measures this network, DIR being this folder.\n"
    f"- sha256 of the file: {FILE}\n- of its tensors: {TENSORS}\n"
)


@pytest.fixture
def training(tmp_path, monkeypatch) -> Path:
    """The folder of a training, and an empty zoo."""
    home = tmp_path / "training"
    home.mkdir()
    (home / "model.safetensors").write_bytes((BUNDLED / "digits-cnn.safetensors").read_bytes())
    hashes = {"file_sha256": FILE, "weights_sha256": TENSORS}
    card = {
        "model": "digits-cnn",
        "weights": "model.safetensors",
        "data": "digits",
        "norm": "linf",
        "eps": 0.2,
    }
    (home / "card.json").write_text(json.dumps(card | hashes | {"recipe": "gat"}))
    (home / "README.md").write_text(README)
    monkeypatch.setenv("GAMAGAT_ZOO", str(tmp_path / "zoo"))
    return home


def test_an_entry_is_half_as_large_and_as_good(training, tmp_path):
    home, check = add_to_zoo(str(training), "gat-digits", device="cpu")
    assert home == tmp_path / "zoo" / "gat-digits"
    assert sorted(path.name for path in home.iterdir()) == ["README.md", "card.json", "model.safetensors"]
    assert [path.name for path in home.parent.iterdir()] == ["gat-digits"]  # nothing half-made
    sizes = [(folder / "model.safetensors").stat().st_size for folder in (training, home)]
    assert sizes[1] < 0.52 * sizes[0]
    assert check.images > 300
    assert abs(check.before - check.after) <= 0.1
    assert check.before > 90
    assert origin_of(home / "model.safetensors") == Origin("digits-cnn", "the file itself")


def test_the_card_has_the_hashes_of_what_is_used(training):
    home, _ = add_to_zoo(str(training), "gat-digits", device="cpu", n=50)
    card, page = json.loads((home / "card.json").read_text()), (home / "README.md").read_text()
    assert card["file_sha256"] == hashlib.sha256((home / "model.safetensors").read_bytes()).hexdigest()
    prepared = prepare(EvaluationRequest("zoo:gat-digits", n=2, device="cpu", attacks=("fgsm",)))
    assert card["weights_sha256"] == weights_hash(prepared.model)
    assert (card["recipe"], card["precision"], card["accuracy"]["images"]) == ("gat", "float16", 50)
    assert FILE not in page
    assert TENSORS not in page
    assert card["file_sha256"] in page
    assert "`gamagat evaluate zoo:gat-digits` measures this network." in page
    assert "50 untouched test images" in page


def test_a_network_that_half_precision_spoils_is_not_added(training, tmp_path, monkeypatch):
    spoilt = {key: torch.zeros_like(value) for key, value in load_model("digits-cnn").state_dict().items()}
    monkeypatch.setattr(shelving, "halved", lambda state: spoilt)
    with pytest.raises(RunError, match=r"0.1 points are allowed; it is not added"):
        add_to_zoo(str(training), "gat-digits", device="cpu", n=100)
    assert list((tmp_path / "zoo").iterdir()) == []


def test_numbers_too_large_for_half_precision_stay_as_they_are():
    state = {"weight": torch.ones(2), "large": torch.tensor([1e6]), "count": torch.tensor(7)}
    kinds = {key: value.dtype for key, value in halved(state).items()}
    assert kinds == {"weight": torch.float16, "large": torch.float32, "count": torch.int64}


def test_without_its_data_it_is_added_and_said_not_to_be_checked(training, tmp_path):
    card = json.loads((training / "card.json").read_text()) | {"data": f"folder:{tmp_path / 'gone'}"}
    (training / "card.json").write_text(json.dumps(card))
    home, check = add_to_zoo(str(training), "gat-digits", device="cpu")
    assert "is not a folder" in check.missing
    assert "not compared with the training's" in (home / "README.md").read_text()


def test_the_zoo_stays_small(training, monkeypatch, tmp_path):
    home, _ = add_to_zoo(str(training), "gat-digits", device="cpu", n=10)
    size = (home / "model.safetensors").stat().st_size
    monkeypatch.setattr(shelving, "MOST", 1.5 * size)
    told = f"{size / 1e6:.1f} MB"
    with pytest.raises(ConfigError, match="take another out first, which is to delete its folder") as caught:
        add_to_zoo(str(training), "other", device="cpu")
    for words in (
        f"the zoo would be {2 * size / 1e6:.1f} MB with other",
        f"in {tmp_path / 'zoo'}: gat-digits ({told}); or set GAMAGAT_ZOO to another folder",
        "wherever zoo:other is used",
        f"gamagat evaluate {training} needs no zoo",
    ):
        assert words in str(caught.value)
    monkeypatch.setattr(shelving, "MOST", 1000)
    with pytest.raises(
        ConfigError, match=f"the zoo would be {told} with other alone, and it may be 0.001 MB"
    ):
        add_to_zoo(str(training), "other", device="cpu")
    assert list((tmp_path / "zoo").iterdir()) == [home]


def test_a_network_of_double_precision_is_added(training, monkeypatch):
    (training / "wide_nets.py").write_text(
        "from gamagat.models.core import build_model\n"
        "def network():\n    return build_model('digits-cnn').double()\n"
    )
    monkeypatch.chdir(training)
    card = json.loads((training / "card.json").read_text()) | {"model": "wide_nets:network"}
    (training / "card.json").write_text(json.dumps(card))
    assert add_to_zoo(str(training), "wide", device="cpu", n=50)[1].before > 90


def test_data_of_another_machine_are_named_without_the_way_to_them(training):
    card = json.loads((training / "card.json").read_text()) | {"data": "folder:/home/me/pictures"}
    (training / "card.json").write_text(json.dumps(card))
    home, check = add_to_zoo(str(training), "far", device="cpu", n=10)
    assert "'/home/me/pictures' is not a folder" in str(check.missing)  # said here, and written nowhere
    assert "not compared with the training's: folder:pictures could not be had" in (home / PAGE).read_text()
    assert "/home/me" not in (home / PAGE).read_text()


def test_a_page_names_no_folder_of_this_machine(training, tmp_path):
    card = json.loads((training / "card.json").read_text()) | {"data": "imagenet100"}
    (training / "card.json").write_text(json.dumps(card))
    home, check = add_to_zoo(str(training), "far", tmp_path / "empty", device="cpu", n=10)
    assert str(tmp_path) in check.missing
    for file in (home / PAGE, home / "card.json"):
        assert str(tmp_path) not in file.read_text()


@pytest.mark.parametrize("name", ["GAT", "../x", "", ".x", "a b"])
def test_names_are_plain(training, name):
    with pytest.raises(ConfigError, match="small letters, digits, dots and dashes"):
        add_to_zoo(str(training), name)


def test_what_is_there_is_not_overwritten(training):
    home, _ = add_to_zoo(str(training), "gat-digits", device="cpu", n=10)
    before = load_file(home / "model.safetensors")
    save_file({key: value + 1 for key, value in before.items()}, training / "model.safetensors")
    with pytest.raises(ConfigError, match="is there already"):
        add_to_zoo(str(training), "gat-digits", device="cpu", n=10)
    after = load_file(home / "model.safetensors")
    assert all(torch.equal(before[key], after[key]) for key in before)


def call(monkeypatch, capsys, *words):
    monkeypatch.setattr(sys, "argv", ["gamagat", *map(str, words)])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    return stop.value.code or 0, *capsys.readouterr()


def test_the_command(training, monkeypatch, capsys):
    words = ("zoo", "add", training, "gat-digits", "--device", "cpu", "--n", "40")
    code, out, _ = call(monkeypatch, capsys, *words, "--json")
    assert code == 0
    assert json.loads(out)["name"] == "zoo:gat-digits"
    code, out, _ = call(monkeypatch, capsys, "list", "zoo")
    assert "zoo:gat-digits" in out
    code, _, err = call(monkeypatch, capsys, "zoo", "add", training, "other", "--n", "0")
    assert (code, "the number of images must be positive, got 0" in err) == (2, True)
    assert not (zoo_folder() / "other").exists()
    code, _, err = call(monkeypatch, capsys, "zoo", "remove", training, "x")
    assert (code, "gamagat zoo can add, got 'remove'" in err) == (2, True)
    code, _, err = call(monkeypatch, capsys, "zoo", "add", training.parent, "x")
    assert (code, "holds no finished training" in " ".join(err.split())) == (2, True)
    words = ("evaluate", "zoo:gat-digits", "--n", "10", "--attack", "fgsm", "--device", "cpu", "--json")
    code, out, _ = call(monkeypatch, capsys, *words)
    assert code == 0
    assert json.loads(out)
