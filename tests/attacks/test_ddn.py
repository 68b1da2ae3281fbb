"""DDN against the closed form of linear networks and against a plain writing of it, one image at a time."""

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attacks.planes import Linear, grey_images
from gamagat.attacks.combine import restarts
from gamagat.attacks.core import ATTACKS
from gamagat.attacks.network import Network
from gamagat.attacks.outcome import Outcome
from gamagat.engine.judge import judge
from gamagat.errors import ConfigError
from gamagat.pieces.noise import Noise
from gamagat.pieces.threat import L2, ThreatModel
from helpers import images_like, seeded, tiny_network

THREAT = ThreatModel(L2, 0.3)
FAR = (0.02, 12)  # not so near that 100 steps cannot shrink to it


def attacked(
    model: Any,
    x: Tensor,
    y: Tensor,
    target: Tensor | None = None,
    threat: ThreatModel = THREAT,
    **options: Any,
) -> Outcome:
    return ATTACKS.make("ddn", **options)(model, x, y, threat, Noise.for_images(torch.arange(len(x))), target)


@pytest.mark.parametrize(("classes", "scale"), [(2, 1), (2, 100), (6, 30), (6, 3000)])
def test_the_distance_to_a_plane_is_the_closed_form(classes, scale):
    model = Linear(classes, scale)
    x, y, distances = grey_images(model, *FAR)
    outcome = attacked(model, x, y, levels=0)
    ratio = THREAT.distance(outcome.images, x) / distances.amin(1)
    assert (model(outcome.images).argmax(1) != y).all()
    assert (ratio >= 0.9999).all()
    assert ratio.mean() <= 1.01
    assert (
        ratio <= (1.01 if classes == 2 else 1.05)
    ).all()  # the class it sets out for may not be the nearest


@pytest.mark.parametrize("rank", [0, 1])
def test_a_target_is_walked_to(rank):
    model = Linear(6, 30)
    x, y, distances = grey_images(model, *FAR)
    distance, target = (part[:, rank] for part in distances.sort(1))
    outcome = attacked(model, x, y, target, levels=0, steps=300)
    found, prediction = THREAT.distance(outcome.images, x), model(outcome.images).argmax(1)
    there = prediction == target  # on its way it may meet a nearer class
    assert (prediction != y).all()
    assert there.sum() >= 4
    assert (found[there] >= 0.9999 * distance[there]).all()
    assert rank == 1 or (found <= 1.01 * distance).all()


@pytest.mark.parametrize("aimed", [False, True])
def test_a_very_confident_network_still_shows_the_way(aimed):
    soft = seeded(tiny_network)
    with torch.no_grad():
        soft[3].weight *= 100
    x = images_like(12)
    order = soft(x).argsort(1, descending=True)
    y, target = order[:, 0], order[:, 1] if aimed else None
    best, second = (100 * soft(x)).topk(2).values.T
    assert ((best - second) > 104).sum() >= 6  # where single precision has no probability but 1 and 0
    sharp = attacked(lambda images: 100 * soft(images), x, y, target)
    assert (soft(sharp.images).argmax(1) != y).all()
    assert (
        THREAT.distance(sharp.images, x).mean()
        < 1.3
        * THREAT.distance(
            ATTACKS.make("fab")(soft, x, y, THREAT, Noise.for_images(torch.arange(12))).images, x
        ).mean()
    )


def test_a_constant_network_is_never_fooled():
    weight = nn.Parameter(torch.tensor([0.0, 2.0, 1.0]))
    x, y = images_like(3), torch.ones(3, dtype=torch.int64)
    for levels in (0, 256):
        outcome = attacked(lambda x: weight + 0 * x.mean((1, 2, 3))[:, None], x, y, levels=levels)
        assert (outcome.step == -1).all()
        assert THREAT.contains(outcome.images, x).all()


class Blind(nn.Module):
    """A network that shows no gradient for some images."""

    def __init__(self, net: nn.Module, blind: Tensor) -> None:
        super().__init__()
        self.net, self.blind = net, blind

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.net(images)
        blind = self.blind[: len(logits), None]
        return torch.where(blind, logits.detach(), logits)


