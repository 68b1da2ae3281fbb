"""Two runs image by image, and attacks at equal cost."""

from math import comb, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rich.console import Console, RenderableType
from scipy.stats import binom
from small_run import small_run

import gamagat
from gamagat.engine.budget import RULE, at_budget, budget_curve, curve, most_spent, spec_for_budget
from gamagat.engine.compare import Pair, compare_runs, images_needed, mcnemar, paired_interval
from gamagat.engine.ledger import CLEAN, VERDICTS, Ledger, Verdict
from gamagat.engine.manifest import Manifest
from gamagat.engine.plan import plan_attack
from gamagat.engine.run import NOT_RUN, Run, read_run
from gamagat.engine.share import Z95, Share
from gamagat.errors import ConfigError, RunError
from gamagat.pieces.noise import Noise
from gamagat.pieces.threat import LINF, ThreatModel
from gamagat.reports.comparison import (
    SharedPlan,
    budget_table,
    comparison_lines,
    comparison_tables,
    cost_table,
    in_order,
    paired_table,
    shared_plan,
)
from helpers import images_like, seeded, tiny_network

SAME = SharedPlan(("pgd",), ("pgd",), ("pgd",), True)
Row = tuple[int, int, int]  # fooled, forwards, backwards
counts = st.integers(0, 60)


@pytest.mark.parametrize(
    ("only_a", "only_b", "p_value"),
    [
        (0, 0, 1.0),
        (5, 0, 2 / 2**5),
        (6, 0, 2 / 2**6),
        (7, 1, 2 * 9 / 2**8),
        (12, 2, 0.0129),  # Armitage and Berry 1994, two media for tubercle bacilli
        (6, 16, 0.052479),  # Cavo et al. 2012, in Fagerland, Lydersen and Laake 2014
    ],
)
def test_mcnemars_p_value_is_that_of_the_textbooks(only_a, only_b, p_value):
    assert mcnemar(only_a, only_b) == pytest.approx(p_value, abs=5e-5)


@given(counts, counts)
def test_mcnemars_p_value_is_twice_the_tail_of_a_fair_coin(only_a, only_b):
    tosses, fewer = only_a + only_b, min(only_a, only_b)
    tail = sum(comb(tosses, heads) for heads in range(fewer + 1)) / 2**tosses
    assert mcnemar(only_a, only_b) == pytest.approx(min(1.0, 2 * tail))
    assert mcnemar(only_a, only_b) == mcnemar(only_b, only_a)


@pytest.mark.parametrize(
    ("only_a", "only_b", "images", "interval"),
    [
        (6, 16, 161, (-12.40, -0.54)),  # Cavo et al. 2012, in Fagerland, Lydersen and Laake 2014
        (1, 7, 21, (-51.7, -2.6)),  # Bentur et al. 2009, in the same
        (0, 0, 100, (-100 * Z95**2 / (100 + Z95**2), 100 * Z95**2 / (100 + Z95**2))),
        (5, 0, 5, (13.10, 100.0)),
    ],
)
def test_the_interval_of_the_difference_is_tangos(only_a, only_b, images, interval):
    assert paired_interval(only_a, only_b, images) == pytest.approx(interval, abs=0.05)


@given(counts, counts, counts.map(lambda more: more + 1))
def test_the_interval_holds_the_difference_and_turns_with_it(only_a, only_b, rest):
    images = only_a + only_b + rest
    low, high = paired_interval(only_a, only_b, images)
    assert -100 <= low <= 100 * (only_a - only_b) / images <= high <= 100
    assert paired_interval(only_b, only_a, images) == (-high, -low)


@given(counts, counts, counts)
def test_the_interval_leaves_zero_out_just_when_the_score_test_does(only_a, only_b, rest):
    disagree = only_a + only_b
    if disagree == 0:
        return
    low, high = paired_interval(only_a, only_b, disagree + rest)
    surplus = abs(only_a - only_b) / sqrt(disagree)
    assert (low > 0 or high < 0) == (surplus > Z95)


