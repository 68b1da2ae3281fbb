"""The verdict on networks of which it is known whether gradients tell the truth."""

from dataclasses import replace

import pytest
import torch
from masking.fronts import Around, decided, in_numpy, inflated, noisy_images, noisy_logits, rounded, squashed
from torch import nn

from gamagat.engine.masking.diagnose import CHECKS, Diagnosis, examine_masking
from gamagat.engine.masking.exam import FULL, QUICK
from gamagat.engine.masking.result import Level, Verdict
from gamagat.engine.request import EvaluationRequest, prepare
from gamagat.errors import ModelError
from gamagat.models.core import load_model


def diagnosed(model: nn.Module, eps: str = "0.2", n: int = 120, quick: bool = True, **more) -> Diagnosis:
    """A diagnosis of a network on digits."""
    specs = (QUICK if quick else FULL).specs()
    prepared = prepare(
        EvaluationRequest("digits-cnn", data="digits", eps=eps, n=n, attacks=specs, device="cpu")
    )
    return examine_masking(replace(prepared, model=model), quick=quick, **more)


def levels(found: Diagnosis, level: Level) -> set[str]:
    return {name for name, result in found.results.items() if result.level is level}


def test_a_collapsed_network_is_masked(networks):
    found = diagnosed(networks["collapsed"], eps="0.4")
    assert found.verdict is Verdict.MASKED
    assert "single-step" in levels(found, Level.MASKED)
    numbers = found.results["single-step"].numbers
    assert numbers["fgsm_accuracy"] > 50
    assert numbers["pgd_accuracy"] < 5
    assert found.results["loss-rises"].level is not Level.FINE


@pytest.mark.parametrize("name", ["gat", "trades"])
def test_a_robust_network_is_sound(networks, name):
    found = diagnosed(networks[name], source=networks["standard"])
    assert levels(found, Level.WARNS) | levels(found, Level.MASKED) == set()
    assert found.verdict is Verdict.SOUND
    assert found.robust_accuracy > 40
    assert levels(found, Level.FINE) == {check.name for check in CHECKS}


def test_a_normal_network_is_not_robust_and_hides_nothing(networks):
    found = diagnosed(networks["standard"], n=100)
    assert found.verdict is Verdict.SOUND
    assert found.clean_accuracy > 90
    assert found.robust_accuracy < 5
    assert any("no robust accuracy at all" in words for words in found.unchecked)


@pytest.mark.parametrize("front", [rounded, decided, in_numpy])
def test_a_layer_without_gradient_is_masked(networks, front):
    found = diagnosed(front(networks["gat"]), n=100)
    assert found.verdict is Verdict.MASKED
    assert levels(found, Level.MASKED) >= {"zero-gradients", "loss-rises", "large-eps"}
    assert found.results["zero-gradients"].numbers["zero_percent"] == 100
    assert found.results["alignment"].level is Level.UNCHECKED


@pytest.mark.parametrize("front", [noisy_images, noisy_logits])
def test_a_random_network_is_suspicious(networks, front):
    found = diagnosed(front(networks["gat"]), n=100)
    assert found.verdict is Verdict.SUSPICIOUS
    assert "randomness" in levels(found, Level.WARNS)
    assert found.results["randomness"].numbers["changed_percent"] > 0


@pytest.mark.parametrize("name", ["gat", "standard"])
def test_saturated_logits_are_not_passed_over(networks, name):
    found = diagnosed(inflated(networks[name]), n=100)
    assert found.verdict is Verdict.SUSPICIOUS
    assert levels(found, Level.WARNS) == {"saturation", "underflow"}
    numbers = found.results["underflow"].numbers
    assert numbers["published_accuracy"] > numbers["exact_accuracy"] + 20
    assert numbers["underflown_percent"] > 90


def test_squashed_logits_are_stretched_back_out(networks):
    plain, found = diagnosed(networks["gat"]), diagnosed(squashed(networks["gat"]))
    stretched = f"stretched {QUICK.gama}"
    assert plain.results["squashing"].numbers[stretched] is None  # nothing to stretch
    assert found.verdict is Verdict.SUSPICIOUS
    assert levels(found, Level.WARNS) == {"squashing"}
    numbers = found.results["squashing"].numbers
    assert numbers["held_percent"] > 40
    assert numbers["white_box_accuracy"] > plain.robust_accuracy + 2
    assert found.robust_accuracy <= numbers[stretched]
    assert found.robust_accuracy == pytest.approx(plain.robust_accuracy, abs=1)


def test_logits_near_their_end_that_hide_nothing_are_no_masking():
    found = diagnosed(Around(load_model("digits-cnn"), after=lambda z: z.log_softmax(1)))
    squashing = found.results["squashing"]
    assert squashing.level is Level.FINE
    assert squashing.numbers["held_percent"] > 90  # sure winners have a logarithm of zero
    assert found.verdict is Verdict.SOUND


def test_transferred_images_give_a_masked_network_away(networks):
    found = diagnosed(rounded(networks["standard"]), n=60, source=networks["standard"])
    transfer = found.results["transfer"]
    assert transfer.level is Level.MASKED
    assert transfer.numbers["transfer fgsm"] < transfer.numbers["white_box_accuracy"] - 50
    assert found.robust_accuracy <= transfer.numbers["transfer fgsm"]


def test_the_same_network_gets_the_same_diagnosis_and_is_left_as_it_was(networks):
    net = noisy_images(networks["gat"]).train()
    state, draw = (
        {name: value.clone() for name, value in net.state_dict().items()},
        torch.random.get_rng_state(),
    )
    first, second = diagnosed(net, n=20), diagnosed(net, n=20)
    assert first.as_json() == second.as_json()
    assert torch.equal(torch.random.get_rng_state(), draw)
    assert net.training
    assert all(parameter.requires_grad and parameter.grad is None for parameter in net.parameters())
    assert all(torch.equal(value, state[name]) for name, value in net.state_dict().items())


def test_a_network_that_gets_nothing_right_is_an_error():
    class Wrong(nn.Module):
        def forward(self, images):
            return torch.eye(11)[10].repeat(len(images), 1) * (1 + images.flatten(1).sum(1, keepdim=True))

    with pytest.raises(ModelError, match="none of 20 images right"):
        diagnosed(Wrong(), n=20)


def test_few_images_are_said_to_be_few(networks):
    found = diagnosed(networks["standard"], n=20)
    assert any("20 images are few" in words for words in found.unchecked)
    assert any(words.startswith("transfer: no source network was given.") for words in found.unchecked)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "front", "verdict"),
    [
        ("gat", None, Verdict.SOUND),
        ("trades", None, Verdict.SOUND),
        ("standard", None, Verdict.SOUND),
        ("collapsed", None, Verdict.MASKED),
        ("standard", rounded, Verdict.MASKED),
        ("gat", decided, Verdict.MASKED),
        ("gat", noisy_images, Verdict.SUSPICIOUS),
        ("standard", noisy_logits, Verdict.SUSPICIOUS),
        ("gat", inflated, Verdict.SUSPICIOUS),
        ("gat", squashed, Verdict.SUSPICIOUS),
        ("standard", squashed, Verdict.MASKED),
    ],
)
def test_the_whole_diagnosis_says_the_same(networks, name, front, verdict):
    model = networks[name] if front is None else front(networks[name])
    found = diagnosed(model, "0.4" if name == "collapsed" else "0.2", 450, quick=False)
    assert found.verdict is verdict
