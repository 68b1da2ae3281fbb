"""Distances and the curve against eps, from the verdicts of one run."""

import numpy as np
import pytest
import torch
from small_run import RowByRow, small_data, small_run

from gamagat.engine.distances import Distances
from gamagat.engine.plan import plan_attack
from gamagat.engine.results import summarize
from gamagat.engine.run import read_run
from gamagat.engine.share import Share


def test_statistics_of_known_distances():
    sizes = np.array([0.0, 0.1, 0.2, 0.6, np.inf])
    known = Distances(sizes, eps=0.2)
    assert known.mean == pytest.approx(0.3)
    assert known.median == pytest.approx(0.2)
    assert known.accuracy(0.0) == Share(4, 5)
    assert known.accuracy(0.2) == Share(2, 5)
    assert known.accuracy(0.1999) == Share(3, 5)
    assert known.as_json()["of"] == 4
    assert known.as_json()["found"] == 3


def test_nothing_found_has_no_mean():
    nothing = Distances(np.array([0.0, np.inf]), eps=0.2)
    assert nothing.mean is None
    assert nothing.median is None
    assert nothing.accuracy(100.0) == Share(1, 2)


def test_one_run_gives_the_accuracy_at_every_eps(tmp_path):
    result = small_run(tmp_path, specs=("fab:steps=30",), eps=0.02)
    nearest = result.attacks[0].nearest
    assert nearest is not None
    assert nearest.accuracy(0.02) == result.standing
    assert nearest.accuracy(0.0) == result.clean
    curve = [share.percent for _, share in nearest.curve()]
    assert curve == sorted(curve, reverse=True)
    # Another run at another eps says the same: FAB does not look at eps, but where it may stop.
    other = small_run(None, specs=("fab:steps=30",), eps=0.035)
    assert nearest.accuracy(0.035) == other.standing
    assert result.standing.count > other.standing.count


def test_images_fooled_beyond_eps_are_robust_and_keep_their_distance(tmp_path):
    small_run(tmp_path, specs=("fab:steps=30",), eps=0.005)
    run = read_run(tmp_path)
    table = run.table("fab")
    beyond = (table["fooled"] == 0) & (table["distance"] > 0.005)
    assert beyond.any()
    nearest = summarize(run).attacks[0].nearest
    assert nearest is not None
    assert np.isfinite(nearest.sizes).sum() >= int(beyond.sum())


def test_an_attack_inside_the_ball_has_no_distances(tmp_path):
    assert small_run(tmp_path, specs=("fgsm",)).attacks[0].nearest is None


@pytest.mark.parametrize("name", ["fab", "fab-t"])
def test_one_that_stops_inside_the_ball_has_no_distances(name):
    assert [plan_attack(f"{name}:stop={stop}").nearest for stop in ("false", "true")] == [True, False]


def test_the_shares_of_a_suite(tmp_path):
    spec = "autoattack:steps=5,queries=20,top=2"
    result = small_run(tmp_path, specs=(spec, "apgd-ce:steps=5"), eps=0.02)
    suite, alone = result.attacks
    assert [member.name for member in suite.members] == ["apgd-ce", "apgd-t", "fab-t", "square"]
    assert suite.members[0].standing == alone.standing
    assert suite.members[-1].standing == suite.standing
    assert sum(member.fooled for member in suite.members) == result.clean.count - suite.standing.count
    assert sum(member.forwards for member in suite.members) == pytest.approx(suite.forwards)
    assert [member["name"] for member in suite.as_json()["members"]] == [
        "apgd-ce",
        "apgd-t",
        "fab-t",
        "square",
    ]
    assert alone.members == ()


def test_the_sample_has_both_kinds_of_images():
    data = small_data()
    with torch.no_grad():
        right = RowByRow()(data.read(torch.arange(60))).argmax(1) == data.labels
    assert 0 < int(right.sum()) < 60
