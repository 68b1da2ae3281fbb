"""The guided attacks against a second, plain writing of the published scripts' arithmetic."""

import pytest
import torch
from torch import Tensor, nn

from gamagat.attacks.combine import entries, standing
from gamagat.attacks.core import ATTACKS
from gamagat.errors import ConfigError
from gamagat.pieces.noise import Noise
from gamagat.pieces.threat import LINF, ThreatModel
from helpers import images_like, seeded, tiny_network

EPS = 0.1
THREAT = ThreatModel(LINF, EPS)
SETTINGS = {
    None: {"weight": 50.0, "fade": 25, "drops": (60, 85), "rate": 2 * EPS},
    "mnist": {"weight": 5.0, "fade": 50, "drops": (50, 75), "rate": EPS},
}


@pytest.fixture(scope="module")
def double_model() -> nn.Module:
    return seeded(lambda: tiny_network(10)).double()


@pytest.fixture(scope="module")
def doubles(double_model: nn.Module) -> tuple[Tensor, Tensor, Noise]:
    """Images, the labels the network gives them, and noise."""
    x = images_like(10).double()
    with torch.no_grad():
        return x, double_model(x).argmax(1), Noise.for_images(torch.arange(10), seed=4)


def published_loss(model: nn.Module, image: Tensor, x0: Tensor, y: Tensor, weight: float) -> Tensor:
    """Mean over the batch of max_{j != y} p_j - p_y + weight * ||p - p_0||^2."""
    probs, reference = torch.softmax(model(image), 1), torch.softmax(model(x0), 1)
    rows = torch.arange(len(y))
    shifted = probs.clone()
    shifted[rows, y] -= 1000.0
    rival = shifted.argmax(1)
    return (probs[rows, rival] - probs[rows, y]).mean() + weight * ((probs - reference) ** 2).sum(1).mean()


def gradient(model: nn.Module, image: Tensor, x0: Tensor, y: Tensor, weight: float) -> Tensor:
    image = image.clone().requires_grad_()
    return torch.autograd.grad(published_loss(model, image, x0, y, weight), image)[0]


def published_pgd(model: nn.Module, x: Tensor, y: Tensor, start: Tensor, settings: dict) -> Tensor:
    """GAMA-PGD, line by line: drop the rate, climb, clip to the pixels, clip to the ball."""
    delta, rate = start.clone(), settings["rate"]
    for t in range(100):
        weight = settings["weight"] * (1 - t / settings["fade"]) if t <= settings["fade"] else 0.0
        if t in settings["drops"]:
            rate = rate / 10
        image = x + delta
        image = image + rate * gradient(model, image, x + start, y, weight).sign()
        delta = (image.clamp(0, 1) - x).clamp(-EPS, EPS)
    return x + delta


def published_fw(model: nn.Module, x: Tensor, y: Tensor, start: Tensor, settings: dict) -> Tensor:
    """GAMA-FW, line by line: drop gamma, mix with the vertex, clip to the pixels, clip to the ball."""
    delta, gamma = start.clone(), 0.5
    for t in range(100):
        weight = settings["weight"] * (1 - t / settings["fade"]) if t < settings["fade"] else 0.0
        if t in settings["drops"]:
            gamma = gamma / 5
        vertex = EPS * gradient(model, x + delta, x + start, y, weight).sign()
        delta = (1 - gamma) * delta + gamma * vertex
        delta = ((x + delta).clamp(0, 1) - x).clamp(-EPS, EPS)
    return x + delta


@pytest.mark.parametrize("preset", SETTINGS)
@pytest.mark.parametrize(("name", "rewrite"), [("gama-pgd", published_pgd), ("gama-fw", published_fw)])
def test_as_published_equals_the_straight_line_rewrite(name, rewrite, preset, double_model, doubles):
    x, y, noise = doubles
    start = EPS * noise.signs(x)
    assert ((x + start < 0) | (x + start > 1)).any()  # the published start is not clipped
    ours = ATTACKS.make(name, preset, as_published=True)(double_model, x, y, THREAT, noise)
    theirs = rewrite(double_model, x, y, start, SETTINGS[preset])
    assert (ours.images - theirs).abs().max() < 1e-6
    assert (ours.forwards == 101).all()
    assert (ours.backwards == 100).all()


