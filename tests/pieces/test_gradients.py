"""Gradient oracles against autograd."""

import pytest
import torch
from torch import nn

from gamagat.errors import ConfigError, ModelError
from gamagat.pieces.gradients import Objective, averaged, backprop, spsa
from gamagat.pieces.losses import View, cross_entropy, logit_margin
from gamagat.pieces.noise import Noise


@pytest.fixture
def case(small_model, batch):
    x, y = batch
    x, model = x.double(), small_model.double()

    def view(logits):
        return View(logits, y, lambda schedule: torch.zeros(len(y)))

    objective = Objective(lambda z: logit_margin.value(view(z)), lambda z: logit_margin.slope(view(z)))
    pixels = x.clone().requires_grad_()
    (true,) = torch.autograd.grad(objective.value(model(pixels)).sum(), pixels)
    return model, x, objective, true


def cosine(first, second):
    return nn.functional.cosine_similarity(first.flatten(1), second.flatten(1))


def noise_of(x):
    return Noise.for_images(torch.arange(len(x)), 1)


def test_backprop_is_the_gradient(case):
    model, x, objective, true = case
    logits, grad = backprop.read(model, x, objective, noise_of(x))
    assert torch.allclose(logits, model(x))
    assert torch.allclose(cosine(grad, true), torch.ones(12).double(), atol=1e-9)


def test_spsa_approaches_the_gradient_as_samples_grow(case):
    model, x, objective, true = case
    near = [
        cosine(spsa(samples, 1e-4).read(model, x, objective, noise_of(x)).grad, true).mean().item()
        for samples in (8, 64, 512, 4096)
    ]
    # The estimate is the gradient plus noise of sqrt(pixels / samples) times its length.
    expected = [(1 + 192 / samples) ** -0.5 for samples in (8, 64, 512, 4096)]
    assert near == pytest.approx(expected, abs=0.06)
    assert near == sorted(near)
    assert near[-1] > 0.97


def test_spsa_has_the_size_of_the_gradient(case):
    model, x, objective, true = case
    grad = spsa(4096, 1e-4).read(model, x, objective, noise_of(x)).grad
    along = (grad * true).flatten(1).sum(1) / true.square().flatten(1).sum(1)
    assert torch.allclose(along, torch.ones(12).double(), atol=0.1)


def test_spsa_draws_for_each_image_by_itself(case):
    model, x, objective, _ = case
    oracle, noise = spsa(4, 1e-3), noise_of(x)
    whole = oracle.read(model, x, objective, noise).grad
    again = oracle.read(model, x, objective, noise).grad
    other = oracle.read(model, x, objective, noise.fold(1)).grad
    assert torch.equal(whole, again)
    assert not torch.allclose(whole, other)


def test_averaging_a_steady_network_changes_nothing(case):
    model, x, objective, true = case
    logits, grad = averaged(4).read(model, x, objective, noise_of(x))
    assert torch.allclose(logits, model(x))
    assert torch.allclose(cosine(grad, true), torch.ones(12).double(), atol=1e-9)


def test_averaging_weighs_looks_by_their_true_size(case):
    model, x, objective, _ = case
    factors = [0.01, 5.0, 1.0]
    weights = iter(factors * 2)

    class Restless(nn.Module):
        def forward(self, images):
            factor = next(weights)
            return factor * model(images * factor)

    slopes = View(torch.zeros(12, 5).double(), model(x).argmax(1), lambda schedule: torch.zeros(12))

    def value(logits):
        return nn.functional.cross_entropy(logits, slopes.labels, reduction="none")

    objective = Objective(value, lambda z: cross_entropy.slope(slopes._replace(logits=z)))
    network, pixels = Restless(), x.clone().requires_grad_()
    (true,) = torch.autograd.grad(sum(value(network(pixels)).sum() for _ in factors), pixels)
    grad = averaged(3).read(network, x, objective, noise_of(x)).grad
    assert torch.allclose(cosine(grad, true), torch.ones(12).double(), atol=1e-9)


def test_what_cannot_be_read_is_refused(case):
    model, x, objective, _ = case
    with pytest.raises(ModelError, match="cuts the gradient"):
        backprop.read(lambda images: model(images).detach(), x, objective, noise_of(x))
    with pytest.raises(ConfigError, match="at least one look"):
        averaged(0)
    with pytest.raises(ConfigError, match="samples=0"):
        spsa(0, 0.01)
