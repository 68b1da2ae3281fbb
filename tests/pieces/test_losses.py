"""Slopes against float64 autograd where that is right, and against long arithmetic where it is not."""

import mpmath
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from gamagat.errors import ConfigError
from gamagat.pieces.losses import (
    View,
    by_autograd,
    cross_entropy,
    divergence,
    guided,
    log_odds,
    logit_margin,
    probability_margin,
    target_likelihood,
)
from gamagat.pieces.schedules import constant

LOSSES = {
    "cross_entropy": cross_entropy,
    "log_odds": log_odds,
    "logit_margin": logit_margin,
    "probability_margin": probability_margin,
    "guided margin": guided(probability_margin, constant(50.0)),
    "guided cross_entropy": guided(cross_entropy, constant(5.0)),
    "guided logit_margin": guided(logit_margin, constant(5.0)),
    "divergence": divergence,
}


def view_of(logits: Tensor, labels: Tensor, **more: Tensor) -> View:
    return View(logits, labels, lambda schedule: torch.full_like(logits[:, 0], schedule(0)), **more)


def random_view(dtype: torch.dtype, gap: float = 0.0, seed: int = 0) -> View:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(6, 10, generator=generator, dtype=torch.float64)
    labels = torch.randint(10, (6,), generator=generator)
    logits[torch.arange(6), labels] += gap
    reference = logits + torch.randn(6, 10, generator=generator, dtype=torch.float64)
    return view_of(logits.to(dtype), labels, reference=reference.to(dtype))


def cosine(a: Tensor, b: Tensor) -> Tensor:
    return torch.nn.functional.cosine_similarity(a.double(), b.double(), dim=1)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("gap", [-6.0, 0.0, 7.0])
@pytest.mark.parametrize("aimed", [False, True])
def test_the_slope_is_the_gradient(name, gap, aimed):
    view = random_view(torch.float64, gap)
    if aimed:
        view = view._replace(target=(view.labels + 3) % 10)
    exact, auto = LOSSES[name].slope(view), by_autograd(LOSSES[name]).slope(view)
    assert torch.allclose(
        exact.direction * exact.log_size.exp()[:, None], auto.direction, rtol=1e-9, atol=1e-12
    )


def test_the_slope_towards_a_target_is_the_gradient():
    view = random_view(torch.float64)._replace(target=torch.tensor([1, 2, 3, 4, 5, 6]))
    exact, auto = target_likelihood.slope(view), by_autograd(target_likelihood).slope(view)
    assert torch.allclose(exact.direction, auto.direction)


def long_gradient(logits: list[float], label: int, reference: list[float], weight: float) -> list[float]:
    """The gradient of margin + weight * drift by its definition, in 300 digits, largest entry at one."""
    with mpmath.workdps(300):
        probs, then = ([mpmath.exp(z) / sum(map(mpmath.exp, zs)) for z in zs] for zs in (logits, reference))
        best = max((k for k in range(10) if k != label), key=lambda k: logits[k])
        lead = [
            2 * weight * (p - r) + (k == best) - (k == label)
            for k, (p, r) in enumerate(zip(probs, then, strict=True))
        ]
        mean = sum(p * v for p, v in zip(probs, lead, strict=True))
        gradient = [p * (v - mean) for p, v in zip(probs, lead, strict=True)]
        largest = max(map(abs, gradient))
        return [float(entry / largest) for entry in gradient]


@pytest.mark.parametrize("weight", [0.0, 5.0, 50.0])
@pytest.mark.parametrize("gap", [-3.0, 8.0, 17.0, 30.0, 60.0, 100.0, 110.0])
def test_the_guided_margin_keeps_its_direction_at_any_gap_in_single_precision(weight, gap):
    view = random_view(torch.float32, gap)
    slope = guided(probability_margin, constant(weight)).slope(view).rescaled()
    exact = [
        long_gradient(logits, label, reference, weight)
        for logits, label, reference in zip(
            view.logits.double().tolist(), view.labels.tolist(), view.reference.double().tolist(), strict=True
        )
    ]
    assert (cosine(slope, torch.tensor(exact)) > 0.999999).all()
    assert torch.allclose(slope.abs().amax(1), torch.ones(6))


def test_autograd_through_the_softmax_loses_the_true_class_where_the_exact_slope_does_not():
    view = random_view(torch.float32, gap=40.0)
    exact, auto = (
        probability_margin.slope(view).rescaled(),
        by_autograd(probability_margin).slope(view).rescaled(),
    )
    assert (cosine(exact, auto) < 0.6).all()
    assert (exact.gather(1, view.labels[:, None]) == -1).all()


@pytest.mark.parametrize("name", LOSSES)
def test_slopes_stay_finite_when_an_image_is_long_lost(name):
    slope = LOSSES[name].slope(random_view(torch.float32, gap=-200.0))
    assert slope.rescaled().isfinite().all()


def test_the_margin_lies_between_minus_one_and_one_and_the_drift_between_zero_and_two():
    view = random_view(torch.float64, gap=1.0)
    margin, both = probability_margin.value(view), LOSSES["guided margin"].value(view)
    assert ((margin >= -1) & (margin <= 1)).all()
    assert (((both - margin) / 50 >= 0) & ((both - margin) / 50 <= 2)).all()


def test_without_a_difference_from_the_reference_the_guided_slope_is_the_plain_one():
    view = random_view(torch.float64)
    view = view._replace(reference=view.logits)
    assert torch.allclose(
        LOSSES["guided margin"].slope(view).direction, probability_margin.slope(view).direction
    )


@pytest.mark.parametrize("gap", [-6.0, 0.0, 5.0])
def test_a_guide_that_weighs_nothing_changes_no_bit_whoever_is_beside(gap):
    view, plain = random_view(torch.float32, gap), probability_margin
    weights = torch.tensor([0.0, 5.0, 0.0, 0.0, 50.0, 0.0])
    mixed = guided(plain, constant(1.0)).slope(view._replace(at=lambda _: weights))
    alone = guided(plain, constant(0.0)).slope(view._replace(reference=None))  # nor is it asked then
    idle = weights == 0
    assert torch.equal(alone.direction, plain.slope(view).direction)
    assert torch.equal(mixed.direction[idle], alone.direction[idle])
    assert torch.equal(mixed.log_size[idle], alone.log_size[idle])
    assert not torch.equal(mixed.direction[~idle], alone.direction[~idle])


@pytest.mark.parametrize("gap", [-6.0, 0.0, 30.0])
def test_the_divergence_is_that_of_the_probabilities_from_those_of_the_reference(gap):
    view = random_view(torch.float64, gap)
    now, then = view.logits.log_softmax(1), view.reference.softmax(1)
    assert torch.allclose(divergence.value(view), F.kl_div(now, then, reduction="none").sum(1), atol=1e-12)
    assert (divergence.value(view) >= 0).all()
    slope = divergence.slope(view)
    logits = view.logits.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(F.kl_div(logits.log_softmax(1), then, reduction="sum"), logits)
    assert torch.allclose(slope.direction * slope.log_size.exp()[:, None], gradient, rtol=1e-9, atol=1e-12)


def test_at_the_reference_the_divergence_is_flat_and_its_slope_zero():
    view = random_view(torch.float64)
    view = view._replace(reference=view.logits)
    assert (divergence.value(view) == 0).all()
    assert (divergence.slope(view).rescaled() == 0).all()


def test_the_divergence_without_a_reference_says_what_it_needs():
    view = random_view(torch.float64)._replace(reference=None)
    for ask in (divergence.value, divergence.slope):
        with pytest.raises(ConfigError, match="needs a reference"):
            ask(view)
