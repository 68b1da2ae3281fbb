"""An attack that cannot come to the edge of the ball is told, with what to do."""

import pytest
import torch

from gamagat.engine.budget import spec_for_budget
from gamagat.engine.checkup.reach import reach_findings
from gamagat.engine.doctor import examine


@pytest.mark.parametrize(
    ("spec", "preset", "short"),
    [
        ("pgd", None, False),
        ("pgd", "mnist", False),
        ("pgd:steps=40", "mnist", False),  # as in the paper
        ("pgd:steps=30", "mnist", False),  # to the edge and no further
        ("pgd:steps=20", "mnist", True),
        ("pgd:steps=20,rate=0.1", "mnist", False),
        ("pgd:steps=3", None, True),
        ("pgd-targeted:steps=10", "mnist", True),
        ("gama-pgd:steps=1", None, False),
        ("gama-fw:steps=1", None, False),  # does not walk
        ("fgsm", None, False),
    ],
)
def test_attacks_that_walk_less_than_eps_are_found(spec, preset, short):
    assert bool([*reach_findings([spec], preset)]) == short


def test_what_to_do_does_reach():
    (finding,) = reach_findings(["pgd:steps=20"], "mnist")
    assert finding.severity == "warn"
    assert finding.seen == "pgd takes 20 steps of 0.0333 eps, which is 0.67 eps in all."
    advice = finding.do.removesuffix(".").rpartition(" ")[2]
    assert advice == "pgd:steps=20,rate=0.125"
    assert not [*reach_findings([advice], "mnist")]


def test_the_doctor_says_so(digits, healthy):
    found = examine(healthy, digits, device=torch.device("cpu"), attacks=["pgd:steps=2"])
    assert [finding.check for finding in found] == ["reach"]


def test_an_evaluation_says_so(command):
    code, _, err = command(
        "evaluate", "digits-cnn", "--data", "digits", "--n", "20", "--attack", "pgd:steps=2"
    )
    assert code == 0
    assert "reach: pgd takes 2 steps of 0.25 eps" in " ".join(err.split())


@pytest.mark.parametrize(
    ("spec", "budget", "preset", "planned"),
    [
        ("pgd", 20, "mnist", "pgd:steps=20,rate=0.125"),
        ("pgd", 40, "mnist", "pgd:steps=40"),
        ("pgd", 20, None, "pgd:steps=20"),
        ("pgd", 2, None, "pgd:steps=2,rate=1.25"),
        ("pgd:rate=0.1", 2, None, "pgd:rate=0.1,steps=2"),  # as it was asked for
        ("gama-pgd", 2, None, "gama-pgd:steps=2"),
    ],
)
def test_a_budget_does_not_cripple_an_attack(spec, budget, preset, planned):
    """What compares attacks at equal cost must let each come to the edge."""
    assert spec_for_budget(spec, budget, preset) == planned