def covers(share_a: float, share_b: float, images: int) -> float:
    """How often the interval holds the true difference, by adding up every outcome."""
    total = 0.0
    for disagree in range(images + 1):
        chance = binom.pmf(disagree, images, share_a + share_b)
        if chance < 1e-9:
            continue
        for only_a in range(disagree + 1):
            low, high = paired_interval(only_a, disagree - only_a, images)
            if low <= 100 * (share_a - share_b) <= high:
                total += chance * binom.pmf(only_a, disagree, share_a / (share_a + share_b))
    return total


@pytest.mark.parametrize(("share_a", "share_b"), [(0.1, 0.1), (0.3, 0.1), (0.08, 0.02)])
def test_the_interval_holds_the_truth_in_95_of_100_cases(share_a, share_b):
    assert 0.93 < covers(share_a, share_b, images=40) < 0.985


def power(images: int, share_a: float, share_b: float) -> float:
    """How often McNemar's exact test tells them apart at the 5 % level, by adding up every outcome."""
    disagree = np.arange(images + 1)
    few = binom.ppf(0.025, disagree, 0.5)
    few -= binom.cdf(few, disagree, 0.5) > 0.025  # the largest minority that is rejected; -1: none
    split = share_a / (share_a + share_b)
    rejected = binom.cdf(few, disagree, split) + binom.cdf(few, disagree, 1 - split)
    return float((binom.pmf(disagree, images, share_a + share_b) * rejected).sum())


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 40), st.integers(1, 40), st.integers(0, 400))
@example(0, 1, 999)
@example(10, 10, 970)
@example(200, 100, 0)
def test_with_the_images_needed_the_exact_test_has_its_power(only_b, more, rest):
    # Where nearly all images disagree the exact test's power jumps up and down from one image to the next.
    images = 2 * (2 * only_b + more) + rest
    shares = (only_b + more) / images, only_b / images
    needed = images_needed(only_b + more, only_b, images)
    assert needed is not None
    if needed > 30_000:  # adding up every outcome would take too long
        return
    assert power(needed, *shares) >= 0.795
    assert power(int(0.78 * needed), *shares) < 0.8


def test_the_power_is_also_met_by_drawing_images():
    needed = images_needed(60, 30, 1000)
    draws = np.random.default_rng(0).multinomial(needed, [0.06, 0.03, 0.91], size=2000)
    told = np.mean([mcnemar(only_a, only_b) <= 0.05 for only_a, only_b, _ in draws.tolist()])
    assert told == pytest.approx(0.8, abs=0.03)


def test_many_disagreements_lead_to_connors_number():
    psi, delta = 0.2, 0.01
    connor = (Z95 * sqrt(psi) + 0.8416 * sqrt(psi - delta**2)) ** 2 / delta**2
    assert images_needed(10_500, 9_500, 100_000) == pytest.approx(connor, rel=0.02)


def test_no_number_of_images_tells_equals_apart():
    assert images_needed(4, 4, 100) is None
    assert images_needed(0, 0, 100) is None


@given(counts, counts, counts, counts.map(lambda more: more + 1))
def test_a_pair_turned_round_is_the_same_pair(both, only_a, only_b, neither):
    pair, turned = Pair("pgd", both, only_a, only_b, neither), Pair("pgd", both, only_b, only_a, neither)
    assert (pair.a, pair.b) == (turned.b, turned.a)
    assert pair.points == -turned.points
    assert pair.points == pytest.approx(pair.a.percent - pair.b.percent)
    assert (pair.p_value, pair.needed) == (turned.p_value, turned.needed)


def manifest(attacks: dict[str, list[str]], **changes: Any) -> Manifest:
    plan = [{"name": name, "spec": name, "runs": runs} for name, runs in attacks.items()]
    usual: dict[str, Any] = {
        "model": "small-cnn", "weights": None, "weights_sha256": "w", "data": "digits", "data_dir": None,
        "split": "test", "n": 6, "data_sha256": "d", "norm": "linf", "eps_given": "8/255", "eps": 8 / 255,
        "seed": 0, "chunk": 4, "shape": [1, 8, 8], "made": {},
    }  # fmt: skip
    return Manifest(attacks=plan, **usual | changes)


