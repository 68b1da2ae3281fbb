"""The networks that the repository carries are what their cards say."""

import hashlib
import json
from pathlib import Path

import pytest
import torch

from gamagat.data.core import load_data
from gamagat.engine.manifest import weights_hash
from gamagat.models.core import load_model

ZOO = Path(__file__).parents[2] / "zoo"
ENTRIES = sorted(card.parent for card in ZOO.glob("*/card.json"))


@pytest.mark.parametrize("folder", ENTRIES, ids=lambda folder: folder.name)
def test_an_entry_is_what_its_card_says(folder):
    card = json.loads((folder / "card.json").read_text())
    file = folder / card["weights"]
    assert hashlib.sha256(file.read_bytes()).hexdigest() == card["file_sha256"]
    model = load_model(card["model"], file)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert weights_hash(model) == card["weights_sha256"]
    assert f"zoo:{folder.name}" in (folder / "README.md").read_text()


def test_the_zoo_is_small():
    assert len(ENTRIES) == 2
    assert sum(file.stat().st_size for file in ZOO.rglob("*.safetensors")) <= 26_000_000


@pytest.mark.data
def test_the_mnist_network_knows_its_digits(shared):
    data = load_data("mnist", "test", shared / "data").head(500)
    model = load_model("m-lenet", ZOO / "gat-m-lenet-mnist" / "model.safetensors").eval()
    x, y = data.batch(torch.arange(500))
    with torch.no_grad():
        assert (model(x).argmax(1) == y).float().mean() > 0.98
