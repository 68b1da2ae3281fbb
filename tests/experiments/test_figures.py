"""Figures: what every registered one promises, and a toy one from its networks to its files."""

import json
from dataclasses import replace
from shutil import copytree, rmtree

import pytest

from experiments.toy import GAT, NORMAL, QUICK, shop_at
from experiments.toy_figure import toy_figure
from gamagat.engine.plan import plan_attacks
from gamagat.engine.runtime import GPU_LOST
from gamagat.engine.training.settings import make_plan
from gamagat.errors import ConfigError, DeviceError, RunError
from gamagat.experiments import drawing, paper
from gamagat.experiments.core import Network, find
from gamagat.experiments.drawing import run_figure
from gamagat.experiments.figures import FIGURES, POINTS, Figure, all_names, find_any
from gamagat.experiments.forecast import forecast_figure
from gamagat.experiments.results import figure_result, read_figure, read_results, save_figure
from gamagat.models.core import BUNDLED
from gamagat.registry import parse_spec
from gamagat.reports import reproduction
from gamagat.reports.measured import page
from gamagat.reports.plots.core import PLOTS
from gamagat.reports.reproduction import draw, paint

FAMILIES = {"cifar10": "cifar10", "mnist": "mnist", "imagenet100": "imagenet", "folder:imagenet": None}
every_figure = pytest.mark.parametrize("name", FIGURES.names())


@every_figure
def test_networks_attacks_and_plots_can_be_read(name):
    figure = find_any(name)
    assert isinstance(figure, Figure)
    assert figure.name == name
    assert FIGURES[name].summary
    for network in figure.networks:
        if network.recipe is not None:
            make_plan(network.recipe, FAMILIES[network.data], network.model)
    for attack in figure.attacks:
        plan_attacks([attack], "mnist")
    for line in figure.lines:
        plot, options = parse_spec(line.plot)
        assert plot == POINTS or PLOTS.settings(plot, **options) is not None
        assert bool(line.points) + (line.network is not None) == (plot != "toy")


@every_figure
def test_names_are_told_apart_and_notes_are_about_something(name):
    figure = find_any(name)
    places = [(line.row, line.column) for line in figure.lines]
    assert len(set(places)) == len(places)
    assert not any("," in word for word in (*figure.rows, *figure.columns))
    assert {*figure.notes} <= {"", *figure.rows, *figure.columns}
    assert paper.figure(figure.paper)["title"]


def test_all_figures_of_the_paper_are_there():
    assert FIGURES.names() == ["figure2", "figure3", *(f"figureS{number}" for number in range(1, 7))]


def test_figure_3_has_the_papers_lines():
    lines = {(line.row, line.column): line for line in find_any("fig3").lines}
    assert lines["TRADES-MNIST", "GAMA-PGD"].paper[0] == 93.72
    assert len(lines["TRADES-CIFAR10", "GAMA-FW"].paper) == 10
    assert ("Madry-ImageNet", "FAB") not in lines
    assert lines["TRADES-MNIST", "GAMA-MT"].points[0].measure.attack == "gama-mt:top=9,as_published=true"
    assert lines["Madry-ImageNet", "GAMA-MT"].points[0].measure.n == 1000


@pytest.mark.parametrize("word", ["figureS1", "FIGS1", "figs1", " Figures1 "])
def test_a_figure_is_found_by_any_of_its_names(word):
    assert find_any(word).name == "figureS1"
    assert find_any("S2").name == find("S2").name  # which is the table


@pytest.fixture(scope="module")
def sketched(tmp_path_factory):
    """The toy figure, drawn, and the cache that it was drawn in."""
    root = tmp_path_factory.mktemp("figures")
    return run_figure(toy_figure(), shop_at(root), draw), root


def curves(sketch, row, panel=0):
    return [curve for line in sketch.lines if line.row == row for curve in line.panels[panel]["curves"]]