def make_run(
    folder: Path,
    attacks: dict[str, list[str]],
    entries: dict[str, dict[int, Row]],
    through: int = 6,
    **changes: Any,
) -> Run:
    """A run folder as two processes would leave it, read back; attacks are `through` with so many images."""
    folder.mkdir()
    manifest(attacks, **changes).write(folder)
    for rank in (0, 1):
        with Ledger(folder / f"ledger-{rank}.sqlite", writable=True) as ledger:
            for entry, rows in entries.items():
                for id_ in range(rank, 6 if entry == CLEAN else through, 2):
                    part = [Verdict(id_, rows[id_][0], 0, 0.0, -1, *rows[id_][1:])] if id_ in rows else []
                    ledger.record(entry, id_, part, {}, 1.0)
    return read_run(folder)


def fooled(*verdicts: int, cost: int = 10) -> dict[int, Row]:
    """Verdicts of images 0, 1, ...; NOT_RUN leaves one out."""
    return {id_: (value, cost + 1, cost) for id_, value in enumerate(verdicts) if value != NOT_RUN}


PGD = {"pgd": ["pgd"]}
GAMA_AND_PGD = {"gama-pgd": ["gama-pgd"], "pgd": ["pgd"]}


@pytest.fixture
def weak(tmp_path: Path) -> Run:
    """Image 5 is wrong untouched; pgd fools image 0."""
    return make_run(
        tmp_path / "weak", PGD, {CLEAN: fooled(0, 0, 0, 0, 0, 1), "pgd": fooled(1, 0, 0, 0, 0, NOT_RUN)}
    )


@pytest.fixture
def strong(tmp_path: Path) -> Run:
    """As before, but gama-pgd fools images 1 to 3."""
    entries = {
        CLEAN: fooled(0, 0, 0, 0, 0, 1),
        "gama-pgd": fooled(0, 1, 1, 1, 0, NOT_RUN),
        "pgd": fooled(1, 0, 1, 0, 0, NOT_RUN),
    }
    return make_run(tmp_path / "strong", GAMA_AND_PGD, entries, eps=0.1, eps_given="0.1")


def test_images_are_counted_in_pairs(weak, strong):
    result = compare_runs(weak, strong)
    assert result.worst == Pair("worst case", both=1, only_a=3, only_b=0, neither=2)
    assert (result.worst.a, result.worst.b) == (Share(4, 6), Share(1, 6))
    assert result.worst.points == 50.0
    assert result.worst.p_value == 0.25
    assert result.attacks == (Pair("pgd", both=3, only_a=1, only_b=0, neither=2),)


def test_settings_that_differ_are_noted(weak, strong):
    notes = compare_runs(weak, strong).notes
    assert [note.split()[0] for note in notes] == ["eps_given", "eps", "attacks"]
    assert "eps_given was 8/255 and is 0.1" in notes
    assert compare_runs(weak, weak).notes == ()


def test_turning_the_runs_round_turns_the_counts_round(weak, strong):
    there, back = compare_runs(weak, strong).worst, compare_runs(strong, weak).worst
    assert (there.only_a, there.only_b, there.both) == (back.only_b, back.only_a, back.both)


def test_a_run_equals_itself(strong):
    result = compare_runs(strong, strong)
    assert result.worst == Pair("worst case", both=1, only_a=0, only_b=0, neither=5)
    assert (result.worst.p_value, result.worst.needed) == (1.0, None)
    assert [pair.name for pair in result.attacks] == ["gama-pgd", "pgd"]


def test_only_images_that_both_are_through_with_count(tmp_path, weak):
    entries = {CLEAN: fooled(0, 0, 0, 0, 0, 1), "pgd": fooled(0, 1, NOT_RUN, NOT_RUN, NOT_RUN, NOT_RUN)}
    half = make_run(tmp_path / "half", PGD, entries, through=2)
    result = compare_runs(weak, half)
    assert result.worst == Pair("worst case", both=0, only_a=1, only_b=1, neither=0)
    assert len(result.notes) == 1
    assert "half is unfinished: 2 of 6 images" in result.notes[0]


