"""What is left to do where the results are at hand and the cache is not."""

import json
import sys
from dataclasses import replace

import pytest

from experiments.toy import GAT, NORMAL, shop_at, toy_table
from experiments.toy_figure import toy_figure
from gamagat.errors import DataError
from gamagat.experiments.core import EXPERIMENTS, Derived, Measure, Network
from gamagat.experiments.drawing import run_figure
from gamagat.experiments.figures import FIGURES
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


def test_where_images_are_missing_it_is_said_once_that_figures_count_as_missing(held, monkeypatch):
    def missing(*_):
        raise DataError("no digits in here")

    shop, said = shop_at(held / "no cache"), []
    shop.say = said.append
    monkeypatch.setattr("gamagat.experiments.cache.split_data", missing)
    for _ in range(2):
        found = lacking(toy_table(), shop, held)
        assert [(slot.row, slot.column) for slot in found.slots] == places(toy_table())
    assert said == ["no digits in here; meanwhile figures on digits count as missing"]


def test_without_results_all_is_left(tmp_path):
    assert left(toy_table(), tmp_path) == places(toy_table())


def test_more_images_are_left_and_fewer_are_not(held):
    assert left(toy_table(), held, n=41) == places(toy_table())
    assert left(toy_table(), held, n=39) == []


def test_another_network_attack_seed_or_source_is_left(held, tmp_path):
    assert left(toy_table(), held, batch="32") == places(toy_table())
    other = shop_at(tmp_path)
    other.cache.seed = 3
    found = [(slot.row, slot.column) for slot in lacking(toy_table(), other, held).slots]
    assert found == [place for place in places(toy_table()) if place[1] != "Clean"]
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


def test_more_of_the_same_is_told_apart(held, filled, tmp_path):
    known = run(toy_table(), shop_at(filled)).cells
    for about in (
        {"network": "gat-other"},
        {"changed": {"steps": "2"}},
        {"norm": "l1"},
        {"eps": 0.7},
        {"source": "x"},
    ):
        save_result(tmp_path, toy_table(), [replace(cell, about=cell.about | about) for cell in known])
        assert left(toy_table(), tmp_path) == places(toy_table()), about


def test_means_are_shown_where_nothing_is_held_and_worked_out_elsewhere(held, tmp_path):
    table = toy_table(derived=(Derived("mean", "FGSM", ("Normal", "GAT"), "mean"),))
    shop = shop_at(tmp_path / "cache")
    assert lacking(table, shop, tmp_path).derived == table.derived
    assert lacking(table, shop, held).rows == []


def test_a_mean_distance_is_held_though_some_images_have_none(filled, tmp_path):
    known = run(toy_table(), shop_at(filled)).cells
    fewer = [replace(cell, n=38) for cell in known if cell.column == "CW mean L2"]
    assert [cell.about["images"] for cell in fewer] == [40, 40]
    save_result(tmp_path, toy_table(), fewer)
    wanted = [place for place in places(toy_table()) if place[1] != "CW mean L2"]
    assert left(toy_table(), tmp_path) == wanted


def test_figures_of_brought_networks_stand_until_others_are_brought(filled, held, tmp_path):
    rows = {"Normal": NORMAL, "GAT": Network("digits", "digits-cnn")}
    assert left(toy_table(rows=rows), tmp_path) == places(toy_table())
    assert {row for row, _ in left(toy_table(rows=rows), held)} == {"GAT"}  # what was trained is another
    given = replace(GAT, weights=str(BUNDLED / "digits-cnn.safetensors"), given=True)
    known = run(toy_table(), shop_at(filled)).cells
    brought = [replace(cell, about=cell.about | {"recipe": None, "network": "yours"}) for cell in known]
    save_result(tmp_path, toy_table(), brought)
    assert left(toy_table(rows=rows), tmp_path) == []
    assert left(toy_table(), tmp_path) == []
    assert {row for row, _ in left(toy_table(rows=rows | {"GAT": given}), tmp_path)} == {"GAT"}


def test_of_missing_images_all_is_left(held):
    nowhere = {"Normal": Network("arrays:nowhere.npz", "digits-cnn", "standard"), "GAT": GAT}
    assert {row for row, _ in left(toy_table(rows=nowhere), held)} == {"Normal"}


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """A figure with lines of many kinds, and its results."""
    folder = tmp_path_factory.mktemp("figure")
    figure = toy_figure("restarts", "radii", "trained", "losses", "surface", "epochs", "one dimension")
    lines = run_figure(figure, shop_at(folder / "cache"), draw).lines
    assert all(line.measured for line in lines)
    save_figure(folder, figure, lines)
    return figure, lines, folder


def lines_left(figure, folder, **options):
    found = lacking(figure, shop_at(folder / "no cache", **options), folder)
    return [(line.row, line.column) for line in found.lines]


def test_nothing_is_left_of_a_figure_that_is_drawn(drawn, tmp_path):
    figure, lines, folder = drawn
    assert lines_left(figure, folder) == []
    assert len(lines_left(figure, tmp_path)) == len(figure.lines)
    save_figure(tmp_path, figure, [line for line in lines if line.column != "targets"])
    assert lines_left(figure, tmp_path) == [("restarts", "targets")]


def test_more_images_of_a_figure_are_left(drawn):
    figure, _, folder = drawn
    rows = [row for row, _ in lines_left(figure, folder, n=60)]
    assert rows == [
        "restarts",
        "restarts",
        "radii",
        "trained",
        "losses",
    ]  # of one image, or of none, the others


