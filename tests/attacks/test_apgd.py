"""Auto-PGD against a plain writing of it, one image at a time."""

from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gamagat.attacks.combine import entries
from gamagat.attacks.core import ATTACKS
from gamagat.pieces.auto_step import checkpoints
from gamagat.pieces.losses import View, dlr, dlr_targeted
from gamagat.pieces.noise import Noise
from gamagat.pieces.threat import L2, LINF, ThreatModel
from helpers import images_like, seeded, tiny_network


def test_the_checkpoints_of_a_hundred_steps():
    assert list(checkpoints(100)) == [22, 41, 57, 70, 80, 87, 93, 99]
    assert checkpoints(100)[22] == 22
    assert checkpoints(100)[57] == 16


@pytest.mark.parametrize("steps", [1, 2, 5, 10, 1000])
def test_checkpoints_lie_within_any_run(steps):
    found = list(checkpoints(steps))
    assert all(0 < step < steps for step in found)
    assert found == sorted(set(found))


def view_of(logits: Tensor, y: Tensor, target: Tensor | None = None) -> View:
    return View(logits, y, lambda schedule: torch.zeros(len(y)), target)


@pytest.mark.parametrize(("loss", "aimed"), [(dlr, False), (dlr_targeted, True)])
def test_dlr_does_not_see_the_scale_or_the_shift_of_the_logits(loss, aimed):
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(50, 7, generator=generator, dtype=torch.float64)
    y = torch.randint(7, (50,), generator=generator)
    target = (y + 2) % 7 if aimed else None
    changed = loss.value(view_of(30 * logits - 5, y, target))
    assert torch.allclose(loss.value(view_of(logits, y, target)), changed)


def test_dlr_of_a_correct_image_lies_between_minus_one_and_zero():
    logits = torch.randn(200, 6, generator=torch.Generator().manual_seed(1))
    value = dlr.value(view_of(logits, logits.argmax(1)))
    assert ((value >= -1) & (value <= 0)).all()


@pytest.mark.parametrize(("classes", "plain"), [(2, True), (3, False), (4, False)])
def test_dlr_with_few_classes_is_what_it_can_be(classes, plain):
    logits = torch.randn(9, classes, generator=torch.Generator().manual_seed(2))
    y = logits.argmax(1)
    margin = (logits.topk(2).values * torch.tensor([-1.0, 1.0])).sum(1)
    for loss in (dlr, dlr_targeted):
        value = loss.value(view_of(logits, y, None if loss is dlr else logits.topk(2).indices[:, 1]))
        assert torch.allclose(value, margin) == plain
        assert loss.slope(view_of(logits, y, None)).direction.isfinite().all()


def loss_and_gradient(
    model: nn.Module, image: Tensor, y: int, kind: str, target: int | None
) -> tuple[float, Tensor]:
    image = image.clone().requires_grad_()
    z = model(image[None])[0]
    order = z.sort(descending=True).values
    others = torch.cat([z[:y], z[y + 1 :]])
    if kind == "ce":
        loss = F.cross_entropy(z[None], torch.tensor([y]))
    elif target is None:
        loss = -(z[y] - others.max()) / (order[0] - order[2] + 1e-12)
    else:
        loss = -(z[y] - z[target]) / (order[0] - (order[2] + order[3]) / 2 + 1e-12)
    return float(loss.detach()), torch.autograd.grad(loss, image)[0]


def apgd(
    model: nn.Module, x: Tensor, y: int, start: Tensor, threat: ThreatModel, kind: str, target: int | None
) -> Tensor:
    """The algorithm for one image and a hundred steps; the last iterate."""

    def project(image: Tensor) -> Tensor:
        delta = image - x
        if threat.norm is LINF:
            delta = delta.clamp(-threat.eps, threat.eps)
        elif delta.norm() > threat.eps:
            delta = delta * threat.eps / delta.norm()
        return (x + delta).clamp(0, 1)

    def direction(grad: Tensor) -> Tensor:
        return grad.sign() if threat.norm is LINF else grad / grad.norm()

    eta, image, before = 2 * threat.eps, start, start
    losses: list[float] = []
    best, best_image, best_grad = -float("inf"), start, torch.zeros_like(x)
    check, window, halved, best_before = 22, 22, True, None
    for step in range(100):
        loss, grad = loss_and_gradient(model, image, y, kind, target)
        losses.append(loss)
        if loss > best:
            best, best_image, best_grad = loss, image, grad
        if step == 0:
            best_before = best
        if step == check:
            recent = losses[step - window :]
            rises = sum(b > a for a, b in pairwise(recent))
            reduce = rises <= 0.75 * window or (not halved and best <= best_before)
            if reduce:
                eta, image, grad = eta / 2, best_image, best_grad
            halved, best_before = reduce, best
            window = max(window - 3, 6)
            check += window
        a = 0.75 if step else 1.0
        aim = project(image + eta * direction(grad))
        image, before = project(image + a * (aim - image) + (1 - a) * (image - before)), image
    return image


@pytest.fixture(scope="module")
def problem() -> tuple[nn.Module, Tensor, Tensor]:
    """One class wins by so much that no image falls, and a bend in the network lets steps stop paying."""
    model, x = seeded(lambda: tiny_network(8)).double(), images_like(4).double()
    with torch.no_grad():
        model[3].bias[2] += 4.0
        return model, x, model(x).argmax(1)


@pytest.mark.parametrize("threat", [ThreatModel(LINF, 0.1), ThreatModel(L2, 0.8)], ids=["linf", "l2"])
@pytest.mark.parametrize(
    ("name", "kind", "run"), [("apgd-ce", "ce", 0), ("apgd-dlr", "dlr", 0), ("apgd-t", "dlr", 2)]
)
def test_the_attack_is_what_its_rewrite_says(name, kind, run, threat, problem):
    model, x, y = problem
    noise = Noise.for_images(torch.arange(len(x)), seed=3)
    _, attack = list(entries(name, ATTACKS.make(name)))[run]
    ours = attack(model, x, y, threat, noise)
    assert (ours.step == -1).all()
    drawn = threat.norm.anywhere(x, noise.fold(run + 1) if name == "apgd-t" else noise)
    for place in range(len(x)):
        target = int(model(x)[place].argsort(descending=True)[run + 1]) if name == "apgd-t" else None
        point = threat.eps * drawn[place] / threat.norm.size(drawn)[place]
        start = (x[place] + point).clamp(0, 1)
        theirs = apgd(model, x[place], int(y[place]), start, threat, kind, target)
        assert (ours.images[place] - theirs).abs().max() < 1e-6