def test_an_attack_that_has_hardly_begun_is_compared_on_what_there_is(tmp_path, strong):
    entries = {CLEAN: fooled(0, 0, 0, 0, 0, 0), "gama-pgd": fooled(1, 1, 1, 1, 0, 0)}
    half = make_run(tmp_path / "half", GAMA_AND_PGD, entries)
    result, plan = compare_runs(strong, half), shared_plan(strong, half)
    assert result.worst is None
    assert result.as_json()["worst_case"] is None
    assert [(pair.name, pair.images) for pair in result.attacks] == [("gama-pgd", 6)]
    assert [name for name, _ in in_order(result, plan)] == ["gama-pgd"]
    text = "\n".join(comparison_lines(result, plan))
    assert (
        "no image is through with all attacks in both runs: there are no worst cases to compare yet" in text
    )
    assert "gama-pgd: A - B = " in text
    assert "half is unfinished: 0 of 6 images" in text
    with Ledger(half.folder / "ledger-0.sqlite", writable=True) as ledger:
        ledger.record("pgd", 4, [Verdict(4, 0, 0, 0.0, -1, 11, 10)], {}, 1.0)
    result = compare_runs(strong, read_run(half.folder))
    assert result.worst.images == 1
    assert [(pair.name, pair.images) for pair in result.attacks] == [("gama-pgd", 6), ("pgd", 1)]


def test_runs_over_different_images_are_refused(tmp_path, weak):
    other = make_run(tmp_path / "other", PGD, {CLEAN: fooled(0, 0)}, data_sha256="e", n=2)
    with pytest.raises(RunError, match=r"different images \(digits test, 6 images; digits test, 2 images\)"):
        compare_runs(weak, other)


def test_runs_without_a_finished_image_in_common_are_refused(tmp_path, weak):
    blank = make_run(tmp_path / "blank", PGD, {})
    words = (
        r"weak is finished, .*blank is through with 0 of 6 images \(unfinished: pgd\): "
        "they have finished no image in common; make the unfinished go on"
    )
    with pytest.raises(RunError, match=words):
        compare_runs(weak, blank)


def test_the_json_object_has_the_promised_keys(weak, strong):
    result = compare_runs(weak, strong).as_json()
    assert list(result) == ["a", "b", "notes", "worst_case", "attacks"]
    assert list(result["worst_case"]) == [
        "name", "images", "both", "only_a", "only_b", "neither", "accuracy_a", "ci95_a", "accuracy_b",
        "ci95_b", "difference", "ci95", "p_value", "images_needed",
    ]  # fmt: skip
    assert result["worst_case"]["ci95_a"] == list(Share(4, 6).ci95)


def test_real_runs_can_be_compared(tmp_path):
    model, images = seeded(tiny_network), images_like(12)
    labels = model(images).argmax(1).detach()
    for attack in ("fgsm", "gama-pgd:steps=10"):
        gamagat.evaluate(model, (images, labels), [attack], eps=0.02, out=tmp_path / attack[:4])
    one, two = read_run(tmp_path / "fgsm"), read_run(tmp_path / "gama")
    pair = compare_runs(one, two).worst
    assert pair.images == 12
    assert pair.a.count >= pair.b.count
    assert at_budget(one, "fgsm", 1) == pair.a
    assert at_budget(two, "gama-pgd:steps=10", 10) == pair.b


def rows(verdicts: list[Row]) -> np.ndarray:
    table = np.zeros(len(verdicts), VERDICTS)
    table["id"] = np.arange(len(verdicts))
    for name, column in zip(("fooled", "forwards", "backwards"), zip(*verdicts, strict=True), strict=True):
        table[name] = column
    return table


row = st.tuples(st.sampled_from([0, 0, 1]), st.integers(0, 9), st.integers(0, 9))


@given(st.data(), st.integers(1, 8), st.integers(1, 4), st.sampled_from(["backwards", "passes"]))
def test_an_image_falls_at_what_it_has_cost_by_then(data, images, runs, cost):
    table = st.lists(row, min_size=images, max_size=images)
    clean, tries = data.draw(table), data.draw(st.lists(table, min_size=runs, max_size=runs))

    def falls(image: int, budget: int) -> bool:
        doubled = 0
        for verdicts in tries:
            hit, forwards, backwards = verdicts[image]
            queries = 0 if any(row[2] for row in verdicts) else forwards
            doubled += queries + 2 * backwards if cost == "backwards" else 2 * (forwards + backwards)
            if hit and doubled <= 2 * budget:
                return True
        return clean[image][0] == 1

    budgets = [0, 1, 3, 7, 20, 100]
    shares = budget_curve(rows(clean), [rows(verdicts) for verdicts in tries], budgets, cost)
    expected = [sum(not falls(image, budget) for image in range(images)) for budget in budgets]
    assert shares == [Share(left, images) for left in expected]


