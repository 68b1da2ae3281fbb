"""experiments/by_network.py measures all that a network is measured for, and nothing else, in one process."""

import json
import runpy
import subprocess
import sys
from pathlib import Path
from shutil import copytree
from time import monotonic, sleep

import pytest
import torch

from experiments.toy import shop_at, toy_table
from experiments.toy_figure import toy_figure
from gamagat.errors import DataError, DeviceError
from gamagat.experiments import workshop
from gamagat.experiments.core import EXPERIMENTS
from gamagat.experiments.defences import MODELS
from gamagat.experiments.figures import FIGURES, all_names
from gamagat.experiments.results import read_figure

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
    parts = script["parts"](recipe, data, EXPERIMENTS.names())
    assert sorted((part.name, slot.row, slot.column) for part in parts for slot in part.slots) == sorted(
        wanted
    )
    assert wanted or (recipe, data) == ("gat:ablation=A2", "mnist")
    assert (meant in script["recipes_of"](data, EXPERIMENTS.names())) == bool(wanted)


def test_figures_that_are_of_one_network_are_drawn_with_its_tables(script):
    names = all_names()

    def drawn(recipe):
        parts = (part for part in script["parts"](recipe, "cifar10", names) if part.name in FIGURES)
        return {(part.name, line.row) for part in parts for line in part.lines}

    assert drawn("rfgsm-at") == {("figureS2", "RFGSM-AT")}
    assert {"figureS2", "figureS4", "figureS5", "figureS6"} <= {name for name, _ in drawn("gat")}
    assert ("figureS6", "GAT MNIST") not in drawn("gat")
    assert drawn("gat:weight=2") == set()  # one line is of several networks, and none of them has a row
    assert "gat:weight=2" not in script["recipes_of"]("cifar10", names)


@pytest.fixture
def called(tmp_path, monkeypatch):
    """The script as a process, far from the project's own results."""
    monkeypatch.chdir(tmp_path)

    def call(*words: str) -> subprocess.CompletedProcess[str]:
        start = [sys.executable, str(SCRIPT), "--data-dir", "nowhere", "--tables", "table2", *words]
        return subprocess.run(start, capture_output=True, text=True, check=False)

    return call


def test_what_is_to_be_measured_is_told_as_commands(called):
    (line,) = called("rfgsm-at", "--list").stdout.splitlines()
    assert line.startswith("gamagat reproduce table2 --rows RFGSM-AT --columns 'Clean,FGSM,")
    assert len(called("--list").stdout.splitlines()) == 10  # networks of all recipes


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["rfgsm-at", "gta", "--list"], "measured on 'gta' for cifar10; recipes are standard, fgsm-at,"),
        (["--tables", "tableS5", "--list"], "tableS5 measures no defence on cifar10"),
        (["rfgsm-at", "gat", "--device", "nonsense"], "device 'nonsense' is not to be had here"),
        (
            ["--checkpoint", "gta=zoo:x", "--list"],
            "no network of recipe 'gta' is needed here; recipes are standard,",
        ),
        (["--checkpoint", "gat=zoo:x", "--list"], "unknown network of the zoo 'x'"),
        (["rfgsm-at", "--batch-size", "0"], "the batch size must be at least 1"),
        (["rfgsm-at", "--max-seconds", "0"], "the time must be positive"),
        (["rfgsm-at", "--n", "0"], "the number of images must be positive, got 0"),
        (["rfgsm-at", "--results", str(SCRIPT)], "is a file and no results can be kept in it"),
        (["rfgsm-at", "--results", "damaged"], "table2.json holds no results"),
    ],
)
def test_mistakes_are_one_sentence_and_code_2(called, words, message, tmp_path):
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "table2.json").write_text("[1]")
    wrong = called(*words)
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert message in wrong.stderr
    assert "Traceback" not in wrong.stderr


