import pytest
import torch
from torch import Tensor

from gamagat.attacks.combine import (
    each_target,
    entries,
    folded,
    least_likely,
    random_wrong,
    ranked,
    restarts,
    standing,
)
from gamagat.attacks.core import ATTACKS
from gamagat.attacks.outcome import Outcome
from gamagat.errors import ConfigError
from gamagat.pieces.noise import Noise
from gamagat.pieces.threat import LINF, ThreatModel

THREAT = ThreatModel(LINF, 0.02)


def noise_of(x: Tensor) -> Noise:
    return Noise.for_images(torch.arange(len(x)))


def test_the_first_restart_is_the_attack_itself_and_more_never_help_less(small_model, batch):
    x, y = batch
    attack = ATTACKS.make("gama-pgd", steps=3)
    left = [
        int(
            standing(
                small_model, restarts(attack, times)(small_model, x, y, THREAT, noise_of(x)).images, y
            ).sum()
        )
        for times in (1, 2, 6)
    ]
    single = attack(small_model, x, y, THREAT, noise_of(x))
    assert left[0] == int(standing(small_model, single.images, y).sum())
    assert left == sorted(left, reverse=True)


def test_restarts_only_look_at_images_still_standing(small_model, batch):
    x, y = batch
    sizes = []

    def attack(model, x, y, threat, noise, target=None):
        sizes.append(len(x))
        broken = x.clone()
        broken[: len(x) // 2] = 1 - broken[: len(x) // 2]
        return Outcome.untouched(broken)

    outcome = restarts(attack, 3)(small_model, x, y, ThreatModel(LINF, 1.0), noise_of(x))
    assert sizes[0] == 12
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[1] < 12
    assert int(outcome.forwards.sum()) == sizes[0] + sizes[1]  # one look at each after every run but the last


def test_restarts_begin_elsewhere(small_model, batch):
    x, y = batch
    attack = ATTACKS.make("gama-pgd", steps=1)
    first, second = (a(small_model, x, y, THREAT, noise_of(x)).images for a in (attack, folded(attack, 2)))
    assert not torch.equal(first, second)


def test_a_combined_attack_unfolds_into_its_single_runs():
    attack = restarts(each_target(ATTACKS.make("pgd"), top=2), 2)
    assert [name for name, _ in entries("mt", attack)] == ["mt#1@1", "mt#1@2", "mt#2@1", "mt#2@2"]


def test_targets_are_ranked_by_the_clean_logits_without_the_label():
    logits, y = torch.tensor([[5.0, 1.0, 3.0, 2.0]]), torch.tensor([0])
    assert [int(ranked(rank)(logits, y, None)) for rank in (1, 2, 3, 4, 5)] == [2, 3, 1, 2, 3]
    assert int(least_likely(logits, y, None)) == 1
    assert int(least_likely(logits, torch.tensor([1]), None)) == 3


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_random_targets_are_wrong_classes_and_all_of_them(classes):
    y = torch.arange(400) % classes
    target = random_wrong(torch.zeros(400, classes), y, Noise.for_images(torch.arange(400)))
    assert (target != y).all()
    assert len(((target - y) % classes).unique()) == classes - 1


@pytest.mark.parametrize("times", [0, -3])
def test_restarts_and_targets_must_be_positive(times):
    with pytest.raises(ConfigError, match=str(times)):
        restarts(ATTACKS.make("pgd"), times)
    with pytest.raises(ConfigError, match=str(times)):
        each_target(ATTACKS.make("pgd"), times)


@pytest.mark.parametrize("name", ["gama-pgd", "pgd", "ifgsm", "gama-fw-10"])
def test_an_attack_needs_a_step(name):
    with pytest.raises(ConfigError, match="steps=0"):
        ATTACKS.make(name, steps=0)