@pytest.mark.parametrize("name", ["gama-pgd", "gama-fw"])
def test_the_exact_slope_walks_the_published_path_where_nothing_saturates(name, double_model, doubles):
    x, y, noise = doubles
    published = ATTACKS.make(name, as_published=True)
    exact = ATTACKS.make(name)
    exact = type(exact)(published.start, exact.loss, exact.rule, exact.steps, published.guide, stop=False)
    ours, theirs = (attack(double_model, x, y, THREAT, noise).images for attack in (exact, published))
    assert (ours - theirs).abs().max() < 1e-6


@pytest.mark.parametrize("options", [{}, {"guide": "start"}, {"as_published": True}])
def test_guided_by_the_noisy_start_the_first_step_is_fgsm_on_the_margin(options, double_model, doubles):
    x, y, noise = doubles
    first = ATTACKS.make("gama-pgd", steps=1, fade=25, drops=(), **options)
    plain = ATTACKS.make("gama-pgd", steps=1, fade=25, drops=(), weight=0.0, **options)
    assert torch.equal(*(attack(double_model, x, y, THREAT, noise).images for attack in (first, plain)))


@pytest.mark.parametrize("name", ["gama-pgd-10", "gama-fw-10"])
def test_the_forms_for_ten_steps_are_guided_by_the_noisy_start(name, double_model, doubles):
    x, y, noise = doubles
    first, plain = (ATTACKS.make(name, steps=1, weight=weight) for weight in (50.0, 0.0))
    assert torch.equal(*(attack(double_model, x, y, THREAT, noise).images for attack in (first, plain)))


def test_guided_by_the_clean_image_the_first_step_is_not(double_model, doubles):
    x, y, noise = doubles
    first, plain = (
        ATTACKS.make("gama-pgd", steps=1, fade=25, drops=(), weight=weight, guide="clean")
        for weight in (50.0, 0.0)
    )
    assert not torch.equal(*(attack(double_model, x, y, THREAT, noise).images for attack in (first, plain)))


@pytest.mark.parametrize("name", ["gama-pgd", "gama-fw", "gama-mt", "ga-ce"])
def test_the_published_attack_cannot_be_guided_by_the_clean_image(name):
    with pytest.raises(ConfigError, match="leave out one of as_published=true and guide=clean"):
        ATTACKS.make(name, as_published=True, guide="clean")


def test_an_image_that_falls_leaves_with_the_iterate_that_fooled(double_model, doubles):
    x, y, noise = doubles
    outcome = ATTACKS.make("gama-pgd")(double_model, x, y, THREAT, noise)
    fell = outcome.step >= 0
    assert fell.any()
    assert torch.equal(outcome.backwards[fell], outcome.step[fell] + 1)
    assert not standing(double_model, outcome.images[fell], y[fell]).any()


def test_gama_mt_tries_the_five_likeliest_classes(double_model, doubles):
    names = [name for name, _ in entries("gama-mt", ATTACKS.make("gama-mt"))]
    assert names == [f"gama-mt@{rank}" for rank in range(1, 6)]


@pytest.mark.parametrize("name", ["gama-pgd", "gama-fw", "gama-mt", "ga-ce", "gama-adam", "pgd"])
@pytest.mark.parametrize("scale", [1.0, 50.0, 1000.0])
def test_inflated_logits_do_not_protect(name, scale, small_model, batch):
    x, y = batch
    wide = ThreatModel(LINF, 0.3)
    outcome = ATTACKS.make(name)(lambda images: scale * small_model(images), x, y, wide, noise_of(x))
    assert not standing(small_model, outcome.images, y).any()


def test_as_published_inflated_logits_do_protect(small_model, batch):
    """The trap that the exact slope removes: the published gradient is zero, and sign(0) moves nothing."""
    x, y = batch
    attack = ATTACKS.make("gama-pgd", steps=20, as_published=True)
    narrow = ThreatModel(LINF, 0.05)
    plain, inflated = (
        standing(small_model, attack(lambda z, s=s: s * small_model(z), x, y, narrow, noise_of(x)).images, y)
        for s in (1.0, 2000.0)
    )
    assert inflated.sum() > plain.sum()


def noise_of(x: Tensor) -> Noise:
    return Noise.for_images(torch.arange(len(x)))