def test_without_a_gradient_it_goes_anywhere(small_model, batch):
    x, y = batch
    blind = torch.arange(12) % 2 == 0
    seeing, outcome = attacked(small_model, x, y), attacked(Blind(small_model, blind), x, y)
    assert torch.equal(outcome.images[~blind], seeing.images[~blind])
    moved = THREAT.distance(outcome.images, x)
    assert (moved[blind] > 0).all()
    assert (small_model(outcome.images[blind]).argmax(1) != y[blind]).any()
    assert (moved[blind] > THREAT.distance(seeing.images, x)[blind]).all()  # chance is no guide


def test_where_it_goes_without_a_gradient_is_the_image_s_own(small_model, batch):
    x, y = batch
    attack, noise = ATTACKS.make("ddn", steps=12), Noise.for_images(torch.arange(12))
    model = Blind(small_model, torch.ones(12, dtype=torch.bool))
    whole = attack(Network(model, 5), x, y, THREAT, noise).images
    order = torch.arange(11, -1, -1)
    assert torch.equal(attack(model, x[order], y[order], THREAT, noise[order]).images[order], whole)
    assert not torch.equal(attack(model, x, y, THREAT, noise.fold(1)).images, whole)


@pytest.mark.parametrize("levels", [16, 256])
def test_images_have_so_many_grey_levels(levels, small_model):
    x = (images_like(12) * (levels - 1)).round() / (levels - 1)
    y = small_model(x).argmax(1)
    outcome = attacked(small_model, x, y, levels=levels)
    assert (small_model(outcome.images).argmax(1) != y).all()
    assert torch.equal((outcome.images * (levels - 1)).round() / (levels - 1), outcome.images)
    smooth = attacked(small_model, x, y, levels=0)
    assert not torch.equal((smooth.images * (levels - 1)).round() / (levels - 1), smooth.images)


def test_beyond_eps_it_is_robust_and_the_distance_is_kept(small_model, batch):
    x, y = batch
    tiny = ThreatModel(L2, 1e-3)
    near, far = attacked(small_model, x, y), attacked(small_model, x, y, threat=tiny)
    verdict = judge(small_model, far.images, x, y, tiny)
    assert torch.equal(near.images, far.images)
    assert (far.step == -1).all()
    assert not verdict.fooled.any()
    assert (verdict.prediction != y).all()
    assert torch.equal(verdict.distance, THREAT.distance(near.images, x))
    assert torch.equal(near.step >= 0, judge(small_model, near.images, x, y, THREAT).fooled)
    assert 0 < (near.step >= 0).sum() < 12


def test_what_it_costs(small_model, batch):
    x, y = batch
    outcome = attacked(small_model, x, y, steps=40)
    fell = outcome.step >= 0
    assert ((outcome.step[fell] >= 1) & (outcome.step[fell] <= 40)).all()
    assert set(outcome.forwards.tolist()) == {1 + 2 * 40}
    assert set(outcome.backwards.tolist()) == {40}


def test_a_misclassified_image_is_its_own_answer(small_model, batch):
    x, y = batch
    wrong = torch.where(torch.arange(12) % 3 == 0, (y + 1) % 5, y)
    outcome = attacked(Network(small_model, 5), x, wrong, steps=5)
    assert torch.equal(outcome.images[::3], x[::3])
    assert (outcome.step[::3] == 0).all()
    assert (outcome.forwards[::3] == 1).all()
    assert (outcome.backwards[::3] == 0).all()
    assert (outcome.backwards[1::3] == 5).all()


def test_the_judge_has_the_last_word(small_model, batch):
    x, y = batch
    network = Network(small_model, 12, look=lambda model, images: y[: len(images)])
    outcome = attacked(network, x, y, steps=10)
    assert (outcome.step == -1).all()
    assert THREAT.contains(outcome.images, x).all()


