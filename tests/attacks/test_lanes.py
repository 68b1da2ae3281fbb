"""How images take turns."""

from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from gamagat.attacks.lanes import News, in_lanes
from gamagat.attacks.network import Network
from gamagat.attacks.outcome import Outcome
from gamagat.pieces.trees import pick

STEPS = 5


class Walk(NamedTuple):
    place: Tensor
    age: Tensor


@pytest.mark.parametrize(("images", "rounds"), [(16, STEPS), (17, STEPS), (18, 2 * STEPS)])
def test_a_few_more_than_fit_begin_together(images, rounds):
    x, made = torch.rand(images, 1, 2, 2), 0

    def step(walk: Walk) -> tuple[Walk, News]:
        nonlocal made
        made += 1
        age = walk.age + 1
        gone = pick(Walk(walk.place, age), age == STEPS)
        count = torch.full_like(gone.place, STEPS)
        return pick(Walk(walk.place, age), age < STEPS), (
            gone.place,
            Outcome(x[gone.place], count, count, count),
        )

    outcome = in_lanes(
        Network(lambda some: some.flatten(1), 16), x, lambda places: Walk(places, 0 * places), step
    )
    assert made == rounds
    assert outcome.step.tolist() == [STEPS] * images


def test_they_pass_in_two_parts():
    sizes: list[int] = []

    def model(some: Tensor) -> Tensor:
        sizes.append(len(some))
        return some.flatten(1)

    assert Network(model, 16)(torch.rand(17, 1, 2, 2)).shape == (17, 4)
    assert sizes == [16, 1]