@pytest.fixture
def twice(tmp_path: Path) -> Run:
    """Image 5 is wrong untouched; image 0 falls at 7, image 1 at 100 + 30, image 2 at 100 + 100."""
    entries = {
        CLEAN: fooled(0, 0, 0, 0, 0, 1, cost=0),
        "pgd#1": fooled(0, 0, 0, 0, 0, NOT_RUN, cost=100) | {0: (1, 9, 7)},
        "pgd#2": {1: (1, 31, 30), 2: (1, 101, 100), 3: (0, 101, 100), 4: (0, 101, 100)},
    }
    return make_run(tmp_path / "twice", {"pgd:restarts=2": ["pgd#1", "pgd#2"]}, entries)


@pytest.mark.parametrize(
    ("budget", "left"), [(0, 5), (6, 5), (7, 4), (129, 4), (130, 3), (199, 3), (200, 2), (10**6, 2)]
)
def test_restarts_are_paid_for_in_order(twice, budget, left):
    assert at_budget(twice, "pgd:restarts=2", budget) == Share(left, 6)


def test_restarts_without_gradients_planned_for_a_budget_are_within_it(tmp_path):
    """Three times 13 queries are 39, and 20 evaluations are 40: no half is rounded up three times."""
    spec, entries = "square:restarts=3,queries=13", [f"square#{number}" for number in (1, 2, 3)]
    assert spec_for_budget("square:restarts=3", 20) == spec
    verdicts = {CLEAN: fooled(0, 0, cost=0)} | {entry: {0: (0, 13, 0), 1: (0, 13, 0)} for entry in entries}
    verdicts["square#3"][1] = (1, 13, 0)
    run = make_run(tmp_path / "odd", {spec: entries}, verdicts)
    assert at_budget(run, spec, 20) == Share(1, 2)
    assert curve(run, spec)[-1] == (20, Share(1, 2))


def test_forward_passes_can_be_counted_in(twice):
    assert at_budget(twice, "pgd:restarts=2", 15, "passes") == Share(5, 6)
    assert at_budget(twice, "pgd:restarts=2", 16, "passes") == Share(4, 6)


def test_the_curve_leads_from_the_clean_to_the_final_accuracy(twice):
    assert [(cost, share.count) for cost, share in curve(twice, "pgd:restarts=2")] == [
        (0, 5), (10, 4), (20, 4), (50, 4), (100, 4), (200, 2),
    ]  # fmt: skip


def test_the_curve_has_a_point_wherever_an_image_falls(twice):
    assert [(cost, share.count) for cost, share in curve(twice, "pgd:restarts=2", points=100)] == [
        (0, 5), (7, 4), (130, 3), (200, 2),
    ]  # fmt: skip


def test_a_curve_with_more_falls_than_points_is_thinned_evenly_by_falls(tmp_path):
    entries = {CLEAN: fooled(*[0] * 6, cost=0), "pgd": {id_: (1, 0, 10**id_) for id_ in range(6)}}
    run = make_run(tmp_path / "run", PGD, entries)
    whole, thin = (curve(run, "pgd", points=points) for points in (6, 3))
    assert [(cost, share.count) for cost, share in whole[1:]] == [(10**id_, 5 - id_) for id_ in range(6)]
    # The first and the last fall, and one in the middle of them, not of the costs.
    assert [(cost, share.count) for cost, share in thin] == [(0, 6), (1, 5), (100, 3), (10**5, 0)]


def test_the_curve_of_an_attack_that_fools_nothing_is_flat(tmp_path):
    run = make_run(tmp_path / "run", PGD, {CLEAN: fooled(0, 0, cost=0), "pgd": fooled(0, 0, cost=30)}, n=2)
    assert curve(run, "pgd") == [(0, Share(2, 2)), (30, Share(2, 2))]


