import pytest
import torch

from gamagat.data.core import Dataset, from_tensors
from gamagat.engine.checkup.radius import eps_findings
from gamagat.engine.findings import Finding
from gamagat.engine.plan import read_threat


def colour(usual: bool = True) -> Dataset:
    """A data set that looks like CIFAR-10 from afar."""
    eps = {"linf": 8 / 255, "l2": 0.5} if usual else {}
    return from_tensors(torch.zeros(1, 3, 32, 32), name="cifar10", labels=torch.zeros(1).long(), eps=eps)


def look(norm: str, eps: str, data: Dataset) -> list[Finding]:
    return list(eps_findings(read_threat(norm, eps), data, eps))


@pytest.mark.parametrize("eps", ["0.031", "0.0313", "0.03137", "0.0314", "0.016", "0.0627", "0.008"])
def test_a_rounded_fraction_is_found(eps):
    (finding,) = look("linf", eps, colour())
    assert finding.severity == "warn"
    assert f"eps is {eps} = " in finding.seen
    assert f"{round(float(eps) * 255)}/255 is" in finding.seen
    assert f"--eps {round(float(eps) * 255)}/255" in finding.do


def test_the_two_radii_are_told_in_numbers():
    (finding,) = look("linf", "0.031", colour())
    assert finding.seen == "eps is 0.031 = 7.905/255, and 8/255 is 0.031373."


@pytest.mark.parametrize("eps", ["8/255", "4/255", "0.03137255", "0.05", "0.02", "0.1", "10/255"])
@pytest.mark.parametrize("usual", [True, False])
def test_a_plain_radius_is_fine(eps, usual):
    assert look("linf", eps, colour(usual)) == []


@pytest.mark.parametrize(
    ("norm", "eps", "severity", "words"),
    [
        ("linf", "1", "stop", "pixels lie in [0, 1]"),
        ("linf", "0.3", "warn", "the usual radius there is 0.0313725"),
        ("linf", "0.00012", "warn", "less than half a grey level"),
        ("l2", "128", "stop", "plain grey is at most 27.7 away"),
        ("l2", "8/255", "warn", "the usual radius of cifar10 in linf"),
    ],
)
def test_a_radius_of_another_scale_is_found(norm, eps, severity, words):
    (finding,) = look(norm, eps, colour())
    assert finding.severity == severity
    assert f"eps is {eps} = " in finding.seen
    assert words in finding.seen


def test_a_large_radius_is_found_where_none_is_usual():
    assert [finding.severity for finding in look("linf", "0.3", colour(usual=False))] == ["warn"]


def test_usual_radii_of_other_norms_and_data_are_fine(digits):
    assert look("l2", "0.5", colour()) == []
    assert look("linf", "0.3", digits) == []
    assert look("linf", "0.2", digits) == []
