"""experiments/by_network.py measures all that a network is measured for, and nothing else, in one process."""

import json
import runpy
import subprocess
import sys
from pathlib import Path
from shutil import copytree

import pytest

from experiments.toy import shop_at, toy_table
from gamagat.experiments import workshop
from gamagat.experiments.core import EXPERIMENTS
from gamagat.experiments.defences import MODELS

SCRIPT = Path(__file__).parents[2] / "experiments" / "by_network.py"


@pytest.fixture(scope="module")
def script():
    return runpy.run_path(str(SCRIPT))


@pytest.mark.parametrize("data", ["cifar10", "mnist"])
@pytest.mark.parametrize("recipe", ["gat", "trades", "pgd-at", "rfgsm-at", "standard", "gat:ablation=A2"])
def test_every_place_of_a_network_is_asked_for_once(script, recipe, data):
    meant = {
        "rfgsm-at": "rfgsm-at:full=true",
        "trades": "trades:epochs=50,drops=none" if data == "mnist" else "trades",
        "pgd-at": "pgd-at:epochs=30" if data == "mnist" else "pgd-at",
    }.get(recipe, recipe)
    wanted = [
        (name, slot.row, slot.column)
        for name in EXPERIMENTS.names()
        for slot in EXPERIMENTS.make(name).slots
        if (slot.network.recipe, slot.network.data, slot.network.model) == (meant, data, MODELS[data])
        and slot.network.seed == 0
    ]
    parts = list(script["parts"](recipe, data, EXPERIMENTS.names()))
    assert sorted((part.name, slot.row, slot.column) for part in parts for slot in part.slots) == sorted(
        wanted
    )
    assert all(len({slot.measure.what for slot in part.slots}) == 1 for part in parts)
    assert wanted or (recipe, data) == ("gat:ablation=A2", "mnist")
    assert (meant in script["recipes_of"](data, EXPERIMENTS.names())) == bool(wanted)


def called(*words: str) -> subprocess.CompletedProcess[str]:
    start = [sys.executable, str(SCRIPT), "--data-dir", "nowhere", "--tables", "table2", *words]
    return subprocess.run(start, capture_output=True, text=True, check=False)


def test_what_is_to_be_measured_is_told_as_commands():
    first, second = called("rfgsm-at", "--list").stdout.splitlines()
    assert first.startswith("gamagat reproduce table2 --rows RFGSM-AT --columns Clean,FGSM,")
    assert second == "gamagat reproduce table2 --rows RFGSM-AT --columns 'CW mean L2' --n 1000"
    assert called("rfgsm-at", "--list", "--n", "5").stdout.count("--n 5\n") == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["rfgsm-at", "gta", "--list"], "measured on 'gta' for cifar10; recipes are standard, fgsm-at,"),
        (["rfgsm-at", "--device", "nonsense"], "device 'nonsense' is not to be had here"),
        (["rfgsm-at", "--max-seconds", "0"], "the time must be positive"),
    ],
)
def test_mistakes_are_one_sentence_and_code_2(words, message):
    wrong = called(*words)
    assert (wrong.returncode, wrong.stdout.startswith("gamagat reproduce") or not wrong.stdout) == (2, True)
    assert message in wrong.stderr
    assert "Traceback" not in wrong.stderr


@pytest.fixture
def at_work(script, registered, monkeypatch, filled, tmp_path):
    """The script on the toy table, in this process, with a cache of trained networks."""
    monkeypatch.setitem(MODELS, "digits", "digits-cnn")
    copytree(filled, tmp_path / "cache")

    def work(*words: str, seed: int = 5) -> int:
        start = [str(SCRIPT), "--data", "digits", "--tables", "toy", "--results", str(tmp_path / "results")]
        monkeypatch.setattr(sys, "argv", [*start, "--n", "40", "--device", "cpu", *words])
        options = script["_options"]()
        shop = shop_at(tmp_path / "cache")
        shop.cache.seed = seed  # nothing is measured yet
        return script["work"](options.recipes[0], options, shop)

    return work


def cells(folder: Path) -> dict[tuple[str, str], dict]:
    content = json.loads((folder / "results" / "toy.json").read_text())
    return {(cell["row"], cell["column"]): cell for cell in content["cells"] if cell["status"] == "measured"}