def test_two_passes_of_an_attack_without_gradients_cost_as_much_as_a_gradient(tmp_path):
    entries = {CLEAN: fooled(0, 0, cost=0), "square": {0: (1, 39, 0), 1: (0, 100, 0)}}
    run = make_run(tmp_path / "run", {"square": ["square"]}, entries, n=2)
    assert curve(run, "square") == [(0, Share(2, 2)), (20, Share(1, 2)), (50, Share(1, 2))]
    assert at_budget(run, "square", 19) == Share(2, 2)
    assert at_budget(run, "square", 20) == Share(1, 2)
    assert most_spent(run, "square") == (100, 0)


def test_queries_of_a_suite_cost_as_much_as_those_of_the_attack_alone(tmp_path):
    entries = {
        CLEAN: fooled(0, 0, cost=0), "aa>pgd": {0: (0, 11, 10), 1: (0, 11, 10)},
        "aa>square": {0: (1, 40, 0), 1: (0, 100, 0)},
    }  # fmt: skip
    run = make_run(tmp_path / "run", {"aa": ["aa>pgd", "aa>square"]}, entries, n=2)
    assert [at_budget(run, "aa", budget).count for budget in (29, 30, 60)] == [2, 1, 1]
    assert most_spent(run, "aa") == (111, 10)


def test_passes_of_an_attack_without_gradients_can_be_counted(tmp_path):
    entries = {CLEAN: fooled(0, 0, cost=0), "square": {0: (1, 40, 0), 1: (0, 100, 0)}}
    run = make_run(tmp_path / "run", {"square": ["square"]}, entries, n=2)
    assert at_budget(run, "square", 39, "passes") == Share(2, 2)
    assert at_budget(run, "square", 40, "passes") == Share(1, 2)


def test_only_images_that_the_attack_is_through_with_are_priced(tmp_path):
    entries = {CLEAN: fooled(0, 0, 0, 1, 0, 0), "pgd": fooled(1, 0)}
    run = make_run(tmp_path / "run", PGD, entries, through=2)
    assert at_budget(run, "pgd", 10) == Share(1, 2)


def test_what_cannot_be_priced_is_named(twice, tmp_path):
    with pytest.raises(ConfigError, match=r"unknown attack of .*twice 'pgd'; known: pgd:restarts=2"):
        at_budget(twice, "pgd", 10)
    blank = make_run(tmp_path / "blank", PGD, {})
    with pytest.raises(RunError, match="pgd has finished no image of"):
        curve(blank, "pgd")


def test_a_million_images_are_priced_exactly():
    many, numbers = 10**6, np.random.default_rng(0)
    clean, first, second = (np.zeros(many, VERDICTS) for _ in range(3))
    first["backwards"], second["backwards"] = numbers.integers(1, 101, many), 50
    first["fooled"] = numbers.random(many) < 0.3
    second["fooled"] = (first["fooled"] == 0) & (numbers.random(many) < 0.1)
    standing = budget_curve(clean, [first, second], [60, 10**4])
    early = ((first["fooled"] == 1) & (first["backwards"] <= 60)).sum()
    late = ((second["fooled"] == 1) & (first["backwards"] + 50 <= 60)).sum()
    assert standing[0].count == many - early - late
    assert standing[1].count == many - first["fooled"].sum() - second["fooled"].sum()


@pytest.mark.parametrize(
    ("spec", "budget", "planned"),
    [
        ("gama-pgd", 100, "gama-pgd:steps=100"),
        ("gama-pgd:steps=7,fade=10", 30, "gama-pgd:steps=30,fade=10"),
        ("gama-pgd:restarts=4", 100, "gama-pgd:restarts=4,steps=25"),
        ("gama-mt", 100, "gama-mt:steps=20"),
        ("multitargeted:top=3,restarts=2", 100, "multitargeted:top=3,restarts=2,steps=16"),
        ("gama-mt", 3, "gama-mt:steps=1"),
        ("fab", 100, "fab:steps=11"),  # nine boundaries a step
        ("fab-t:top=5", 100, "fab-t:top=5,steps=20"),
        ("cw", 900, "cw:steps=100"),  # nine searches
        ("apgd-ce:eot=20", 100, "apgd-ce:eot=20,steps=5"),
        ("spsa:samples=8", 170, "spsa:samples=8,steps=20"),  # 17 forward passes a step, and no gradient
        ("square", 100, "square:queries=200"),
        ("square:queries=9,restarts=4", 100, "square:queries=50,restarts=4"),
        # 100 + 9 * 100 + 9 * 100 gradients and half of 5000 queries are 4400 as a rule.
        ("autoattack", 2200, "autoattack:steps=50,queries=2500"),
        ("autoattack:queries=1000", 120, "autoattack:queries=50,steps=5"),
        ("autoattack:version=rand", 400, "autoattack:version=rand,steps=10,queries=500"),
        ("r-fgsm", 100, "r-fgsm"),
        ("r-fgsm:alpha=0.3,restarts=2", 5, "r-fgsm:alpha=0.3,restarts=2"),
    ],
)
def test_steps_and_restarts_share_the_budget(spec, budget, planned):
    assert spec_for_budget(spec, budget) == planned


