from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest
from small_run import small_run

from gamagat.engine.results import AttackResult, Evaluation, summarize
from gamagat.engine.run import read_run
from gamagat.engine.share import Share, wilson
from gamagat.reports.unfinished import missing_words, unfinished_words


@given(st.integers(1, 10_000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_interval_is_wilsons(case):
    successes, trials = case
    theirs = binomtest(successes, trials).proportion_ci(confidence_level=0.95, method="wilson")
    assert wilson(successes, trials) == pytest.approx((100 * theirs.low, 100 * theirs.high), abs=1e-9)


def test_the_interval_behaves_at_the_ends():
    assert wilson(0, 100)[0] == 0.0
    assert wilson(100, 100)[1] == 100.0
    assert wilson(0, 0) == (0.0, 100.0)


def test_an_unfinished_run_names_what_is_missing_and_a_finished_one_has_no_such_words():
    left = Evaluation(
        "net", "digits", "linf", 0.1, Share(3, 4), Share(1, 4), (), 0.5, 4, None, True, ("suite>square",)
    ).as_json()
    assert (left["unfinished"], left["unfinished_runs"]) == ("4 of 4 images", ["suite>square"])
    whole = Evaluation("net", "digits", "linf", 0.1, Share(3, 4), Share(1, 4), (), 0.5, n=4).as_json()
    assert "unfinished_runs" not in whole


def test_a_suite_whose_last_member_has_not_run_is_unfinished_though_all_images_are_through(tmp_path):
    small_run(tmp_path, specs=("fgsm", "autoattack:steps=2,queries=5,top=2"))
    run = read_run(tmp_path)
    assert summarize(run).missing == ()
    assert not summarize(run).unfinished
    missing = {"autoattack>fab-t@2", "autoattack>square"}
    part = summarize(replace(run, finished=[done for done in run.finished if done.entry not in missing]))
    assert part.unfinished
    assert part.standing.of == part.n == 60
    assert set(part.missing) == missing
    assert unfinished_words(part) == (
        "60 of 60 images are through with every run shown; still to do: autoattack>fab-t@2, autoattack>square"
    )


def test_what_a_thousand_restarts_left_is_read_without_going_through_them_a_million_times(tmp_path):
    small_run(tmp_path, specs=("pgd:steps=1,restarts=20",))
    looked = 0

    class Told(list):
        def __iter__(self):
            nonlocal looked
            looked += 1
            return super().__iter__()

    run = read_run(tmp_path)
    told = replace(run, finished=Told(run.finished))
    assert told.settled(run.manifest.entries()).all()
    assert looked == 1
    (attack,) = summarize(told).attacks
    assert looked < 5 * 20
    left = [100 * run.standing(run.manifest.entries()[:many]).mean() for many in range(1, 21)]
    assert attack.curve == pytest.approx(left)


def test_runs_of_one_attack_are_told_together_and_very_many_in_short():
    assert missing_words(("a>b@1", "a>b@2", "a>c", "d#2")) == "a>b (2 runs), a>c, d#2"
    assert missing_words(tuple("abcdefgh")) == "a, b, c, d, e, f, and 2 more"


def test_the_json_object_has_the_promised_keys():
    attack = AttackResult("pgd", "pgd:steps=2", Share(1, 4), (25.0,), 3.0, 2.0, 0.1)
    result = Evaluation("net", "digits", "linf", 0.1, Share(3, 4), Share(1, 4), (attack,), 0.5, n=4).as_json()
    assert list(result) == [
        "model", "data", "n", "norm", "eps", "clean_accuracy", "robust_accuracy", "ci95", "attacks",
        "seconds",
    ]  # fmt: skip
    assert result["clean_accuracy"] == 75.0
    assert result["robust_accuracy"] == 25.0
    assert result["ci95"] == pytest.approx(wilson(1, 4))
    assert result["attacks"] == [
        {"name": "pgd", "robust_accuracy": 25.0, "forwards": 3.0, "backwards": 2.0, "seconds": 0.1}
    ]
