"""AutoAttack: its members, their order, and what it leaves."""

import pytest
import torch

from gamagat.attacks.combine import InTurn, entries, standing
from gamagat.attacks.core import ATTACKS
from gamagat.pieces.noise import Noise
from gamagat.pieces.threat import LINF, ThreatModel
from helpers import images_like, seeded, tiny_network

THREAT = ThreatModel(LINF, 0.03)


def members_of(version):
    suite = ATTACKS.make("autoattack", version=version, steps=4, queries=30, top=2, eot=3)
    assert isinstance(suite, InTurn)
    return suite


@pytest.mark.parametrize(
    ("version", "runs"),
    [
        ("standard", ["apgd-ce", "apgd-t@1", "apgd-t@2", "fab-t@1", "fab-t@2", "square"]),
        ("v1", [f"{name}#{n}" for name in ("apgd-ce", "apgd-dlr", "fab") for n in range(1, 6)] + ["square"]),
        ("rand", ["apgd-ce", "apgd-dlr"]),
    ],
)
def test_the_members_are_in_order(version, runs):
    assert [name for name, _ in entries("aa", members_of(version))] == [f"aa>{run}" for run in runs]


def test_the_defaults_are_autoattacks():
    runs = [name for name, _ in entries("aa", ATTACKS.make("autoattack"))]
    assert len(runs) == 1 + 9 + 9 + 1
    assert ATTACKS["autoattack"].defaults() == {
        "version": "standard", "steps": 100, "queries": 5000, "top": 9, "eot": 20,
    }  # fmt: skip


@pytest.mark.parametrize("version", ["standard", "v1", "rand"])
def test_it_leaves_no_more_than_its_best_member(version):
    model, x = seeded(tiny_network).double(), images_like(60).double()
    y, noise = model(x).argmax(1), Noise.for_images(torch.arange(60), 2)
    suite = members_of(version)
    whole = suite(model, x, y, THREAT, noise)
    left = standing(model, whole.images, y)
    fell = torch.zeros(60, dtype=torch.bool)
    for _, member in suite.members:
        images = member(model, x, y, THREAT, noise).images
        fell |= ~standing(model, images, y) & THREAT.contains(images, x)
    assert 0 < int(fell.sum()) < 60
    # What any member breaks by itself, the suite breaks; and it breaks nothing that none of them does.
    assert torch.equal(~left, fell)
    assert THREAT.contains(whole.images, x).all()


def test_a_network_that_answers_at_random_is_read_several_times(small_model, batch):
    x, y = batch
    calls = []

    def restless(images):
        calls.append(len(images))
        generator = torch.Generator().manual_seed(len(calls))
        return small_model(images + 0.05 * torch.randn(images.shape, generator=generator))

    outcome = members_of("rand")(restless, x, y, THREAT, Noise.for_images(torch.arange(12)))
    assert int(outcome.forwards.sum()) == sum(calls)
    assert int(outcome.backwards.max()) <= 2 * 4 * 3
    assert int(outcome.backwards.max()) % 3 == 0
