"""gamagat compare, as people and machines use it."""

import json
from pathlib import Path

import pytest

from gamagat.engine.request import EvaluationRequest, prepare, run_at_budget
from gamagat.engine.watch import Onlooker

WORDS = ["compare", "digits-cnn", "--n", "8", "--device", "cpu"]


def test_queries_are_paid_for_as_gradients_are(command):
    attacks = ["--attack", "pgd", "--attack", "square", "--attack", "spsa:samples=2"]
    code, out, _ = command(*WORDS, "--budget", "10", *attacks, "--json")
    result = json.loads(out)
    assert code == 0
    assert "queries" in result["counted"]
    spent = {item["name"]: (item["forwards"], item["backwards"]) for item in result["attacks"]}
    assert spent["pgd:steps=10"][1] == 10
    assert 20 <= spent["square:queries=20"][0] < 30  # and the questions to the judge
    assert spent["spsa:samples=2,steps=4"] == (20, 0)
    code, out, _ = command(*WORDS, "--budget", "10", *attacks)
    assert "has two passes forward (queries)" in " ".join(out.split())


def test_a_budget_below_a_single_step_is_one_sentence(command):
    code, out, err = command(*WORDS, "--budget", "100", "--attack", "spsa")
    assert (code, out) == (2, "")
    assert "spsa needs at least 257 forward passes per image" in err
    assert "give --budget 129 or more" in err
    assert err.count("\n") == 1


@pytest.fixture(scope="module")
def stopped(tmp_path_factory) -> Path:
    """A run that was stopped between FGSM and Square, one that was stopped at once, and a whole one."""
    folder = tmp_path_factory.mktemp("stopped")
    for name, attacks in (("later", ("fgsm", "square")), ("at-once", ("square",)), ("whole", ("fgsm",))):
        request = EvaluationRequest("digits-cnn", n=8, attacks=attacks, device="cpu", out=folder / name)
        prepare(request).run(Onlooker(stop_at_square))
    return folder


def stop_at_square(what: str, *_: float) -> None:
    """Ctrl-C as soon as that attack begins."""
    if what == "square":
        raise KeyboardInterrupt


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_runs_that_were_stopped_are_compared_on_what_is_finished(command, stopped, more):
    code, out, err = command("compare", stopped / "later", stopped / "whole", *more)
    assert (code, err) == (0, "")
    if more:
        result = json.loads(out)
        assert result["worst_case"] is None
        assert [(pair["name"], pair["images"]) for pair in result["attacks"]] == [("fgsm", 8)]
    else:
        assert "fgsm: A - B = +0.00 points on 8 images" in out
    assert command("report", stopped / "later", stopped / "whole", "--out", stopped / "page.html")[0] == 0


def test_runs_with_nothing_finished_in_common_are_told_in_a_sentence_how_far_they_are(command, stopped):
    code, out, err = command("compare", stopped / "later", stopped / "at-once")
    assert (code, out) == (2, "")
    assert "at-once is through with 0 of 8 images (unfinished: square)" in err
    assert "make the unfinished go on with the commands that began them" in err
    assert err.count("\n") == 1


def test_a_stop_at_a_budget_is_no_result_and_the_same_words_go_on(tmp_path):
    attacks = ("fgsm", "square")
    request = EvaluationRequest("digits-cnn", n=8, attacks=attacks, device="cpu", out=tmp_path / "run")

    with pytest.raises(KeyboardInterrupt):
        run_at_budget(request, 3, Onlooker(stop_at_square))
    run = run_at_budget(request, 3)
    assert run.settled(run.manifest.entries()).all()