@pytest.mark.parametrize(
    "spec", ["pgd:restarts=3", "ifgsm", "gama-fw", "gama-mt:top=2", "fab", "apgd-ce:eot=3", "fab-t:top=4"]
)
def test_no_image_costs_more_than_the_budget(spec):
    model, x = seeded(tiny_network), images_like(3)
    y, threat = model(x).argmax(1).detach(), ThreatModel(LINF, 1e-4)
    runs, noise = plan_attack(spec_for_budget(spec, 12, classes=5)).runs, Noise.for_images(torch.arange(3))
    spent = sum(attack(model, x, y, threat, noise).backwards for _, attack in runs)
    assert spent.tolist() == [12, 12, 12]


@pytest.mark.parametrize("spec", ["square", "square:restarts=3", "spsa:samples=2"])
def test_no_image_is_asked_about_more_than_twice_for_each_gradient(spec):
    model, x = seeded(tiny_network), images_like(3)
    y, threat = model(x).argmax(1).detach(), ThreatModel(LINF, 1e-4)
    runs, noise = plan_attack(spec_for_budget(spec, 12, classes=5)).runs, Noise.for_images(torch.arange(3))
    found = [attack(model, x, y, threat, noise) for _, attack in runs]
    assert sum(outcome.backwards for outcome in found).tolist() == [0, 0, 0]
    spent = sum(outcome.forwards for outcome in found).tolist()
    assert all(20 <= count <= 24 for count in spent)


def test_the_settings_of_the_data_are_kept():
    planned = plan_attack(spec_for_budget("gama-pgd", 40, "mnist"), "mnist")
    assert "steps=40,weight=5" in planned.spec


@pytest.mark.parametrize(
    ("spec", "budget", "message"),
    [
        ("pgd", 0, "at least 1 gradient"),
        ("pdg", 10, "did you mean 'pgd'"),
        ("pgd:step=3", 10, "'steps'"),
        (
            "spsa",
            128,
            "spsa needs at least 257 forward passes per image, .* 128 .* allows 256; give --budget 129",
        ),
        ("square:restarts=5", 2, "at least 5 forward passes .* allows 4; give --budget 3"),
    ],
)
def test_a_budget_that_cannot_be_planned_is_named(spec, budget, message):
    with pytest.raises(ConfigError, match=message):
        spec_for_budget(spec, budget)


def printed(thing: RenderableType, width: int = 80) -> str:
    console = Console(width=width, no_color=True, legacy_windows=False)
    with console.capture() as capture:
        console.print(thing)
    return capture.get()


def in_cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.replace("┃", "│").split("│")[1:-1]]


def test_the_paired_table_adds_up(weak, strong):
    text = printed(paired_table(compare_runs(weak, strong).worst))
    cells = [in_cells(line) for line in text.splitlines() if "│" in line]
    assert cells == [["A stands", "1", "3", "4"], ["A falls", "0", "2", "2"], ["all", "1", "5", "6"]]


def test_the_tables_of_accuracies_fit_eighty_columns(weak, strong):
    texts = [printed(table) for table in comparison_tables(compare_runs(weak, strong), SAME)]
    assert [text.splitlines()[0].strip() for text in texts] == ["worst case, 6 images", "pgd, 6 images"]
    assert "…" not in "".join(texts)
    assert max(len(line) for text in texts for line in text.splitlines()) <= 80
    rows = [in_cells(line) for line in texts[0].splitlines() if "│" in line]
    assert rows[0] == ["A", "66.67", "30.00 to 90.32", "3", "", ""]
    assert rows[1] == ["B", "16.67", "3.01 to 56.35", "0", "", ""]
    assert rows[2] == ["A - B", "+50.00", "-8.55 to +81.24", "", "0.25", "17"]


