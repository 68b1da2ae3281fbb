"""C&W against the closed form of linear networks and against a plain writing of it, one image at a time."""

from typing import Any

import pytest
import torch
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
FAR = (0.04, 8)  # not so near that the first step of Adam leads past
QUICK = {"steps": 40, "searches": 4, "rate": 0.02, "c": 0.1}


def attacked(
    model: Any,
    x: Tensor,
    y: Tensor,
    target: Tensor | None = None,
    threat: ThreatModel = THREAT,
    **options: Any,
) -> Outcome:
    return ATTACKS.make("cw", **options)(model, x, y, threat, Noise.for_images(torch.arange(len(x))), target)


@pytest.mark.parametrize(("classes", "scale"), [(2, 1), (2, 100), (6, 1), (6, 100)])
def test_the_distance_to_a_plane_is_the_closed_form(classes, scale):
    model = Linear(classes, scale)
    x, y, distances = grey_images(model, *FAR)
    outcome = attacked(model, x, y, steps=200, searches=6, c=0.1 / scale)
    ratio = THREAT.distance(outcome.images, x) / distances.amin(1)
    assert (model(outcome.images).argmax(1) != y).all()
    assert (ratio >= 0.9999).all()
    assert (ratio <= 1.02).all()


def test_its_own_options_come_as_near():
    model = Linear(6, 30)
    x, y, distances = grey_images(model, *FAR)
    outcome = attacked(model, x, y)
    ratio = THREAT.distance(outcome.images, x) / distances.amin(1)
    assert (ratio >= 0.9999).all()
    assert (ratio <= 1.02).all()


@pytest.mark.parametrize("rank", [0, 1])
def test_a_target_is_walked_to(rank):
    model = Linear(6, 1)
    x, y, distances = grey_images(model, *FAR)
    distance, target = (part[:, rank] for part in distances.sort(1))
    outcome = attacked(model, x, y, target, steps=200, searches=6, c=0.1)
    found, prediction = THREAT.distance(outcome.images, x), model(outcome.images).argmax(1)
    there = prediction == target  # on its way it may meet a nearer class
    assert (prediction != y).all()
    assert there.sum() >= 3
    assert (found[there] >= 0.9999 * distance[there]).all()
    assert rank == 1 or (found <= 1.02 * distance).all()


def test_a_very_confident_network_falls_at_the_same_distance(small_model, batch):
    x, y = batch
    soft = attacked(small_model, x, y, steps=40, c=1.0, searches=6, rate=0.03)
    sharp = attacked(lambda images: 100 * small_model(images), x, y, steps=40, c=0.01, searches=6, rate=0.03)
    assert (small_model(sharp.images).argmax(1) != y).all()
    # The hinge is 100 times as large and its weight as small: the same path.
    assert torch.allclose(THREAT.distance(sharp.images, x), THREAT.distance(soft.images, x), rtol=0.02)
    own = attacked(lambda images: 100 * small_model(images), x, y, steps=40, rate=0.03)
    assert (small_model(own.images).argmax(1) != y).all()


@pytest.mark.parametrize("slope", [0.0, 0.1])
def test_a_network_out_of_reach_is_never_fooled(slope):
    weight = nn.Parameter(torch.tensor([0.0, 2.0, 1.0]))
    x, y = images_like(3), torch.ones(3, dtype=torch.int64)
    x[0] = x[0].round()  # all its pixels at the ends of their range

    def model(images: Tensor) -> Tensor:
        return weight * (1 - slope * images.mean((1, 2, 3))[:, None])

    outcome = attacked(model, x, y, steps=10, searches=60)  # the constant grows beyond what a float holds
    assert (outcome.step == -1).all()
    assert THREAT.contains(outcome.images, x).all()


def test_pixels_at_the_ends_of_their_range_can_leave_them(small_model):
    x = images_like(12).round()
    y = small_model(x).argmax(1)
    outcome = attacked(small_model, x, y, steps=60, c=1.0, rate=0.3)
    assert (small_model(outcome.images).argmax(1) != y).all()
    assert ThreatModel(L2, 10.0).contains(outcome.images, x).all()