@pytest.fixture
def at_work(script, registered, monkeypatch, filled, tmp_path):
    """The script on the toy table, in this process, with a cache of trained networks."""
    monkeypatch.setitem(MODELS, "digits", "digits-cnn")
    copytree(filled, tmp_path / "cache")
    shop = shop_at(tmp_path / "cache")
    shop.cache.seed = 5  # nothing is measured yet
    monkeypatch.setitem(script["_main"].__globals__, "Workshop", lambda *_, **__: shop)

    def main(*words: str) -> int:
        results = ["--results", str(tmp_path / "results")]
        start = [str(SCRIPT), "--data", "digits", "--tables", "toy", *results, *words]
        monkeypatch.setattr(sys, "argv", start)
        return script["_main"](script["_options"]())

    return main


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
    assert out.startswith(
        "gamagat reproduce toy --rows GAT --columns 'Clean,FGSM,PGD-40,CW mean L2,transfer'\n"
    )
    assert "toy GAT, Clean: " in out
    models.clear()
    assert at_work("gat", "--missing") == 0
    assert (models, "nothing to do" in capsys.readouterr().out) == ([], True)
    assert at_work("--missing", "--only", "standard") == 0
    assert len(cells(tmp_path)) == 10
    assert at_work("--missing") == 0
    assert "nothing to do" in capsys.readouterr().out


def test_a_network_that_is_given_takes_all_places_of_its_recipe(at_work, tmp_path, capsys):
    (trained,) = (tmp_path / "cache" / "networks").glob("standard-*")
    given = ["--checkpoint", f"gat={trained}", "--missing"]
    assert at_work("gat", *given) == 0
    columns = "--columns 'Clean,FGSM,PGD-40,CW mean L2,transfer'"
    assert capsys.readouterr().out.startswith(
        f"gamagat reproduce toy --rows GAT {columns} --checkpoint all={trained}\n"
    )
    found = cells(tmp_path)
    assert {row for row, _ in found} == {"GAT"}
    assert all(cell["recipe"] is None and cell["model"] == trained.name for cell in found.values())
    assert found["GAT", "FGSM"]["command"] == (
        f"gamagat reproduce toy {columns} --n 40 --set epochs=1 --set probe=20 "
        f"--checkpoint GAT={trained.name} --seed 5"
    )
    for words in (given, ["--missing"]):  # which stands until another is given
        assert at_work("gat", *words) == 0
        assert "nothing to do" in capsys.readouterr().out


def test_a_part_of_the_images_is_a_trial(script, at_work, monkeypatch):
    seen = []
    monkeypatch.setitem(script["work"].__globals__, "save_result", lambda *_, **how: seen.append(how))
    at_work("gat")  # of 40 images
    assert seen == [{"trial": True}] * 5