def test_every_kind_of_line_is_drawn(sketched):
    sketch, _ = sketched
    assert sketch.stopped is None
    assert [(line.row, line.reason) for line in sketch.missing] == []
    tries = curves(sketch, "restarts")
    assert [(curve["label"], curve["x"]) for curve in tries] == [("PGD", [1, 2, 3]), ("targets", [1, 2])]
    assert tries[0]["y"] == sorted(tries[0]["y"], reverse=True)  # nothing stands up again
    assert [curve["x"] for curve in curves(sketch, "weights")] == [[0, 5]]
    assert [curve["x"] for curve in curves(sketch, "radii")] == [[0, 0.05, 0.3]]
    assert [curve["x"] for curve in curves(sketch, "trained")] == [[5, 20]]
    assert [(curve["label"], len(curve["x"])) for curve in curves(sketch, "steps", 1)] == [
        ("GAMA", 5), ("margin", 5),
    ]  # fmt: skip
    assert curves(sketch, "losses")[0]["x"][0] == 0
    assert len(next(line for line in sketch.lines if line.row == "surface").panels) == 2


def test_a_point_is_what_a_table_would_say(sketched):
    """The same evaluations: a line's figures and those of its runs are the same numbers."""
    sketch, root = sketched
    shop, figure = shop_at(root), toy_figure("trained")
    cells = [shop.known(figure.table(figure.lines[0]), slot) for slot in figure.lines[0].slots]
    (curve,) = curves(sketch, "trained")
    assert curve["y"] == [cell.ours for cell in cells]
    assert curve["low"] == [cell.interval[0] for cell in cells]


def test_all_that_is_needed_to_make_a_line_again_stands_with_it(sketched):
    sketch, _ = sketched
    for line in sketch.lines:
        assert line.as_json()["command"] == "toy"
        assert {"date", "device", "torch", "gamagat"} <= set(line.as_json()["made"])
        assert "seed" in line.as_json()
    assert sketch.lines[0].as_json()["attack"].startswith("pgd:steps=3")


def test_what_is_there_is_not_made_again(sketched):
    sketch, root = sketched
    shop = shop_at(root, seconds=1e-9)  # no time to make anything
    again = run_figure(toy_figure(), shop, draw)
    still = [line for line in again.lines if line.measured]
    assert [line.panels for line in still] == [line.panels for line in sketch.lines]
    assert all(item.seconds == 0 for item in forecast_figure(toy_figure(), shop_at(root)).items)


def test_time_that_is_over_leaves_lines_for_the_next_time(tmp_path):
    figure = toy_figure("restarts", "losses", "one dimension")
    sketch = run_figure(figure, shop_at(tmp_path, seconds=1e-9), draw)
    assert "time" in str(sketch.stopped)
    assert [line.measured for line in sketch.lines] == [False, False, False, True]
    items = forecast_figure(figure, shop_at(tmp_path)).items
    assert [item.kind for item in items] == ["train", "measure", "measure", "draw", "draw"]
    assert all(item.seconds > 0 for item in items[:4])


def test_a_plot_stops_in_the_middle_when_the_time_is_over(sketched, tmp_path):
    _, root = sketched
    shop = shop_at(root, n=41)  # other images: drawn anew

    def slow(plot, sources, request, onlooker):
        shop.clock._end = 0.0
        return draw(plot, sources, request, onlooker)

    sketch = run_figure(toy_figure("losses"), shop, slow)
    assert "time" in str(sketch.stopped)
    assert not sketch.lines[0].measured


def test_a_plot_that_fails_does_not_stop_the_others(sketched):
    _, root = sketched

    def failing(plot, sources, request, onlooker):
        if plot == "loss-eps":
            raise RuntimeError("no way back")
        return draw(plot, sources, request, onlooker)

    sketch = run_figure(toy_figure("losses", "one dimension"), shop_at(root, n=42), failing)
    assert sketch.stopped is None
    assert [line.measured for line in sketch.lines] == [False, True]
    assert sketch.lines[0].reason == "drawing loss-eps failed with RuntimeError: no way back"