def test_all_of_a_network_is_measured_on_one_copy_of_it(at_work, monkeypatch, tmp_path, capsys):
    models, measured = [], workshop.Prepared.run

    def watched(prepared, onlooker):
        models.append(prepared.model)
        return measured(prepared, onlooker)

    monkeypatch.setattr(workshop.Prepared, "run", watched)
    assert at_work("gat") == 0
    wanted = [(slot.row, slot.column) for slot in toy_table().slots if slot.row == "GAT"]
    assert sorted(cells(tmp_path)) == sorted(wanted)
    assert len(models) == 3  # Clean is of FGSM's run, and the transfer has networks of its own
    assert {id(model) for model in models} == {id(models[0])}
    assert cells(tmp_path)["GAT", "FGSM"]["command"] == (
        "gamagat reproduce toy --n 40 --set epochs=1 --set probe=20 --seed 5"
    )
    out = capsys.readouterr().out
    assert "toy GAT, Clean: " in out
    models.clear()
    assert at_work("gat", "--missing") == 0
    assert (models, capsys.readouterr().out) == ([], "")
    assert at_work("standard", "--missing") == 0
    assert len(cells(tmp_path)) == 10


def test_distances_are_of_their_own_number_of_images(script, at_work, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), "gat", "--tables", "toy", "--distances", "7"])
    options, shop = script["_options"](), shop_at(tmp_path / "cache", n=None)
    counts = {
        part.slots[0].measure.what: script["shop_for"](part, options, shop).cache.n
        for part in script["parts"]("gat", "digits", ["toy"])
    }
    assert counts == {"accuracy": None, "distance": 7}


@pytest.mark.parametrize(("stop", "code"), [(KeyboardInterrupt(), 130), (workshop.OutOfTime(), 3)])
def test_a_stop_ends_it_and_the_same_line_goes_on(at_work, monkeypatch, tmp_path, stop, code, capsys):
    measured = workshop.Prepared.run

    def stopping(prepared, onlooker):
        if prepared.request.attacks[0].startswith("pgd"):
            raise stop
        return measured(prepared, onlooker)

    monkeypatch.setattr(workshop.Prepared, "run", stopping)
    assert at_work("gat") == code
    assert "the same line goes on" in capsys.readouterr().err
    assert set(cells(tmp_path)) == {("GAT", "Clean"), ("GAT", "FGSM")}
    monkeypatch.setattr(workshop.Prepared, "run", measured)
    assert at_work("gat") == 0
    assert len(cells(tmp_path)) == 5


def test_what_failed_is_told(at_work, monkeypatch, capsys):
    def failing(prepared, onlooker):
        raise RuntimeError("no way back")

    monkeypatch.setattr(workshop.Prepared, "run", failing)
    assert at_work("gat") == 3
    assert "toy GAT, FGSM: not run, fgsm:as_published=true failed with RuntimeError: no way" in (
        capsys.readouterr().out
    )


def test_networks_have_their_turn_in_processes_of_their_own(script, monkeypatch, capsys):
    begun = []

    def ended(words, seconds):
        begun.append((words[2:], seconds))
        return {"trades": 3}.get(words[2], 0)

    monkeypatch.setitem(script["in_turn"].__globals__, "ended", ended)
    assert script["in_turn"](["gat", "trades", "free"], ["--n", "5"], 100.0) == 3
    assert [words for words, _ in begun] == [
        ["gat", "--n", "5"],
        ["trades", "--n", "5"],
        ["free", "--n", "5"],
    ]
    assert all(99 < seconds <= 100 for _, seconds in begun)
    assert "trades: exit code 3" in capsys.readouterr().out
    assert script["in_turn"](["gat"], [], 0.0) == 3
    assert len(begun) == 3


@pytest.mark.parametrize(
    ("seconds", "code", "end"),
    [(0.5, "import time; time.sleep(60)", -9), (float("inf"), "raise SystemExit(3)", 3)],
)
def test_a_process_has_the_time_that_is_left_and_is_not_left_behind(script, seconds, code, end, monkeypatch):
    start, begun = subprocess.Popen, []

    def other(words):
        begun.append((words, start([sys.executable, "-c", code])))
        return begun[0][1]

    monkeypatch.setitem(script["ended"].__globals__, "PATIENCE", 1)
    monkeypatch.setattr(subprocess, "Popen", other)
    assert script["ended"](["by_network.py", "gat"], seconds) == end
    ((words, process),) = begun
    assert process.poll() == end
    assert words == ["by_network.py", "gat", *(["--max-seconds", "0.5"] if seconds == 0.5 else [])]