def test_lines_of_figures_are_drawn_of_it_too(at_work, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(FIGURES, "_entries", dict(FIGURES._entries))
    FIGURES.register("figure-toy")(lambda: toy_figure("restarts", "losses", "epochs"))
    assert at_work("gat", "--tables", "figure-toy") == 0
    lines = read_figure(tmp_path / "results" / "figure-toy.json").lines
    assert [line.row for line in lines if line.measured] == ["restarts", "restarts", "losses"]
    assert (tmp_path / "results" / "figure-toy.png").is_file()
    out = capsys.readouterr().out
    assert "gamagat reproduce figure-toy --rows restarts --columns PGD,targets\n" in out
    assert "figure-toy losses, FGSM: drawn in " in out
    assert at_work("gat", "--tables", "figure-toy", "--missing") == 0
    assert "nothing to do" in capsys.readouterr().out
    assert at_work("--tables", "figure-toy", "--missing", "--list") == 0
    assert capsys.readouterr().out == "gamagat reproduce figure-toy --rows epochs --columns epochs\n"


def test_a_figure_without_its_pictures_is_not_whole(script, at_work, monkeypatch, tmp_path):
    monkeypatch.setattr(FIGURES, "_entries", dict(FIGURES._entries))
    FIGURES.register("figure-toy")(lambda: toy_figure("losses"))
    with monkeypatch.context() as killed:
        killed.setitem(script["_drawn"].__globals__, "paint", lambda *_: sys.exit("killed"))
        with pytest.raises(SystemExit, match="killed"):
            at_work("gat", "--tables", "figure-toy")
    assert at_work("gat", "--tables", "figure-toy", "--missing") == 0
    assert (tmp_path / "results" / "figure-toy.png").is_file()


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


def test_a_lost_gpu_ends_it_with_a_code_of_its_own(at_work, monkeypatch, capsys):
    def failing(prepared, onlooker):
        raise DeviceError("the GPU failed (too hot), and")

    monkeypatch.setattr(workshop.Prepared, "run", failing)
    assert at_work("gat") == 4
    told = capsys.readouterr()
    assert "toy GAT, Clean: not run, the GPU failed (too hot), and" in told.out
    assert "toy GAT, FGSM: not run, the GPU failed\n" in told.out  # nothing more is tried
    assert "the same line goes on" in told.err


def test_what_failed_is_told(at_work, monkeypatch, capsys):
    def failing(prepared, onlooker):
        raise RuntimeError("no way back")

    monkeypatch.setattr(workshop.Prepared, "run", failing)
    assert at_work("gat") == 3
    assert "toy GAT, FGSM: not run, fgsm:as_published=true failed with RuntimeError: no way" in (
        capsys.readouterr().out
    )


@pytest.fixture
def crews(script, monkeypatch):
    """What would be processes: of each crew its size and time, and the words behind the script's own."""
    seen: list[tuple[int, float | None, list[dict[str, list[str]]]]] = []
    codes = [0]

    class Fake:
        def __init__(self, at_once, seconds):
            seen.append((at_once, seconds, []))

        def work(self, jobs):
            assert all(words[:2] == [sys.executable, str(SCRIPT)] for words in jobs.values())
            seen[-1][2].append({name: words[words.index("--device") :] for name, words in jobs.items()})
            return codes[0]

    monkeypatch.setitem(script["by_others"].__globals__, "Crew", Fake)
    return seen, codes


def test_several_networks_have_their_turn_in_processes_of_their_own(at_work, crews):
    seen, codes = crews
    codes[0] = 3
    assert at_work() == 3
    jobs = {name: ["--device", "cpu", "--only", name] for name in ("standard", "gat")}
    assert seen == [(1, None, [jobs])]
    assert at_work("--list") == 0
    assert len(seen) == 1
    assert at_work("gat", "standard", "--max-seconds", "100") == 3
    assert seen[1][:2] == (1, 100)
    assert list(seen[1][2][0]) == ["gat", "standard"]


def test_where_several_run_at_a_time_all_are_trained_before_one_is_measured(at_work, crews, tmp_path):
    seen, codes = crews
    trained = [*(tmp_path / "cache" / "networks").glob("*/card.json")]
    assert at_work("gat", "--together", "2") == 0
    assert [list(jobs) for jobs in seen[0][2]] == [[], ["gat"]]
    for card in trained:
        card.unlink()
    assert at_work("gat", "--together", "2") == 0
    at_once, _, (first, second) = seen[1]
    assert (at_once, second) == (2, {"gat": ["--device", "cpu", "--only", "gat"]})
    assert first == {
        name: ["--device", "cpu", "--only", "gat", "--train", name]
        for name in ("gat, digits-cnn, digits", "standard, digits-cnn, digits")  # the source of a transfer
    }
    codes[0] = 130
    assert at_work("gat", "--together", "2") == 130
    assert len(seen[2][2]) == 1  # nothing is measured any more


def test_several_at_a_time_say_that_the_time_is_over_if_anything_is_left(at_work, capsys):
    late = ["--together", "2", "--max-seconds", "0.5"]
    assert at_work("gat", *late) == 3
    assert capsys.readouterr().err == "the time is over; the same line goes on\n"
    assert at_work("gat") == 0
    assert at_work("gat", "--missing", *late) == 0
    assert "nothing to do" in capsys.readouterr().out


def test_one_network_is_trained_and_not_measured(at_work, tmp_path, monkeypatch, capsys):
    networks = tmp_path / "cache" / "networks"
    for card in networks.glob("*/card.json"):
        card.unlink()
    train = ["--only", "gat", "--train", "standard, digits-cnn, digits", "--together", "2"]
    assert at_work(*train) == 0
    assert [card.parent.name.partition("-")[0] for card in networks.glob("*/card.json")] == ["standard"]
    assert not (tmp_path / "results" / "toy.json").exists()
    assert at_work("--only", "gat", "--train", "of another day") == 0
    failures = {
        workshop.OutOfTime(): 3,
        KeyboardInterrupt(): 130,
        DeviceError("too hot"): 4,
        DataError("no"): 3,
    }
    for error, code in failures.items():

        def failing(_, network, error=error):
            raise error

        monkeypatch.setattr(workshop.Workshop, "trained", failing)
        assert at_work(*train) == code
    assert "standard, digits-cnn, digits: not trained: no\n" in capsys.readouterr().err


def test_only_networks_with_something_left_have_a_turn(at_work, crews):
    seen, _ = crews
    assert at_work("gat") == 0  # which is measured here
    assert seen == []
    assert at_work("--missing", "--list") == 0
    assert at_work("gat", "standard") == 0
    assert list(seen.pop()[2][0]) == ["gat", "standard"]
    assert at_work("gat", "standard", "--missing") == 0  # one is left: it is measured here
    assert seen == []


def test_who_only_starts_others_does_not_hold_the_gpu(at_work, crews, monkeypatch):
    """Under MPS nobody new is served while one who saw the fault of another is still there."""
    asked = []
    for module in ("gamagat.engine.runtime", "gamagat.experiments.runner", "gamagat.engine.evaluate"):
        monkeypatch.setattr(
            f"{module}.choose_device",
            lambda name: asked.append(name) or torch.device("cpu"),
            raising=False,
        )
    assert at_work("gat", "standard", "--device", "cpu") == 0
    assert at_work("gat", "--together", "2", "--device", "cpu") == 0
    assert set(asked) <= {"cpu"}
    assert len(crews[0]) == 2


def test_several_say_in_processes_of_their_own_why_nothing_is_measured(tmp_path, monkeypatch):
    """With images that nobody downloads."""
    monkeypatch.chdir(tmp_path)
    words = ["--data", "imagenet100", "--tables", "tableS4", "--data-dir", "nowhere", "--together", "2"]
    start = [sys.executable, str(SCRIPT), "gat", "trades", *words, "--max-seconds", "300"]
    process = subprocess.run(start, capture_output=True, text=True, check=False)
    assert process.returncode == 3, process.stderr
    assert "Traceback" not in process.stdout + process.stderr
    for name, row in (("gat", "GAT"), ("trades", "TRADES")):
        assert f"[{name}] tableS4 {row}, Clean: not run, " in process.stdout


def terminated(code: str, began: Path) -> tuple[int, str]:
    """The exit code of a process that is told to end once it has begun, and its words."""
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
    until = monotonic() + 60
    while not began.exists():
        assert monotonic() < until
        sleep(0.05)
    process.terminate()
    words = process.communicate(timeout=60)[1]
    return process.returncode, words


def test_told_to_end_it_ends_as_by_a_key_and_writes_down_what_is_known(tmp_path):
    code = f"""
import pathlib, runpy, sys, time
sys.argv = ["by_network.py"]
main = runpy.run_path({str(SCRIPT)!r})["main"]

def work(options):
    pathlib.Path({str(tmp_path / "began")!r}).touch()
    try:
        time.sleep(60)
    finally:
        pathlib.Path({str(tmp_path / "ended")!r}).touch()

main.__globals__["_main"] = work
main()
"""
    assert terminated(code, tmp_path / "began") == (130, "interrupted; the same line goes on\n")
    assert (tmp_path / "ended").exists()
