import pytest

from gamagat.engine.plan import plan_attack, plan_attacks, read_threat
from gamagat.errors import ConfigError
from gamagat.pieces.threat import L2, LINF


def test_every_setting_is_spelled_out():
    planned = plan_attack("gama-pgd:steps=50,fade=10", preset="mnist")
    assert planned.name == "gama-pgd:steps=50,fade=10"
    assert planned.spec == (
        "gama-pgd:steps=50,weight=5,fade=10,rate=1,drops=0.5+0.75,factor=0.1,guide=start,as_published=false,restarts=1"
    )
    assert plan_attack(planned.spec).spec == planned.spec


def test_restarts_are_an_option_of_every_attack():
    assert [name for name, _ in plan_attack("pgd:restarts=2").runs] == ["pgd#1", "pgd#2"]
    assert [name for name, _ in plan_attack("pgd", times=2).runs] == ["pgd#1", "pgd#2"]
    assert [name for name, _ in plan_attack("pgd:restarts=1", times=2).runs] == ["pgd"]


@pytest.mark.parametrize(
    ("specs", "message"),
    [
        ([], "at least one attack"),
        (["gama-pdg"], "did you mean 'gama-pgd'?"),
        (["gama-pgd:step=3"], "did you mean 'steps'?"),
        (["pgd", "pgd"], "'pgd' is given twice"),
        (["pgd:restarts=0"], "restarts must be at least 1, got 0"),
        (["pgd:steps=0"], "steps=0"),
        (["pgd-targeted:target=dog"], "unknown value of pgd-targeted:target"),
    ],
)
def test_mistakes_are_named(specs, message):
    with pytest.raises(ConfigError) as caught:
        plan_attacks(specs)
    assert message in str(caught.value)


def test_eps_is_a_fraction_a_decimal_or_the_usual_one():
    assert read_threat("linf", "8/255").eps == 8 / 255
    assert read_threat("Linf", 0.3).norm is LINF
    assert read_threat("l2", None, {"l2": 0.5}).eps == 0.5
    assert read_threat("L2", "0.5").norm is L2


@pytest.mark.parametrize("eps", ["0", "-8/255", "eight", "8/0"])
def test_a_wrong_eps_is_named(eps):
    with pytest.raises(ConfigError, match=r"eps must be"):
        read_threat("linf", eps)


def test_without_a_usual_eps_one_must_be_given():
    with pytest.raises(ConfigError, match="no usual eps for l2"):
        read_threat("l2", None, {"linf": 0.1})
