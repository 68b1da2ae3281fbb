"""Each check by itself: what it makes of numbers that are given, or that can be worked out."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from masking.fronts import Around, in_numpy
from torch import nn

from gamagat.engine.masking.black_box import only_square, square, standing_after_all, transfer
from gamagat.engine.masking.chance import randomness
from gamagat.engine.masking.exam import FULL, Exam, Unfollowed, pgd, reason_unfollowed
from gamagat.engine.masking.radii import large_eps, loss_rises, mean_loss, radii
from gamagat.engine.masking.result import Level, Result, Verdict, graded, tempered, verdict, worst
from gamagat.engine.masking.slopes import alignment, saturation, slopes, underflow, zero_gradients
from gamagat.engine.masking.squashing import (
    LEAD,
    Logits,
    Stretched,
    known_logits,
    logits_seen,
    squashing,
    stretched,
)
from gamagat.engine.masking.strength import more_steps, restarts, single_step
from gamagat.engine.request import EvaluationRequest, prepare

FINE, WARNS, MASKED, UNCHECKED = Level.FINE, Level.WARNS, Level.MASKED, Level.UNCHECKED
SHORT, MIDDLE, LONG = FULL.steps


class Told:
    """A run that went as it is told: so many percent of 400 images standing after each attack."""

    def __init__(self, clean: float, left: dict[str, float]) -> None:
        self.clean, self.left_ = clean, left

    def right(self):
        return np.arange(400) < 4 * self.clean

    def standing(self, names):
        return np.logical_and.reduce(
            [np.arange(400) < 4 * self.left_.get(name, self.clean) for name in names]
        )


def exam(net: nn.Module | None = None, n: int = 400, **words) -> Exam:
    """An examination of a network on digits."""
    prepared = prepare(
        EvaluationRequest("digits-cnn", data="digits", n=n, attacks=FULL.specs(), device="cpu", **words)
    )
    return Exam(replace(prepared, model=net or prepared.model), net or prepared.model)


def told(clean: float, left: dict[str, float]) -> Exam:
    """An examination whose attacks have already run."""
    made = exam()
    made.known["run"] = Told(clean, left)
    return made


def linear(weight: torch.Tensor) -> nn.Module:
    """Logits that are weighted sums of the pixels."""
    layer = nn.Linear(64, 10, bias=False)
    with torch.no_grad():
        layer.weight.copy_(weight)
    return nn.Sequential(nn.Flatten(), layer)


@pytest.fixture
def weights() -> torch.Tensor:
    return torch.randn(10, 64, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        ([FINE, FINE], Verdict.SOUND),
        ([FINE, UNCHECKED], Verdict.SOUND),
        ([FINE, WARNS, UNCHECKED], Verdict.SUSPICIOUS),
        ([WARNS, MASKED, FINE], Verdict.MASKED),
    ],
)
def test_the_verdict_is_that_of_the_worst_check(levels, expected):
    assert verdict({str(number): level for number, level in enumerate(levels)}) is expected


def test_a_threshold_is_still_on_the_better_side():
    assert [graded(value, 1, 2) for value in (0.5, 1, 1.5, 2, 2.5)] == [FINE, FINE, WARNS, WARNS, MASKED]
    assert graded(1e9, 1) is WARNS
    assert worst(FINE, MASKED, WARNS) is MASKED


def test_numbers_are_json():
    found = Result(FINE, "s", "t", "m", "d", {"a": 1.5, "b": float("nan"), "c": float("inf"), "d": None})
    assert found.as_json()["numbers"] == {"a": 1.5, "b": None, "c": None, "d": None}
    assert found.as_json()["level"] == "fine"


def test_attacks_on_a_random_network_prove_nothing():
    results = [Result(level, "", "", "", "", {}) for level in (FINE, WARNS, MASKED, UNCHECKED)]
    assert [tempered(result).level for result in results] == [FINE, WARNS, WARNS, UNCHECKED]


@pytest.mark.parametrize(
    ("clean", "fgsm", "many", "level"),
    [
        (97, 83, 68, FINE),
        (81, 58.5, 53, FINE),  # GAT on CIFAR-10
        (92, 16, 0, FINE),  # a normally trained network there
        (92, 40, 0, FINE),
        (85, 60, 0, MASKED),
        (97, 97, 0, MASKED),  # FGSM-AT on CIFAR-10
        (85, 69.75, 38.5, WARNS),  # half collapsed
        (90, 50, 51, FINE),
        (90, 50, 53, WARNS),
        (90, 50, 60, MASKED),
    ],
)
def test_one_step_against_many(clean, fgsm, many, level):
    assert single_step(told(clean, {"fgsm": fgsm, **dict.fromkeys(FULL.steps, many)})).level is level


@pytest.mark.parametrize(
    ("left", "level"),
    [
        ((70, 68, 68), FINE),
        ((54, 53, 52.5), FINE),
        ((54, 56, 52), WARNS),
        ((50, 60, 60), MASKED),
        ((70, 60, 53), WARNS),
        ((80, 70, 40), MASKED),
    ],
)
def test_more_steps_never_help_less_and_arrive(left, level):
    found = more_steps(told(90, dict(zip(FULL.steps, left, strict=True))))
    assert found.level is level
    assert found.numbers == dict(zip(FULL.steps, left, strict=True))


@pytest.mark.parametrize(
    ("left", "level"),
    [
        ((53, 52.5, 52.25, 52.25, 52.25), FINE),
        ((68, 64, 62.5, 61.5, 61), FINE),
        ((68, 64, 62, 60, 57), WARNS),  # the last still helps
        ((68, 60, 57, 56, 56), WARNS),
        ((68, 50, 40, 35, 34), MASKED),
    ],
)
def test_restarts_stop_helping(left, level):
    names = [f"{FULL.restarts}#{number}" for number in range(1, 6)]
    found = restarts(told(90, dict(zip(names, left, strict=True))))
    assert found.level is level
    assert found.numbers["all_points"] == left[0] - left[-1]


@pytest.mark.parametrize(("blind", "level"), [(50, FINE), (44, FINE), (40, WARNS), (20, MASKED)])
def test_who_sees_gradients_beats_square(blind, level):
    found = square(told(90, {FULL.gama: 45, LONG: 60, "square": blind}))
    assert found.level is level
    assert found.numbers == {"square_accuracy": blind, "white_box_accuracy": 45, "pgd_accuracy": 60}


@pytest.mark.parametrize(("blind", "level"), [(50, FINE), (41, FINE), (38, WARNS), (30, MASKED)])
def test_square_finds_nothing_that_gama_does_not(blind, level):
    found = only_square(told(90, {FULL.gama: 45, "square": blind}))
    assert found.level is level
    assert found.numbers["only_square_percent"] == max(0, 45 - blind)


def test_without_a_source_transfer_is_not_checked():
    assert transfer(told(90, {})).level is UNCHECKED


@pytest.mark.parametrize("strongest", [*FULL.specs(), "moved", "stretched"])
def test_what_is_left_after_all_attacks_is_after_each_of_them(monkeypatch, strongest):
    examined = replace(told(100, {}), source=nn.Identity())
    (runs,) = [attack.runs for attack in examined.prepared.plan if attack.name == strongest] or [[]]
    examined.known["run"] = Told(100, {name: 10 for name, _ in runs})
    moved = np.arange(400) < (40 if strongest == "moved" else 400)
    monkeypatch.setattr("gamagat.engine.masking.black_box.moved", lambda exam, spec: moved)
    examined.known["stretched"] = {FULL.gama: np.arange(400) < (40 if strongest == "stretched" else 400)}
    assert standing_after_all(examined).sum() == 40


def test_a_threshold_is_never_less_than_three_images():
    assert exam(n=400).worth(1.0) == 1.0
    assert exam(n=30).worth(1.0) == 10.0


def test_more_steps_are_finer_steps():
    assert pgd(7) == "pgd:steps=7,rate=0.357"
    assert pgd(100) == "pgd:steps=100,rate=0.025"


def test_a_linear_network_is_aligned_with_itself(weights):
    weights[2:] = weights[1]  # two directions, so that the gradient is the same everywhere
    examined = exam(linear(weights), n=60)
    found = slopes(examined)
    assert torch.allclose(found.cosine[found.cosine.isfinite()].abs(), torch.ones(60), atol=1e-5)
    examined.known["run"] = Told(90, {})
    assert alignment(examined).level is FINE


def test_crooked_gradients_count_where_something_stands(weights):
    wave = Around(linear(weights), before=lambda x: (200 * x).cos())
    for left, level in ((50, WARNS), (2, FINE)):
        examined = exam(wave, n=60)
        examined.known["run"] = Told(90, {"fgsm": 30, FULL.gama: left})
        assert alignment(examined).numbers["cosine"] == pytest.approx(0, abs=0.2)
        assert alignment(examined).level is level


def test_a_gradient_that_is_zero_for_some_images_is_counted(weights):
    net = linear(weights)
    dark = lambda x: torch.where(x.flatten(1).mean(1)[:, None, None, None] < 0.3, x.detach(), x)  # noqa: E731
    examined = exam(Around(net, before=dark), n=100)
    x, _, _ = next(examined.parts())
    share = 100 * float((x.flatten(1).mean(1) < 0.3).float().mean())
    assert 10 < share < 90
    found = zero_gradients(examined)
    assert found.numbers["zero_percent"] == pytest.approx(share)
    assert found.level is MASKED


def test_a_gradient_that_is_not_finite_is_counted(weights):
    examined = exam(Around(linear(weights), before=lambda x: (x - x.detach()).sqrt() * 0 + x), n=20)
    found = zero_gradients(examined)
    assert (found.numbers["not_finite_percent"], found.level) == (100, MASKED)
    assert alignment(examined).level is UNCHECKED


@pytest.mark.parametrize(("scale", "level"), [(1, FINE), (1e4, WARNS)])
def test_saturation_and_underflow_go_by_the_lead(weights, scale, level):
    examined = exam(linear(scale * weights), n=100)
    x, y, _ = next(examined.parts())
    logits = scale * x.flatten(1) @ weights.T
    lead = logits.gather(1, y[:, None]).squeeze(1) - logits.scatter(1, y[:, None], -torch.inf).amax(1)
    found = saturation(examined)
    assert found.numbers["dead_percent"] == pytest.approx(100 * float((lead > 104).float().mean()), abs=1.1)
    if scale > 1:
        examined.known["run"] = Told(90, {FULL.published: 90, MIDDLE: 20})
        assert slopes(examined).underflown.any()
        assert underflow(examined).level is level


@pytest.mark.parametrize(("scale", "level"), [(0.1, FINE), (1e4, WARNS)])
def test_a_weaker_published_attack_is_no_underflow_where_no_lead_rounds(weights, scale, level):
    examined = exam(linear(scale * weights), n=100)
    examined.known["run"] = Told(90, {FULL.published: 60, MIDDLE: 50})
    examined.known["slopes"] = slopes(examined)._replace(underflown=torch.zeros(100, dtype=torch.bool))
    assert underflow(examined).level is level


def test_stretching_undoes_a_squash_and_keeps_the_winner(weights):
    net, images = linear(0.1 * weights), torch.rand(50, 1, 8, 8)
    squashed = Around(net, after=lambda z: 10 * (z / 2).tanh())
    plain, out = net(images), Stretched(squashed, -10.0, 10.0, scale=2.0)(images)
    assert torch.allclose(out, plain, atol=1e-3)
    far = Stretched(squashed, -3.0, 5.0)(images)  # straight on beyond what was seen
    assert torch.equal(far.argmax(1), plain.argmax(1))
    assert far.isfinite().all()
    assert torch.equal(Stretched(net, 1.0, 1.0)(images).argmax(1), plain.argmax(1))  # a range of nothing


@pytest.mark.parametrize(("winners", "held"), [([10.0, 9.95, 9.7, 0.0], 50), ([10.0, 8.0, 6.0, 4.0], 25)])
def test_winners_near_the_end_are_counted(winners, held):
    assert Logits(-10.0, 10.0, torch.tensor(winners), torch.ones(4)).held() == held


def test_logits_that_are_not_squashed_are_not_stretched(weights):
    examined = exam(linear(weights), n=60)
    examined.known["run"] = Told(90, {FULL.gama: 30})
    assert known_logits(examined).held() < 10
    assert stretched(examined) == {}
    found = squashing(examined)
    assert found.level is FINE
    assert found.numbers[f"stretched {FULL.gama}"] is found.numbers[f"stretched {MIDDLE}"] is None


def test_stretched_logits_are_attacked_at_the_lead_that_serves_best(weights, monkeypatch):
    examined, seen = exam(Around(linear(weights), after=lambda z: 10 * z.tanh())), []

    def moved(self, spec, on, what):
        seen.append((spec, float(logits_seen(self, on).lead.median())))
        return np.arange(400) < 6

    monkeypatch.setattr(Exam, "moved", moved)
    examined.known["run"] = Told(100, {})
    assert {spec: left.sum() for spec, left in stretched(examined).items()} == {FULL.gama: 6, MIDDLE: 6}
    assert stretched(examined) is stretched(examined)  # made once
    assert seen == [(spec, pytest.approx(LEAD, rel=1e-3)) for spec in (FULL.gama, MIDDLE)]


@pytest.mark.parametrize(
    ("gama", "pgd", "level"),
    [
        (45, 60, FINE),
        (43, 50, FINE),
        (42, 50, WARNS),
        (34, 60, MASKED),
        (45, 49, WARNS),
        (45, 20, WARNS),  # PGD is led astray, and GAMA is not
        (60, 80, FINE),
    ],
)
def test_stretched_logits_are_no_better_to_attack(gama, pgd, level):
    examined = told(90, {FULL.gama: 45, MIDDLE: 60})
    left = {FULL.gama: gama, MIDDLE: pgd}
    examined.known["stretched"] = {spec: np.arange(400) < 4 * points for spec, points in left.items()}
    found = squashing(examined)
    assert found.level is level
    assert {spec: found.numbers[f"stretched {spec}"] for spec in left} == left
    assert found.numbers["white_box_accuracy"] == 45
    assert f"{FULL.gama} leaves {gama:.1f} %" in found.seen


def test_the_loss_of_a_linear_network_rises_along_its_gradient(weights):
    examined = exam(linear(0.1 * weights), n=50)
    examined.known["run"] = Told(90, {})
    losses = [mean_loss(examined, eps) for eps in (0.0, 0.1, 0.2)]
    x, y, _ = next(examined.parts())
    plain = nn.functional.cross_entropy(0.1 * x.flatten(1) @ weights.T, y)
    assert losses[0] == pytest.approx(float(plain), rel=1e-5)
    assert losses[0] < losses[1] < losses[2]
    assert loss_rises(examined).level is FINE


@pytest.mark.parametrize(
    ("losses", "fgsm", "level"),
    [
        ((1, 2, 3, 4, 5), 60, FINE),
        ((1, 2, 3, 4, 3.9), 60, FINE),
        ((0, 0, 0, 4, 5), 60, FINE),  # rounded to zero near the image
        ((1, 2, 3, 4, 3), 60, WARNS),
        ((1, 2, 3, 4, 3), 20, FINE),  # nothing is left to hide
        ((1, 2, 5, 3, 2), 20, MASKED),
        ((1, 1, 1, 1, 1), 60, MASKED),
        ((1, 2, 3, float("nan"), 4), 60, WARNS),
        ((1, 1.5, 1.4, 1.1, 0.9), 60, MASKED),
    ],
)
def test_the_loss_must_rise(monkeypatch, losses, fgsm, level):
    examined = told(90, {"fgsm": fgsm, FULL.gama: 0})
    told_losses = iter(losses)
    monkeypatch.setattr("gamagat.engine.masking.radii.mean_loss", lambda *_: float(next(told_losses)))
    assert loss_rises(examined).level is level


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ({"eps": "8/255"}, [16 / 255, 32 / 255, 64 / 255, 0.5]),
        ({"eps": "0.2"}, [0.4, 0.5]),
        ({"eps": "0.6"}, [0.6]),
        ({"norm": "l2", "eps": "0.5"}, [1.0, 2.0, 4.0]),  # half a level in each of 64 pixels
    ],
)
def test_radii_double_until_any_image_can_be_grey(words, expected):
    assert list(radii(exam(**words))) == pytest.approx(expected)


@pytest.mark.parametrize(("last", "level"), [(0.0, FINE), (8.0, WARNS), (30.0, MASKED)])
def test_nothing_stands_where_everything_can_be_grey(monkeypatch, last, level):
    monkeypatch.setattr(Exam, "accuracy_at", lambda self, spec, eps: last if eps == 0.5 else 50.0)
    assert large_eps(exam()).level is level


def test_a_steady_network_is_not_random_and_a_shaken_one_is(weights):
    assert randomness(exam(linear(weights), n=30)).numbers == {"apart_percent": 0, "changed_percent": 0}
    torch.manual_seed(0)
    shaken = randomness(exam(Around(linear(weights), after=lambda z: z + torch.randn_like(z)), n=30))
    assert shaken.level is WARNS


def test_a_network_that_cannot_be_followed_gets_a_gradient_of_zero(weights):
    net, images = linear(weights), torch.rand(3, 1, 8, 8)
    assert reason_unfollowed(net, images) is None
    assert reason_unfollowed(Around(net, after=torch.Tensor.detach), images) is not None
    assert "numpy" in str(reason_unfollowed(in_numpy(net), images))
    stood = Unfollowed(in_numpy(net))
    images.requires_grad_()
    logits = stood(images)
    assert torch.equal(logits, net(images))
    (grad,) = torch.autograd.grad(logits.sum(), images)
    assert not grad.any()
