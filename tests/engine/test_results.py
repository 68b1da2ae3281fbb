import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from gamagat.engine.results import AttackResult, Evaluation
from gamagat.engine.share import Share, wilson


@given(st.integers(1, 10_000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_interval_is_wilsons(case):
    successes, trials = case
    theirs = binomtest(successes, trials).proportion_ci(confidence_level=0.95, method="wilson")
    assert wilson(successes, trials) == pytest.approx((100 * theirs.low, 100 * theirs.high), abs=1e-9)


def test_the_interval_behaves_at_the_ends():
    assert wilson(0, 100)[0] == 0.0
    assert wilson(100, 100)[1] == 100.0
    assert wilson(0, 0) == (0.0, 100.0)


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
