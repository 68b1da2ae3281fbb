"""A setting of an attack that changes nothing is told to those who set it."""

import pytest
import torch

import gamagat
from gamagat.engine.checkup.idle import idle_findings
from gamagat.engine.doctor import examine


@pytest.mark.parametrize(
    ("spec", "preset", "told"),
    [
        ("gama-pgd", None, []),
        ("gama-pgd:weight=0", None, []),
        ("gama-pgd:weight=0,fade=0.5", None, ["fade=0.5 changes nothing in gama-pgd with weight=0."]),
        ("gama-mt:weight=0,guide=clean", None, ["guide=clean changes nothing in gama-mt with weight=0."]),
        ("gama-fw:fade=0,weight=9", None, ["weight=9 changes nothing in gama-fw with fade=0."]),
        ("gama-pgd:drops=none,factor=1/2", None, ["factor=1/2 changes nothing in gama-pgd with drops=none."]),
        ("gama-pgd:drops=none,factor=1", None, []),  # both say that nothing drops
        ("pgd-margin:fade=0.25", None, ["fade=0.25 changes nothing in pgd-margin with weight=0."]),
        ("pgd-margin:fade=0.25,weight=5", None, []),
        ("multitargeted:factor=1,drops=0.5", "mnist", ["drops=0.5 changes nothing in multitargeted"]),
        ("autoattack:eot=20", None, ["eot=20 changes nothing in autoattack with version=standard."]),
        ("autoattack:version=rand,eot=20", None, []),
        ("autoattack:version=rand,top=3,queries=9", None, ["top=3 changes", "queries=9 changes"]),
        ("pgd:restarts=3", None, []),
    ],
)
def test_what_is_said_in_vain_is_found(spec, preset, told):
    seen = [finding.seen for finding in idle_findings([spec], preset)]
    assert len(seen) == len(told)
    assert all(words.startswith(start) for words, start in zip(seen, told, strict=True))


def test_what_to_do_is_told():
    (finding,) = idle_findings(["pgd-margin:fade=0.25"])
    assert finding.severity == "warn"
    assert finding.do == "Leave fade out, or change weight=0."


def test_the_doctor_says_so(digits, healthy):
    found = examine(healthy, digits, device=torch.device("cpu"), attacks=["gama-pgd:weight=0,fade=0.5"])
    assert [finding.check for finding in found] == ["idle-setting"]


@pytest.mark.parametrize(
    ("attack", "said"), [("pgd-margin:steps=2", False), ("pgd-margin:steps=2,fade=1", True)]
)
def test_an_evaluation_says_so_and_goes_on(command, attack, said):
    words = ["--data", "digits", "--n", "20", "--attack", attack]
    code, _, err = command("evaluate", "digits-cnn", *words)
    assert code == 0
    assert ("note: idle-setting: fade=1 changes nothing in pgd-margin with weight=0." in err) == said
    assert ("note:" in err) == said


def test_an_attack_in_python_warns(healthy):
    with pytest.warns(
        UserWarning, match="idle-setting: guide=clean changes nothing in gama-pgd with weight=0"
    ):
        gamagat.attack("gama-pgd", healthy, eps=0.1, guide="clean", weight=0.0)