def test_an_image_counts_from_the_lead_asked_for(small_model, batch):
    x, y = batch
    plain, sure = (attacked(small_model, x, y, kappa=kappa, **QUICK | {"c": 1.0}) for kappa in (0.0, 0.1))
    logits = small_model(sure.images)
    lead = logits.scatter(1, y[:, None], float("-inf")).amax(1) - logits.gather(1, y[:, None]).squeeze(1)
    assert (lead >= 0.1 - 1e-5).all()
    assert (lead < 0.15).all()
    assert (THREAT.distance(sure.images, x) > THREAT.distance(plain.images, x)).all()


def test_beyond_eps_it_is_robust_and_the_distance_is_kept(small_model, batch):
    x, y = batch
    tiny = ThreatModel(L2, 1e-3)
    near, far = attacked(small_model, x, y, **QUICK), attacked(small_model, x, y, threat=tiny, **QUICK)
    verdict = judge(small_model, far.images, x, y, tiny)
    assert torch.equal(near.images, far.images)
    assert (far.step == -1).all()
    assert not verdict.fooled.any()
    assert (verdict.prediction != y).all()
    assert torch.equal(verdict.distance, THREAT.distance(near.images, x))
    assert torch.equal(near.step >= 0, judge(small_model, near.images, x, y, THREAT).fooled)
    assert 0 < (near.step >= 0).sum() < 12


def test_it_gives_up_a_search_that_brings_nothing(small_model, batch):
    x, y = batch
    short, whole = (
        attacked(small_model, x, y, abort=abort, **QUICK | {"steps": 60}) for abort in (True, False)
    )
    assert set(whole.backwards.tolist()) == {4 * 60}
    assert (short.backwards < whole.backwards).all()
    assert (THREAT.distance(short.images, x) / THREAT.distance(whole.images, x)).mean() < 1.05


def test_the_judge_has_the_last_word_and_every_question_counts(small_model, batch):
    x, y, model = batch[0].double(), batch[1], small_model.double()
    seen = []
    honest = attacked(Network(model, 5, seen=seen.append), x, y, **QUICK)
    assert int(honest.forwards.sum()) == sum(seen)
    assert (honest.forwards > 1 + honest.backwards).all()
    assert torch.allclose(honest.images, attacked(model, x, y, **QUICK).images, atol=1e-9)
    deaf = Network(model, 12, look=lambda model, images: torch.full_like(y[: len(images)], 4))
    fours = y == 4
    outcome = attacked(deaf, x[fours], y[fours], **QUICK)
    assert (outcome.step == -1).all()
    assert THREAT.contains(outcome.images, x[fours]).all()


def test_a_misclassified_image_is_its_own_answer(small_model, batch):
    x, y = batch
    wrong = torch.where(torch.arange(12) % 3 == 0, (y + 1) % 5, y)
    outcome = attacked(Network(small_model, 5), x, wrong, **QUICK)
    assert torch.equal(outcome.images[::3], x[::3])
    assert (outcome.step[::3] == 0).all()
    assert (outcome.forwards[::3] == 1).all()
    assert (outcome.backwards[::3] == 0).all()
    assert (outcome.backwards[1::3] > 0).all()


def test_only_the_first_try_begins_at_the_image(small_model, batch):
    x, y = batch
    first, again = (attack for _, attack in restarts(ATTACKS.make("cw", **QUICK), 2).members)
    noises = [Noise.for_images(torch.arange(12), seed) for seed in (1, 2)]
    for attack, same in ((first, True), (again, False)):
        one, two = (attack(small_model, x, y, THREAT, noise).images for noise in noises)
        assert torch.equal(one, two) == same
    assert torch.equal(
        first(small_model, x, y, THREAT, noises[0]).images, attacked(small_model, x, y, **QUICK).images
    )