def test_files_hold_numbers_and_pictures(sketched, tmp_path):
    sketch, _ = sketched
    save_figure(tmp_path, toy_figure(), sketch.lines[:1])
    result = save_figure(tmp_path, toy_figure(), sketch.lines[1:], paint)
    assert read_figure(tmp_path / "figure-toy.json").as_json() == result.as_json()
    assert all(line.measured for line in result.lines)  # also the one of the first time
    for file in result.files:
        assert (tmp_path / file).stat().st_size > 1000
    assert {"figure-toy.png", "figure-toy.svg", "figure-toy-surface.png"} <= set(result.files)
    content = json.loads((tmp_path / "figure-toy.json").read_text())
    assert content["lines"][0]["paper"] == [93.0, 92.0]
    assert "NeurIPS 2020" in content["paper"]
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    for line in result.lines:  # each says of which training it is, as evaluations do
        assert len(line.about.get("weights", "")) == (0 if line.row == "one dimension" else 16)
    words = page(read_results(tmp_path), all_names(), link="../results")
    assert "![figure-toy](../results/figure-toy.png)" in words
    assert "11 of 11 lines are drawn" in words
    assert "| restarts | PGD | 1 to 3 | 93.00 to 92.00 |" in words
    assert "\n- PGD: A reason.\n" in words
    told = page([replace(result, notes={"restarts": "Of these.", "steps": "Of these."})], [])
    assert "\n- restarts, steps: Of these.\n" in told
    assert "Distances" not in words  # lines of no images are not of distances


def test_lines_along_an_attack_share_a_scale_that_leaves_out_the_start(sketched, tmp_path, monkeypatch):
    lines, seen = [line for line in sketched[0].lines if line.row == "steps"], []
    monkeypatch.setattr(reproduction, "save", lambda picture, out: seen.append(picture) or [])
    paint(figure_result(toy_figure("steps"), lines), tmp_path)
    loss = seen[0].panels[1]
    assert len(loss.curves) == 2
    ends = [(min(one.low[1:]), max(one.high[1:])) for one in loss.curves]
    assert (loss.y.low, loss.y.high) == (min(low for low, _ in ends), max(high for _, high in ends))
    assert loss.y.low > max(one.low[0] for one in loss.curves)


def test_the_paper_stands_beside_ours_with_the_same_names(sketched):
    sketch, _ = sketched
    ours, theirs = figure_result(toy_figure(), sketch.lines).plates()["curves"][:2]
    assert [curve["label"] for curve in ours["curves"]] == ["PGD", "targets"]
    assert [(curve["label"], curve["x"], curve["y"]) for curve in theirs["curves"]] == [
        ("PGD", [1.0, 2.0], [93.0, 92.0])
    ]
    assert theirs["title"] == "restarts: the paper"


def test_a_table_and_a_figure_do_not_take_each_others_file(tmp_path):
    (tmp_path / "figure-toy.json").write_text('{"cells": []}')
    with pytest.raises(RunError, match="holds no results"):
        save_figure(tmp_path, toy_figure(), [])


def test_networks_of_the_users_and_settings_of_attacks():
    mine = Network("", "digits-cnn", weights="w.pt", given=True)
    figure = toy_figure().only(["restarts", "losses", "one dimension"]).with_networks({"all": mine})
    assert all(network.given and network.data == "digits" for network in figure.networks)
    with pytest.raises(ConfigError, match="'trained' of figure-toy needs several networks"):
        toy_figure().with_networks({"trained": mine})
    with pytest.raises(ConfigError, match="'one dimension' of figure-toy needs no network"):
        toy_figure().with_networks({"one dimension": mine})
    short = toy_figure("restarts").with_settings({"restarts": "2", "top": "1"})
    assert short.attacks == ["pgd:steps=3,as_published=true,restarts=2", "gama-mt:steps=2,top=1"]
    with pytest.raises(ConfigError, match="unknown setting of the attacks of figure-toy 'restart'"):
        toy_figure("restarts").with_settings({"restart": "2"})


@pytest.fixture
def command(monkeypatch, command):
    """Run the command with the toy figure registered."""
    FIGURES.names()
    monkeypatch.setattr(FIGURES, "_entries", dict(FIGURES._entries))
    FIGURES.register("figure-toy")(toy_figure_for_the_command)
    return command


def toy_figure_for_the_command() -> Figure:
    """A toy."""
    return toy_figure("restarts", "losses")


