"""The commands of experiments/by_network.py ask for what a network is measured for, and for nothing else."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from gamagat.experiments.core import EXPERIMENTS
from gamagat.experiments.defences import MODELS

SCRIPT = Path(__file__).parents[2] / "experiments" / "by_network.py"


def asked(recipe: str, data: str) -> list[tuple[str, str, str]]:
    """Table, row and column of every place that the commands ask for."""
    places = []
    for words in runpy.run_path(str(SCRIPT))["commands"](recipe, data, EXPERIMENTS.names()):
        verb, name, _, rows, _, columns = words
        assert verb == "reproduce"
        part = EXPERIMENTS.make(name).only(rows.split(","), columns.split(","))
        places += [(name, slot.row, slot.column) for slot in part.slots]
    return places


@pytest.mark.parametrize("data", ["cifar10", "mnist"])
@pytest.mark.parametrize("recipe", ["gat", "trades", "pgd-at", "rfgsm-at", "standard", "gat:ablation=A2"])
def test_every_place_of_a_network_is_asked_for_once(recipe, data):
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
    assert sorted(asked(recipe, data)) == sorted(wanted)
    assert wanted or (recipe, data) == ("gat:ablation=A2", "mnist")


def called(*words: str) -> subprocess.CompletedProcess[str]:
    start = [sys.executable, str(SCRIPT), "--data-dir", "nowhere", "--tables", "table2", *words]
    return subprocess.run(start, capture_output=True, text=True, check=False)


def test_the_commands_are_told_and_run():
    (line,) = called("rfgsm-at", "--list", "--", "--n", "5").stdout.splitlines()
    assert line.startswith("gamagat reproduce table2 --rows RFGSM-AT --columns 'Clean,FGSM,")
    assert line.endswith("--data-dir nowhere --n 5")
    failed = called("rfgsm-at", "--", "--plan", "--device", "nonsense")
    assert (failed.returncode, "exit code 2" in failed.stdout) == (2, True)
    late = called("rfgsm-at", "--max-seconds", "0")
    assert (late.returncode, "the time is over" in late.stderr) == (1, True)


@pytest.mark.parametrize(
    ("seconds", "code", "end"),
    [(0.5, "import time; time.sleep(60)", -9), (float("inf"), "raise SystemExit(3)", 3)],
)
def test_a_command_has_the_time_that_is_left_and_is_not_left_behind(seconds, code, end, monkeypatch):
    start, begun = subprocess.Popen, []

    def other(words):
        begun.append((words, start([sys.executable, "-c", code])))
        return begun[0][1]

    script = runpy.run_path(str(SCRIPT))
    monkeypatch.setitem(script["run"].__globals__, "PATIENCE", 1)
    monkeypatch.setattr(subprocess, "Popen", other)
    assert script["run"](["reproduce", "table2"], seconds) == end
    ((words, process),) = begun
    assert process.poll() == end
    assert words[3:] == ["reproduce", "table2", *(["--max-seconds", "0.5"] if seconds == 0.5 else [])]


def test_a_recipe_that_no_table_has_is_refused():
    wrong = called("rfgsm-at", "gta", "--list")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "measured on 'gta' for cifar10" in wrong.stderr