def test_a_picture_of_another_seed_is_left(drawn):
    figure, _, folder = drawn
    shop = shop_at(folder / "cache")
    shop.cache.seed = 3
    assert "surface" in lacking(figure, shop, folder).rows


def test_a_line_of_another_plot_or_other_points_is_left(drawn):
    figure, _, folder = drawn
    changed = {
        "surface": lambda line: replace(line, plot="surface:losses=ce,points=5"),
        "radii": lambda line: replace(line, points=(replace(line.points[0], x=1.0), *line.points[1:])),
        "trained": lambda line: replace(line, points=line.points[1:]),
        "one dimension": lambda line: replace(line, plot="toy:start=1"),
        "losses": lambda line: replace(line, attack="fgsm:as_published=true"),
    }
    lines = tuple(changed.get(line.row, lambda same: same)(line) for line in figure.lines)
    assert [row for row, _ in lines_left(replace(figure, lines=lines), folder)] == [
        "radii", "trained", "losses", "surface", "one dimension",
    ]  # fmt: skip


QUICKLY = "epochs=1,probe=20"
WORDS = ["reproduce", "quick", "--device", "cpu", "--n", "40", "--missing"]


@pytest.fixture
def quick(registered):
    """A table whose recipes are short by themselves."""
    rows = {"GAT": replace(GAT, recipe=f"gat:{QUICKLY}")}
    columns = {
        "Clean": Measure(),
        "FGSM": Measure("fgsm:as_published=true"),
        "PGD-40": Measure("pgd:steps=2"),
    }
    EXPERIMENTS.register("quick")(lambda: toy_table("quick", rows, columns=columns))


def test_on_the_command_line(command, quick, tmp_path):
    place = ["--results", tmp_path / "r", "--cache", tmp_path / "a"]
    code, out, _ = command(*WORDS, *place, "--columns", "Clean")
    assert (code, "Clean" in out) == (0, True)
    code, out, _ = command(*WORDS, *place, "--columns", "Clean,FGSM")
    assert (code, "Clean" in out, "FGSM" in out) == (0, False, True)
    before = (tmp_path / "r" / "quick.json").read_bytes()
    place = ["--results", tmp_path / "r", "--cache", tmp_path / "b"]  # results alone are left
    held = [*WORDS, *place, "--columns", "Clean,FGSM"]
    code, out, err = command(*held)
    assert (code, err) == (0, "")
    assert out.strip() == f"nothing to do: {tmp_path / 'r'} holds all that was asked of quick"
    code, out, _ = command(*held, "--json")
    found = json.loads(out)
    assert (code, found["missing"], found["cells"], found["experiment"]) == (0, 0, [], "quick")
    code, out, _ = command(*held, "--plan")
    assert (code, out.strip()) == (0, f"nothing to do: {tmp_path / 'r'} holds all that was asked of quick")
    code, out, _ = command(*WORDS, *place, "--plan", "--json")
    assert [item["name"] for item in json.loads(out)["items"] if item["kind"] == "measure"] == ["GAT, PGD-40"]
    assert (tmp_path / "r" / "quick.json").read_bytes() == before
    assert not (tmp_path / "b").exists()
    code, _, err = command(*held[:3], "gpu9", *held[4:])
    assert (code, "device 'gpu9' is not to be had here" in err) == (2, True)


def test_a_figure_on_the_command_line(command, drawn, monkeypatch, tmp_path):
    figure, _, _ = drawn
    part = figure.only(["one dimension"])
    FIGURES.names()
    monkeypatch.setattr(FIGURES, "_entries", dict(FIGURES._entries))
    FIGURES.register("figure-toy")(lambda: part)
    words = ["reproduce", "figure-toy", "--device", "cpu", "--missing", "--results", tmp_path, "--json"]
    assert len(json.loads(command(*words)[1])["lines"]) == 1
    assert json.loads(command(*words)[1])["lines"] == []


def test_a_figure_without_its_pictures_is_not_whole(command, drawn, monkeypatch, tmp_path):
    figure, _, _ = drawn
    FIGURES.names()
    monkeypatch.setattr(FIGURES, "_entries", dict(FIGURES._entries))
    FIGURES.register("figure-toy")(lambda: figure.only(["one dimension"]))
    words = ["reproduce", "figure-toy", "--device", "cpu", "--missing", "--results", tmp_path]
    with monkeypatch.context() as killed:
        killed.setattr("gamagat.cli.reproduce.paint", lambda *_: sys.exit("killed"))
        assert command(*words)[0]
    assert command(*words)[0] == 0
    assert {path.name for path in tmp_path.iterdir()} >= {"figure-toy.json", "figure-toy.png"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["reproduce", "toy", "--missing"],
            "--missing needs the name of a table or figure, and --results DIR",
        ),
        (
            ["reproduce", "--missing", "--results", "r", "--markdown", "m"],
            "--missing needs the name of a table or figure, and --results DIR",
        ),
        ([*WORDS, "--results", "r", "--set", "epochs=1"], "leave out --set and --attack-set"),
        ([*WORDS, "--results", "r", "--attack-set", "steps=1"], "leave out --set and --attack-set"),
        (
            [*WORDS, "--results", __file__],
            "is a file and no results can be kept in it; give another --results",
        ),
    ],
)
def test_mistakes_are_one_sentence_and_code_2(command, words, message):
    code, out, err = command(*words)
    assert (code, out) == (2, "")
    assert message in " ".join(err.split())