def test_only_the_first_try_begins_at_the_image(small_model, batch):
    x, y = batch
    first, again = (attack for _, attack in restarts(ATTACKS.make("ddn", steps=10), 2).members)
    noises = [Noise.for_images(torch.arange(12), seed) for seed in (1, 2)]
    for attack, same in ((first, True), (again, False)):
        one, two = (attack(small_model, x, y, THREAT, noise).images for noise in noises)
        assert torch.equal(one, two) == same


def test_another_try_begins_with_a_perturbation_of_the_first_norm(small_model):
    x = 0.5 + 0.2 * (images_like(12) - 0.5)  # so far from the ends that nothing is clipped
    y, seen = small_model(x).argmax(1), []

    def spy(images: Tensor) -> Tensor:
        seen.append(images.detach().clone())
        return small_model(images)

    again = ATTACKS.make("ddn", steps=3, init_norm=0.7).again()
    outcome = again(spy, x, y, THREAT, Noise.for_images(torch.arange(12)))
    assert torch.equal(seen[0], x)  # whether the image is right is asked of itself
    assert torch.allclose(THREAT.distance(seen[1], x), torch.tensor(0.7).double())
    assert sum(map(len, seen)) == int(outcome.forwards.sum())


def test_tries_together_come_nearer(small_model, batch):
    x, y = batch
    tries = [attack for _, attack in restarts(ATTACKS.make("ddn", steps=30, levels=0), 4).members]
    noise = Noise.for_images(torch.arange(12))
    found = [one(small_model, x, y, THREAT, noise).images for one in tries]
    assert all((small_model(images).argmax(1) != y).all() for images in found)
    sizes = torch.stack([THREAT.distance(images, x) for images in found])
    assert (sizes[1:].amin(0) < sizes[0]).any()


@pytest.mark.parametrize(
    "option",
    [{"steps": 0}, {"init_norm": 0.0}, {"gamma": -0.1}, {"gamma": 1.0}, {"levels": 1}, {"levels": -2}],
)
def test_impossible_options_are_refused(option):
    with pytest.raises(ConfigError, match=next(iter(option))) as refused:
        ATTACKS.make("ddn", **option)
    assert "\n" not in str(refused.value)


def ddn(
    model: nn.Module, x: Tensor, y: int, target: int | None, steps: int, norm: float, levels: int
) -> Tensor:
    """The algorithm for one image: the nearest adversarial image."""
    image, best, adversarial = x, None, False
    for k in range(steps):
        leaf = image.clone().requires_grad_()
        loss = F.cross_entropy(model(leaf[None]), torch.tensor([y if target is None else target]))
        (g,) = torch.autograd.grad(loss if target is None else -loss, leaf)
        alpha = 0.01 + 0.99 * (1 + math.cos(math.pi * k / steps)) / 2
        delta = image - x + alpha * g / g.norm()
        norm = min(norm * (0.95 if adversarial else 1.05), float(torch.maximum(x, 1 - x).norm()))
        image = (x + norm * delta / delta.norm()).clamp(0, 1)
        if levels:
            image = (image * (levels - 1)).round() / (levels - 1)
        adversarial = int(model(image[None]).argmax()) != y
        if adversarial and (best is None or (image - x).norm() < (best - x).norm()):
            best = image
    assert best is not None
    return best


@pytest.mark.parametrize("rank", [None, 1, 3])
@pytest.mark.parametrize(("norm", "levels"), [(1.0, 0), (1.0, 256), (30.0, 0)])
def test_the_attack_is_what_its_rewrite_says(rank, norm, levels):
    model, x = seeded(lambda: tiny_network(6)).double(), images_like(4).double()
    order = model(x).argsort(1, descending=True)
    y, target = order[:, 0], None if rank is None else order[:, rank]
    ours = attacked(Network(model, 3), x, y, target, steps=60, init_norm=norm, levels=levels)
    for place in range(len(x)):
        aim = None if target is None else int(target[place])
        theirs = ddn(model, x[place], int(y[place]), aim, 60, norm, levels)
        assert (ours.images[place] - theirs).abs().max() < 1e-6
