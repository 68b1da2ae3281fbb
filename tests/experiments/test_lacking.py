"""What is left to do where the results are at hand and the cache is not."""

from dataclasses import replace

import pytest

from experiments.toy import GAT, NORMAL, QUICK, shop_at, toy_table
from experiments.toy_figure import toy_figure
from gamagat.experiments.core import Measure, Network
from gamagat.experiments.drawing import run_figure
from gamagat.experiments.lacking import lacking
from gamagat.experiments.results import save_figure, save_result
from gamagat.experiments.runner import run
from gamagat.models.core import BUNDLED
from gamagat.reports.reproduction import draw


@pytest.fixture(scope="module")
def held(filled, tmp_path_factory):
    """Results that hold the whole toy table."""
    folder = tmp_path_factory.mktemp("results")
    save_result(folder, toy_table(), run(toy_table(), shop_at(filled)).cells)
    return folder


def left(table, held, **options):
    """Places of a table that are left for somebody whose cache is empty."""
    found = lacking(table, shop_at(held / "no cache", **options), held)
    return [(slot.row, slot.column) for slot in found.slots]


def places(table):
    return [(slot.row, slot.column) for slot in table.slots]


def test_nothing_is_left_of_what_the_results_hold(held):
    assert left(toy_table(), held) == []
    assert lacking(toy_table(), shop_at(held / "no cache"), held).rows == []


def test_without_results_all_is_left(tmp_path):
    assert left(toy_table(), tmp_path) == places(toy_table())


def test_more_images_are_left_and_fewer_are_not(held):
    assert left(toy_table(), held, n=41) == places(toy_table())
    assert left(toy_table(), held, n=39) == []


def test_another_network_attack_seed_or_source_is_left(held, tmp_path):
    assert left(toy_table(), held, batch="32") == places(toy_table())
    other = shop_at(tmp_path)
    other.cache.seed = 3
    assert lacking(toy_table(), other, held).slots == toy_table().slots
    columns = {
        "Clean": Measure(),
        "FGSM": Measure("fgsm"),
        "PGD-40": Measure("pgd:steps=3,as_published=true", eps="0.1"),
        "transfer": Measure("fgsm", source=GAT),
    }
    changed = toy_table(columns=columns)
    assert left(changed, held) == [place for place in places(changed) if place[1] != "Clean"]


def test_a_figure_that_was_not_measured_is_left(filled, tmp_path):
    cells = run(toy_table(), shop_at(filled)).cells
    save_result(tmp_path, toy_table(), [cell for cell in cells if cell.column != "FGSM"])
    assert left(toy_table(), tmp_path) == [("Normal", "FGSM"), ("GAT", "FGSM")]


def test_a_mean_distance_is_held_though_some_images_have_none(filled, tmp_path):
    cells = run(toy_table(), shop_at(filled)).cells
    fewer = [replace(cell, n=38) for cell in cells if cell.column == "CW mean L2"]
    save_result(tmp_path, toy_table(), fewer)
    wanted = [place for place in places(toy_table()) if place[1] != "CW mean L2"]
    assert left(toy_table(), tmp_path) == wanted


def test_figures_of_networks_that_nobody_can_train_are_not_asked_for_again(held, tmp_path):
    rows = {"Normal": NORMAL, "GAT": Network("digits", "digits-cnn")}
    assert left(toy_table(rows=rows), held) == []
    assert left(toy_table(rows=rows), tmp_path) == places(toy_table())
    given = replace(GAT, weights=str(BUNDLED / "digits-cnn.safetensors"), given=True)
    assert {row for row, _ in left(toy_table(rows=rows | {"GAT": given}), held)} == {"GAT"}


def test_of_missing_images_all_is_left(held, tmp_path):
    nowhere = {"Normal": Network("arrays:nowhere.npz", "digits-cnn", "standard"), "GAT": GAT}
    assert {row for row, _ in left(toy_table(rows=nowhere), held)} == {"Normal"}


def test_lines_of_figures(tmp_path):
    kinds = ["restarts", "trained", "losses", "epochs", "one dimension"]
    figure, shop = toy_figure(*kinds), shop_at(tmp_path / "cache")
    lines = run_figure(figure, shop, draw).lines
    assert all(line.measured for line in lines)
    save_figure(tmp_path, figure, [line for line in lines if line.column != "targets"])
    fresh = shop_at(tmp_path / "other")
    assert [line.column for line in lacking(figure, fresh, tmp_path).lines] == ["targets"]
    more = lacking(figure, shop_at(tmp_path / "other", n=60), tmp_path)
    assert [line.row for line in more.lines] == ["restarts", "restarts", "trained", "losses"]


def test_on_the_command_line(command, registered, filled, held, tmp_path):
    words = ["reproduce", "toy", "--device", "cpu", "--n", "40", "--missing", "--results", held]
    words += [word for key, value in QUICK.items() for word in ("--set", f"{key}={value}")]
    before = (held / "toy.json").read_bytes()
    code, out, err = command(*words, "--cache", tmp_path / "empty")
    assert (code, err) == (0, "")
    assert out.strip() == f"nothing to do: {held} holds all that was asked of toy"
    code, out, _ = command(*words, "--cache", tmp_path / "empty", "--json")
    assert (code, '"cells": []' in out, '"missing": 0' in out) == (0, True, True)
    assert (held / "toy.json").read_bytes() == before
    assert not (tmp_path / "empty").exists()
    code, out, _ = command(*words, "--cache", filled, "--rows", "GAT", "--columns", "FGSM", "--plan")
    assert (code, "FGSM" in out) == (0, False)
    some = [*words[: -len(QUICK) * 2 - 1], tmp_path / "results", *words[-len(QUICK) * 2 :]]
    code, out, _ = command(*some, "--cache", filled, "--rows", "GAT", "--columns", "Clean")
    assert (code, "Clean" in out) == (0, True)
    code, out, _ = command(*some, "--cache", filled, "--rows", "GAT", "--columns", "Clean,FGSM")
    assert (code, "Clean" in out, "FGSM" in out) == (0, False, True)


@pytest.mark.parametrize(
    "words",
    [["reproduce", "toy", "--missing"], ["reproduce", "--missing", "--results", "r", "--markdown", "m"]],
)
def test_missing_needs_results_and_a_name(command, words):
    code, out, err = command(*words)
    assert (code, out) == (2, "")
    assert "--missing needs the name of a table or figure, and --results DIR" in " ".join(err.split())
