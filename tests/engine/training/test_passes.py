"""Passes through the network, from which times are forecast."""

from dataclasses import replace

import pytest
import torch

from gamagat.defenses.core import Made, Terms
from gamagat.engine.training.passes import probe_passes, training_passes
from gamagat.engine.training.probe import probes
from gamagat.engine.training.settings import make_plan


@pytest.mark.parametrize(
    ("recipe", "passes"),
    [
        ("standard", 1),  # clean
        ("fgsm-at", 2),  # one step, the view
        ("rfgsm-at", 3),  # one step, the view, clean
        ("free", 1),  # one pass serves both
        ("gat", 3.5),  # one step, the view, clean, and in every second batch a reference
        ("rmgm", 4),  # two steps, two views
        ("pgd-at:steps=10", 11),
        ("trades:steps=10", 13),  # the reference, ten steps, clean, the view
        ("tr-gat:steps=10", 13),
    ],
)
def test_passes_of_a_training_step(recipe, passes):
    before = torch.get_rng_state()
    assert training_passes(make_plan(recipe)) == passes
    assert torch.get_rng_state().equal(before)  # counted in the middle of a training


@pytest.mark.parametrize(("preset", "passes"), [("cifar10", 1 + 1 + 10 + 7), ("mnist", 1 + 1 + 10 + 40)])
def test_passes_of_a_look_after_an_epoch(preset, passes):
    assert probe_passes(probes(preset)) == passes


def test_a_recipe_that_wants_more_of_a_network_is_guessed():
    plan = make_plan("gat")
    odd = Made(lambda stage: Terms({"top": stage.logits(stage.x).topk(5).values.mean()}))
    assert training_passes(replace(plan, recipe=odd)) == 3
