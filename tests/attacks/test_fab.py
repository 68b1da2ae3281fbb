"""FAB against the closed form of linear networks and against a plain writing of it, one image at a time."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gamagat.attacks.combine import entries, restarts
from gamagat.attacks.core import ATTACKS, Attack
from gamagat.attacks.network import Network
from gamagat.attacks.outcome import Outcome
from gamagat.errors import ConfigError
from gamagat.pieces.noise import Noise
from gamagat.pieces.threat import L2, LINF, ThreatModel
from helpers import images_like, seeded, tiny_network

THREATS = [ThreatModel(LINF, 0.02), ThreatModel(L2, 0.2)]
by_norm = pytest.mark.parametrize("threat", THREATS, ids=lambda threat: threat.norm.name)
by_name = pytest.mark.parametrize("name", ["fab", "fab-t"])


def entries_of(name: str, times: int = 1, **options: Any) -> list[Attack]:
    """The single runs of the attack: tries, and targets if it has targets."""
    return [run for _, run in entries(name, restarts(ATTACKS.make(name, **options), times))]


def attacked(
    name: str, model: Any, x: Tensor, y: Tensor, threat: ThreatModel, run: int = 0, **options: Any
) -> Outcome:
    """One run of the attack."""
    return entries_of(name, **options)[run](
        model, x, y, threat, Noise.for_images(torch.arange(len(x)), seed=4)
    )


class TwoClasses(nn.Module):
    """A plane between two classes, so near to images of middle grey that no pixel meets its end."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(48, generator=torch.Generator().manual_seed(0)))

    def forward(self, images: Tensor) -> Tensor:
        lead = (images - 0.5).flatten(1) @ self.weight
        return torch.stack([lead, -lead], 1)


@by_norm
@by_name
def test_the_distance_to_a_plane_is_the_closed_form(name, threat):
    model = TwoClasses()
    x = 0.5 + 0.1 * (images_like(9)[..., :4, :4] - 0.5)
    y = model(x).argmax(1)
    outcome = attacked(name, model, x, y, threat)
    margin = (model(x)[:, 0] - model(x)[:, 1]).abs()
    across = 2 * model.weight
    best = margin / (across.abs().sum() if threat.norm is LINF else across.norm())
    found = threat.distance(outcome.images, x)
    assert (model(outcome.images).argmax(1) != y).all()
    assert (found >= 0.9999 * best).all()
    assert (found <= 1.01 * best).all()


@by_norm
@by_name
def test_a_constant_network_is_never_fooled(name, threat):
    weight = nn.Parameter(torch.tensor([0.0, 2.0, 1.0]))
    x, y = images_like(3), torch.ones(3, dtype=torch.int64)
    for run in (0, -1):  # of the two tries, the first begins at the image and the last elsewhere
        outcome = attacked(
            name, lambda x: weight + 0 * x.mean((1, 2, 3))[:, None], x, y, threat, run, times=2
        )
        assert (outcome.step == -1).all()
        assert threat.contains(outcome.images, x).all()


@by_norm
@by_name
def test_more_steps_never_end_further_away(name, threat, small_model, batch):
    x, y = batch
    outcomes = [attacked(name, small_model, x, y, threat, steps=steps) for steps in range(1, 13)]
    fooled = torch.stack([small_model(o.images).argmax(1) != y for o in outcomes])
    sizes = torch.stack([threat.distance(o.images, x) for o in outcomes])
    sizes = torch.where(fooled, sizes, float("inf"))
    assert (sizes[1:] <= sizes[:-1]).all()
    assert (sizes[-1] < sizes[0]).any()
    assert sizes[-1].isfinite().all()


@by_norm
@by_name
def test_a_smaller_threat_model_changes_nothing_but_when_it_counts(name, threat, small_model, batch):
    x, y = batch
    tiny = ThreatModel(threat.norm, threat.eps / 1e3)
    near, far = (attacked(name, small_model, x, y, limit, steps=20) for limit in (threat, tiny))
    assert torch.equal(near.images, far.images)
    assert (far.step == -1).all()
    assert torch.equal(near.step >= 0, threat.contains(near.images, x))
    assert (near.step >= 0).any()


@by_norm
@by_name
def test_an_image_may_stop_where_it_is_first_inside(name, threat, small_model, batch):
    x, y = batch
    whole = attacked(name, small_model, x, y, threat, steps=20)
    short = attacked(name, small_model, x, y, threat, steps=20, stop=True)
    fell = short.step >= 0
    assert fell.any()
    assert torch.equal(short.step, whole.step)
    assert threat.contains(short.images, x).all()
    assert (short.forwards <= whole.forwards).all()
    assert (short.forwards < whole.forwards)[fell].all()


@by_name
def test_what_it_costs(name, small_model, batch):
    x, y = batch
    outcome = attacked(name, small_model, x, y, THREATS[0], steps=7)
    aiming = 1 if name == "fab-t" else 0
    assert set(outcome.forwards.tolist()) == {1 + 2 * 7 + aiming}
    assert set(outcome.backwards.tolist()) == {7 if aiming else 7 * 4}