def test_the_lines_say_who_is_who_and_what_it_means(weak, strong):
    lines = comparison_lines(compare_runs(weak, strong), SAME)
    assert [line[:3] for line in lines[:2]] == ["A: ", "B: "]
    assert "A - B = +50.00 points on 6 images" in lines[2]
    assert "p = 0.25: the two are not told apart" in lines[3]
    assert "note: eps was" in lines[5]
    assert "equally many" in comparison_lines(compare_runs(weak, weak), shared_plan(weak, weak))[3]


def test_worst_cases_of_different_attacks_are_not_compared_and_come_last(tmp_path):
    small_run(tmp_path / "one", specs=("fgsm", "pgd:steps=3", "ifgsm"))
    small_run(tmp_path / "two", specs=("fgsm", "pgd:steps=3", "gama-pgd:steps=3"), seed=1)
    a, b = read_run(tmp_path / "one"), read_run(tmp_path / "two")
    result, plan = compare_runs(a, b), shared_plan(a, b)
    assert not plan.same
    lines = comparison_lines(result, plan)
    assert lines[2] == (
        "the worst cases are of different attacks (A: fgsm, pgd:steps=3, ifgsm; "
        "B: fgsm, pgd:steps=3, gama-pgd:steps=3) and not comparable"
    )
    assert [line.partition(": ")[0] for line in lines if "McNemar" in line] == ["fgsm", "pgd:steps=3"]
    names = [name for name, _ in in_order(result, plan)]
    assert names == ["fgsm", "pgd:steps=3", "worst case (different attacks)"]
    titles = [str(table.title) for table in comparison_tables(result, plan)]
    assert titles == [f"{name}, 60 images" for name in names]


def test_an_attack_of_one_name_with_other_settings_is_not_the_same(tmp_path):
    for name, times in (("one", 1), ("two", 2)):
        small_run(tmp_path / name, specs=(f"pgd:steps=3,restarts={times}",))
        manifest = tmp_path / name / "manifest.json"  # as --restarts would have written it
        manifest.write_text(
            manifest.read_text().replace(f'"name": "pgd:steps=3,restarts={times}"', '"name": "pgd"')
        )
    a, b = read_run(tmp_path / "one"), read_run(tmp_path / "two")
    result, plan = compare_runs(a, b), shared_plan(a, b)
    assert [name for name, _ in in_order(result, plan)] == [
        "pgd (other settings)",
        "worst case (different attacks)",
    ]
    assert "no attack with the same settings is finished in both" in comparison_lines(result, plan)[3]


def test_attacks_that_are_the_same_but_for_their_order_and_names_are_the_same(tmp_path):
    small_run(tmp_path / "one", specs=("fgsm", "pgd:steps=3"))
    small_run(tmp_path / "two", specs=("pgd:steps=3,restarts=1", "fgsm"))
    assert shared_plan(read_run(tmp_path / "one"), read_run(tmp_path / "two")).same


def test_tables_of_cost_show_every_attack_with_its_interval(twice, strong):
    text = printed(cost_table(twice))
    assert max(map(len, text.splitlines())) <= 80
    assert "accuracy against gradient evaluations per image" in text
    rows = [in_cells(line) for line in text.splitlines() if "│" in line]
    assert rows[0] == ["pgd:restarts=2", "0", "83.33", "43.65 to 96.99"]
    assert rows[-1] == ["", "200", "33.33", "9.68 to 70.00"]
    text = printed(budget_table(strong, 5))
    assert "at most 5 gradient evaluations per image" in text
    assert [in_cells(line)[0] for line in text.splitlines() if "│" in line] == ["gama-pgd", "pgd"]
    assert " ".join(text.split()).endswith(RULE)
    text = printed(budget_table(strong, 5, "passes"))
    assert "at most 5 passes" in text
    assert RULE[:20] not in text