def test_the_command_draws_with_a_network_of_ones_own(command, tmp_path):
    mine = f"restarts=digits-cnn@{BUNDLED / 'digits-cnn.safetensors'}"
    words = ["reproduce", "figure-toy", "--rows", "restarts", "--checkpoint", mine, "--device", "cpu"]
    words += ["--n", "20", "--attack-set", "restarts=2", "--cache", tmp_path / "cache"]
    code, out, _ = command(*words, "--plan", "--json")
    assert code == 0
    assert [item["kind"] for item in json.loads(out)["items"]] == ["train", "measure", "measure"]
    results = ["--results", tmp_path / "results", "--markdown", tmp_path / "page.md"]
    code, out, err = command(*words, *results, "--json")
    result = json.loads(out)
    assert (code, err) == (0, "")
    assert (result["stopped"], result["missing"]) == (None, 0)
    assert result["files"] == ["figure-toy.png", "figure-toy.svg"]
    assert result["lines"][0]["panels"][0]["curves"][0]["x"] == [1, 2]
    assert result["lines"][0]["changed"] == {"restarts": "2"}
    assert result["lines"][0]["command"] == (
        "gamagat reproduce figure-toy --n 20 --attack-set restarts=2 "
        "--checkpoint restarts=digits-cnn@digits-cnn.safetensors"
    )
    assert "(results/figure-toy.png)" in (tmp_path / "page.md").read_text()
    assert command(*words)[1].count("1 to 2") == 2  # for people


def test_the_command_says_what_is_left(command, tmp_path):
    words = ["reproduce", "figure-toy", "--device", "cpu", "--n", "20", "--cache", tmp_path]
    words += [word for key, value in QUICK.items() for word in ("--set", f"{key}={value}")]
    code, out, err = command(*words, "--max-seconds", "0.0001")
    assert code == 3
    assert "not run" in out
    assert "3 left; the same command goes on from here" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["figure33"], "unknown experiment 'figure33'; did you mean 'figure3'?"),
        (["figure-toy", "--attack-set", "restarts"], "--attack-set takes KEY=VALUE"),
        (
            ["figure-toy", "--rows", "restart"],
            "unknown row of figure-toy 'restart'; did you mean 'restarts'?",
        ),
    ],
)
def test_mistakes_are_one_sentence(command, words, message):
    code, out, err = command("reproduce", *words)
    assert (code, out) == (2, "")
    assert message in " ".join(err.split())


def test_figures_are_listed(command):
    code, out, _ = command("list", "figures")
    assert code == 0
    assert "figureS6" in out


def test_the_toys_networks_are_the_tables():
    assert toy_figure("restarts").networks == [GAT]
    assert toy_figure("epochs").networks == [NORMAL]


def test_drawings_that_cannot_be_kept_are_told_before_they_are_made(sketched, tmp_path):
    copytree(sketched[1], tmp_path / "cache")
    shop, drawn = shop_at(tmp_path / "cache"), []
    place = shop.cache.home(GAT) / "drawings"
    rmtree(place)
    place.write_text("a file")

    def told(plot, *words):
        drawn.append(plot)
        return draw(plot, *words)

    sketch = run_figure(toy_figure("losses", "one dimension"), shop, told)
    assert sketch.stopped is None
    assert [line.measured for line in sketch.lines] == [False, True]
    assert f"cannot make the folder {place}" in sketch.lines[0].reason
    assert drawn == ["toy"]


def test_without_a_gpu_that_was_lost_all_that_needs_none_is_drawn(sketched, monkeypatch):
    def lost(name):
        raise DeviceError("the GPU failed")

    monkeypatch.setattr(drawing, "choose_device", lost)
    shop = shop_at(sketched[1], n=43)  # other images: drawn anew
    sketch = run_figure(toy_figure("losses", "epochs", "one dimension"), shop, draw)
    assert sketch.stopped == GPU_LOST
    assert [line.measured for line in sketch.lines] == [False, True, True]


def test_a_remark_on_a_training_stays_beside_its_epochs(sketched, tmp_path):
    figure = toy_figure("epochs")
    line = run_figure(figure, shop_at(sketched[1]), draw).lines[0]
    save_figure(tmp_path, figure, [replace(line, about=line.about | {"remark": "it fell."})])
    again = run_figure(figure, shop_at(sketched[1]), draw).lines
    again = [replace(one, about=one.about | {"made": one.about["made"] | {"date": "2126"}}) for one in again]
    assert save_figure(tmp_path, figure, again).lines[0].about["remark"] == "it fell."