def test_every_search_of_another_try_begins_at_the_same_place(small_model):
    x = 0.5 + 0.2 * (images_like(12).double() - 0.5)  # so far from the ends that nothing is clipped
    model, seen = small_model.double(), []
    y = model(x).argmax(1)

    def spy(images: Tensor) -> Tensor:
        seen.append(images.detach().clone())
        return model(images)

    options = {"steps": 5, "searches": 2, "abort": False}
    again = ATTACKS.make("cw", **options).again()
    again(spy, x, y, THREAT, Noise.for_images(torch.arange(12)))
    assert len(seen) == 1 + 2 * 5
    assert torch.equal(seen[0], x)  # whether the image is right is asked of itself
    assert torch.allclose(THREAT.distance(seen[1], x), torch.tensor(THREAT.eps / 2).double(), atol=1e-4)
    assert torch.equal(seen[1], seen[6])
    assert not torch.equal(seen[1], seen[5])


def test_pixels_stuck_at_their_ends_are_why_another_try_helps(small_model):
    x = images_like(12).round()
    y = small_model(x).argmax(1)
    first = ATTACKS.make("cw", **QUICK)
    ok = [
        int((small_model(one(small_model, x, y, THREAT, noise).images).argmax(1) != y).sum())
        for one in (first, first.again())
        for noise in [Noise.for_images(torch.arange(12))]
    ]
    assert ok[1] > ok[0]


@pytest.mark.parametrize(
    "option", [{"steps": 0}, {"searches": 0}, {"rate": 0.0}, {"c": -1.0}, {"kappa": -0.1}]
)
def test_impossible_options_are_refused(option):
    with pytest.raises(ConfigError, match=next(iter(option))) as refused:
        ATTACKS.make("cw", **option)
    assert "\n" not in str(refused.value)


def cw(
    model: nn.Module, x: Tensor, y: int, target: int | None, steps: int, searches: int, abort: bool
) -> tuple[Tensor, int]:
    """The algorithm for one image: the nearest adversarial image and the number of gradients."""
    lower, upper, c, best, gradients = 0.0, 1e10, 0.1, None, 0
    for search in range(searches):
        if searches >= 10 and search == searches - 1 and upper < 1e10:
            c = upper
        w = torch.atanh((2 * x - 1) * (1 - 1e-6)).requires_grad_()
        adam = torch.optim.Adam([w], lr=0.02)
        success, before = False, float("inf")
        for k in range(steps):
            image = (w.tanh() + 1) / 2
            z = model(image[None])[0]
            rivals = [j for j in range(len(z)) if j != y] if target is None else [target]
            loss = (image - x).square().sum() + c * (z[y] - z[rivals].max()).clamp_min(0)
            if int(z.argmax()) != y:
                success = True
                if best is None or (image - x).norm() < (best - x).norm():
                    best = image.detach()
            gradients += 1
            if abort and k % (steps // 10) == 0:
                if float(loss.detach()) > 0.9999 * before:
                    break
                before = float(loss.detach())
            adam.zero_grad()
            loss.backward(inputs=[w])
            adam.step()
        if success:
            upper = min(upper, c)
        else:
            lower = max(lower, c)
        c = (lower + upper) / 2 if upper < 1e10 else 10 * c
    assert best is not None
    return best, gradients


@pytest.mark.parametrize("rank", [None, 1, 3])
@pytest.mark.parametrize(("steps", "searches", "abort"), [(30, 5, True), (20, 3, False), (20, 10, True)])
def test_the_attack_is_what_its_rewrite_says(rank, steps, searches, abort):
    model, x = seeded(lambda: tiny_network(6)).double(), images_like(4).double()
    order = model(x).argsort(1, descending=True)
    y, target = order[:, 0], None if rank is None else order[:, rank]
    options = {"steps": steps, "searches": searches, "abort": abort, "rate": 0.02, "c": 0.1}
    ours = attacked(Network(model, 3), x, y, target, **options)
    for place in range(len(x)):
        aim = None if target is None else int(target[place])
        theirs, gradients = cw(model, x[place], int(y[place]), aim, steps, searches, abort)
        assert (ours.images[place] - theirs).abs().max() < 1e-6
        assert int(ours.backwards[place]) == gradients