@by_name
def test_a_misclassified_image_is_its_own_answer(name, small_model, batch):
    x, y = batch
    wrong = torch.where(torch.arange(12) % 3 == 0, (y + 1) % 5, y)
    outcome = attacked(name, Network(small_model, 5), x, wrong, THREATS[0], run=-1, times=2, steps=5)
    assert torch.equal(outcome.images[::3], x[::3])
    assert (outcome.step[::3] == 0).all()
    assert (outcome.backwards[::3] == 0).all()
    assert (outcome.backwards[1::3] > 0).all()


@by_name
def test_only_the_first_try_begins_at_the_image(name, small_model, batch):
    x, y = batch
    first, again = entries_of(name, times=3)[0], entries_of(name, times=3)[-1]
    noises = [Noise.for_images(torch.arange(12), seed) for seed in (1, 2)]
    for attack, same in ((first, True), (again, False)):
        one, two = (attack(small_model, x, y, THREATS[1], noise).images for noise in noises)
        assert torch.equal(one, two) == same


def test_what_lies_outside_is_no_answer_for_one_that_stops_inside(small_model, batch):
    x, y = batch
    threat = ThreatModel(LINF, 1e-4)
    free, bound = (attacked("fab", small_model, x, y, threat, stop=stop).images for stop in (False, True))
    assert not threat.contains(free, x).all()
    assert threat.contains(bound, x).all()


class Coarse(nn.Module):
    """Logits in steps of 1/32, as low precision has them: near a boundary the classes are level."""

    def forward(self, logits: Tensor) -> Tensor:
        return logits + ((32 * logits).round() / 32 - logits).detach()


@by_norm
def test_a_tie_does_not_hold_it_up(threat):
    model = nn.Sequential(seeded(lambda: tiny_network(2)), Coarse())
    with torch.no_grad():
        model[0][3].weight *= 20
    x = images_like(12)
    y = model(x).argmax(1)
    outcome = attacked("fab", model, x, y, threat, steps=30)
    assert (model(outcome.images).argmax(1) != y).all()


@pytest.mark.parametrize("option", [{"steps": 0}, {"eta": 0.9}, {"beta": 1.5}, {"alpha_max": -0.1}])
@by_name
def test_impossible_options_are_refused(name, option):
    with pytest.raises(ConfigError, match=next(iter(option))):
        ATTACKS.make(name, **option)


def project(x: Tensor, w: Tensor, gap: float, linf: bool) -> Tensor:
    """The way from x to where w.d = gap, by bisection of its length."""
    if gap < 0:
        w, gap = -w, -gap
    room = torch.where(w > 0, 1 - x, x)
    speed = torch.ones_like(w) if linf else w.abs() / w.norm()

    def way(length: float) -> Tensor:
        return w.sign() * torch.minimum(length * speed, room)

    low, high = 0.0, 1e6
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if float((w * way(middle)).sum()) < gap else (low, middle)
    return way(high)


def fab(model: nn.Module, x: Tensor, y: int, linf: bool, target: int | None, steps: int) -> Tensor:
    """The algorithm for one image: the nearest adversarial image."""

    def size(d: Tensor) -> float:
        return float(d.abs().max() if linf else d.norm())

    point, best = x, None
    for _ in range(steps):
        tangent = point.clone().requires_grad_()
        logits = model(tangent[None])[0]
        rivals = [k for k in range(len(logits)) if k != y] if target is None else [target]
        planes = []
        for k in rivals:
            ahead = logits[k] - logits[y]
            (w,) = torch.autograd.grad(ahead, tangent, retain_graph=True)
            lead = float(ahead.detach())
            planes.append((abs(lead) / float(w.abs().sum() if linf else w.norm()), lead, w))
        _, lead, w = min(planes, key=lambda plane: plane[0])
        d1 = project(point, w, -lead, linf)
        d2 = project(x, w, -lead - float((w * (x - point)).sum()), linf)
        alpha = min(size(d1) / (size(d1) + size(d2)), 0.1)
        point = ((1 - alpha) * (point + 1.05 * d1) + alpha * (x + 1.05 * d2)).clamp(0, 1)
        if int(model(point[None]).argmax()) != y:
            if best is None or size(point - x) < size(best - x):
                best = point
            point = x + 0.9 * (point - x)
    assert best is not None
    return best


@by_norm
@pytest.mark.parametrize(("name", "run"), [("fab", 0), ("fab-t", 0), ("fab-t", 2)])
def test_the_attack_is_what_its_rewrite_says(name, run, threat):
    model, x = seeded(lambda: tiny_network(6)).double(), images_like(4).double()
    logits = model(x)
    y = logits.argmax(1)
    ours = attacked(name, model, x, y, threat, run, steps=25)
    for place in range(len(x)):
        target = int(logits[place].argsort(descending=True)[run + 1]) if name == "fab-t" else None
        theirs = fab(model, x[place], int(y[place]), threat.norm is LINF, target, 25)
        assert (ours.images[place] - theirs).abs().max() < 1e-6
