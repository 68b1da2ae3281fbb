"""Networks that users bring are looked at before they are measured, and known again."""

import sys
from dataclasses import replace
from pathlib import Path
from shutil import copytree

import pytest
import torch
from torch import nn

import gamagat
from experiments.toy import COLUMNS, GAT, shop_at, toy_table
from experiments.toy_figure import toy_figure
from gamagat.experiments import workshop
from gamagat.experiments.core import Measure, Network, Slot
from gamagat.experiments.drawing import run_figure
from gamagat.experiments.runner import run
from gamagat.reports.reproduction import draw

CODE = """
import gamagat, torch
class Own(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = gamagat.load_model("digits-cnn")
    def forward(self, images):
        return self.net({images})
def build(): return Own()
"""
AS_THEY_ARE, ROUNDED, SHRUNK = "images", "(images * 4).round() / 4", "0.7 * images"


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A module of the user's, whose code may change."""
    monkeypatch.syspath_prepend(str(tmp_path))
    given = Network("digits", "own:build", given=True)

    def written(images: str) -> Network:
        (tmp_path / "own.py").write_text(CODE.format(images=images) + "#" * len(sys.modules))
        sys.modules.pop("own", None)
        return given

    yield written
    sys.modules.pop("own", None)


def measured(root: Path, network: Network, *columns: str, force: bool = False):
    """What comes out, and what is said meanwhile."""
    said: list[str] = []
    shop = shop_at(root)
    shop.say, shop.guests.force = said.append, force
    table = toy_table(rows={"GAT": GAT}).only(columns=list(columns)).with_networks({"GAT": network})
    return run(table, shop).cells, said


@pytest.mark.parametrize("column", ["FGSM", "CW mean L2"])
def test_one_that_hides_its_gradients_has_no_figures(own, tmp_path, column):
    (cell,), _ = measured(tmp_path / "cache", own(ROUNDED), column)
    assert (cell.measured, cell.ours) == (False, None)
    assert "input-gradients: the gradient of the winning margin is zero" in cell.reason
    assert cell.reason.endswith("(--force goes on)")


def test_whoever_insists_has_them_and_is_told_once(own, tmp_path):
    cells, said = measured(tmp_path / "cache", own(ROUNDED), "Clean", "FGSM", "PGD-40", force=True)
    assert all(cell.measured for cell in cells)
    notes = [words for words in said if "input-gradients" in words]
    assert len(notes) == 1
    assert notes[0].startswith("yours, own:build, digits: input-gradients: ")


@pytest.mark.parametrize(("role", "refused"), [("source", True), ("target", False)])
def test_of_networks_that_share_images_the_one_they_are_made_on_needs_gradients(
    own, filled, tmp_path, role, refused
):
    copytree(filled, tmp_path / "cache")
    rounded, measure = own(ROUNDED), COLUMNS["transfer"]
    slot = (
        Slot("GAT", "transfer", rounded, measure)
        if role == "target"
        else Slot("GAT", "transfer", GAT, replace(measure, source=rounded))
    )
    (cell,) = run(replace(toy_table(), slots=(slot,)), shop_at(tmp_path / "cache")).cells
    assert ("input-gradients" in cell.reason) == refused
    assert cell.measured != refused


def test_settings_that_a_table_says_in_vain_are_no_concern_of_theirs(own, tmp_path):
    columns = {"GAMA": Measure("gama-pgd:steps=2,weight=0,fade=none")}
    table, shop, said = toy_table(rows={"GAT": own(AS_THEY_ARE)}, columns=columns), shop_at(tmp_path), []
    shop.say = said.append
    (cell,) = run(table, shop).cells
    assert cell.measured
    assert not [words for words in said if "changes nothing" in words]


def test_a_line_that_is_drawn_of_one_is_looked_at_too(own, tmp_path):
    figure = toy_figure("losses").with_networks({"losses": own(ROUNDED)})
    sketch = run_figure(figure, shop_at(tmp_path / "cache"), draw)
    assert ["input-gradients" in line.reason for line in sketch.lines] == [True]


def test_one_whose_figures_are_known_is_loaded_once(own, tmp_path, monkeypatch):
    network, columns = own(AS_THEY_ARE), ("Clean", "FGSM", "PGD-40")
    measured(tmp_path / "cache", network, *columns)
    made, prepare = [], workshop.prepare
    monkeypatch.setattr(workshop, "prepare", lambda request: made.append(request) or prepare(request))
    cells, _ = measured(tmp_path / "cache", network, *columns)
    assert all(cell.measured for cell in cells)
    assert len(made) == 1


def test_one_whose_code_has_changed_is_measured_again(own, tmp_path):
    root = tmp_path / "cache"
    network = own(AS_THEY_ARE)
    (before,), _ = measured(root, network, "FGSM")
    (again,), said = measured(root, network, "FGSM")
    assert (again.ours, said) == (before.ours, [])
    (after,), said = measured(root, own(SHRUNK), "FGSM")
    told = [words for words in said if "answers otherwise than before" in words]
    assert len(told) == 1
    aside = Path(told[0].rpartition(" is in ")[2])
    assert list(aside.glob("evaluations/*/result.json"))
    shrunk = nn.Sequential(Shrunk(), gamagat.load_model("digits-cnn")).eval()
    data = gamagat.load_data("digits").head(40)
    truth = gamagat.evaluate(shrunk, data, COLUMNS["FGSM"].attack, eps=shop_at(root).cache.eps(network))
    assert after.ours == truth.standing.percent != before.ours


class Shrunk(nn.Module):
    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return 0.7 * images
