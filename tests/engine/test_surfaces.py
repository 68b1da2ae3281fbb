"""Loss surfaces, losses against eps, steps of an attack and sweeps, each against a computation of its own."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from gamagat.data.core import load_data
from gamagat.engine.request import EvaluationRequest, Prepared, prepare
from gamagat.engine.share import Share
from gamagat.engine.surfaces import Window, directions, looking_at, orthogonal, surfaces
from gamagat.engine.sweeps import FACTORS, sweep_eps, sweep_weights
from gamagat.engine.traces import Mean, loss_curves, traces
from gamagat.engine.watch import Onlooker
from gamagat.errors import ConfigError
from gamagat.models.core import load_model
from gamagat.pieces.noise import Noise
from gamagat.pieces.threat import L2, LINF, ThreatModel
from helpers import images_like


def wanted(**changes):
    return EvaluationRequest("digits-cnn", device="cpu", **{"n": 30} | changes)


@pytest.fixture(scope="module")
def digits():
    data = load_data("digits").head(30)
    return load_model("digits-cnn").eval(), *data.batch(torch.arange(30))


@pytest.fixture
def prepared() -> Prepared:
    return prepare(wanted(n=3))


class Odd(torch.nn.Module):
    """A network that looks at seven pixels: a gradient with zeros, and an odd number of others."""

    def forward(self, images):
        seen = images.flatten(1)[:, :7]
        return torch.stack([seen.sum(1), -(seen**2).sum(1)], 1)


@pytest.mark.parametrize("norm", [LINF, L2])
def test_the_second_direction_is_orthogonal_and_as_long(norm):
    direction = norm.steepest(images_like(5) - 0.5)
    across = orthogonal(direction, Noise.for_images(torch.arange(5)), ThreatModel(norm, 0.1))
    assert (direction * across).flatten(1).sum(1).abs().max() < 1e-4
    assert torch.allclose(norm.size(across), norm.size(direction), atol=1e-5)
    assert len({row.numpy().tobytes() for row in across}) == 5


def test_across_a_gradient_with_zeros_there_are_signs_all_the_same():
    x, y = images_like(4, channels=1), torch.zeros(4, dtype=torch.int64)
    up, across = directions(Odd(), x, y, ThreatModel(LINF, 0.1), Noise.for_images(torch.arange(4)))
    assert ((up != 0).flatten(1).sum(1) == 7).all()
    assert ((up * across).flatten(1).sum(1) == 0).all()
    moved = across.flatten(1)
    assert (moved[:, 7:].abs() == 1).all()
    assert (moved[:, :7].abs().sum(1) == 6).all()  # the odd one is left alone


def test_a_surface_is_what_the_network_says_at_every_point(prepared):
    found = {one.loss: one for one in surfaces(prepared, ("ce", "margin", "gama"), 25.0, Window(1.5, 5))}
    x, y = prepared.data.batch(torch.arange(3))
    model, eps = prepared.model.eval(), prepared.threat.eps
    leaf = x.clone().requires_grad_()
    (grad,) = torch.autograd.grad(F.cross_entropy(model(leaf), y, reduction="sum"), leaf)
    _, across = directions(model, x, y, prepared.threat, Noise.for_images(prepared.data.ids))
    ticks = np.linspace(-1.5, 1.5, 5)
    assert found["ce"].along == pytest.approx(ticks)
    for row, far in enumerate(ticks):
        for column, ahead in enumerate(ticks):
            with torch.no_grad():
                logits = model(x + eps * (ahead * grad.sign() + far * across))
                p, clean = logits.softmax(1), model(x).softmax(1)
            right = p.gather(1, y[:, None]).squeeze(1)
            wrong = p.scatter(1, y[:, None], -1.0).amax(1)
            margin = (wrong - right).mean().item()
            guided = margin + 25 * ((p - clean) ** 2).sum(1).mean().item()
            logit = logits.scatter(1, y[:, None], -1e9).amax(1) - logits.gather(1, y[:, None]).squeeze(1)
            assert found["ce"].values[row][column] == pytest.approx(
                F.cross_entropy(logits, y).item(), abs=1e-5
            )
            assert found["margin"].values[row][column] == pytest.approx(margin, abs=1e-5)
            assert found["gama"].values[row][column] == pytest.approx(guided, abs=1e-4)
            assert found["ce"].margin[row][column] == pytest.approx(logit.mean().item(), abs=1e-4)


def test_clipped_or_not_and_the_middle_is_the_image(prepared):
    one = looking_at(prepared, 1)
    free, kept = (surfaces(one, ("ce",), window=Window(1.0, 3, clip))[0] for clip in (False, True))
    assert free.values[1][1] == kept.values[1][1]
    assert free.values[0] != kept.values[0]
    x, y = prepared.data.batch(torch.tensor([1]))
    with torch.no_grad():
        assert free.values[1][1] == pytest.approx(F.cross_entropy(prepared.model(x), y).item(), abs=1e-6)


def test_a_surface_does_not_depend_on_the_batch_size(prepared):
    whole = surfaces(prepared, window=Window(1.0, 5))
    parts = surfaces(replace(prepared, batch_size=2), window=Window(1.0, 5))
    for one, other in zip(whole, parts, strict=True):
        assert np.allclose(one.values, other.values, atol=1e-5)


def test_surfaces_in_l2_go_along_the_gradient():
    found = surfaces(prepare(wanted(n=1, norm="l2", eps="0.5")), ("ce",), window=Window(1.0, 5))[0]
    assert found.values[2][3] > found.values[2][2] > found.values[2][1]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda p: surfaces(p, ("mse",)), "unknown loss of a surface 'mse'"),
        (lambda p: surfaces(p, ()), "got none"),
        (lambda p: surfaces(p, ("ce", "ce")), "each once, got ce\\+ce"),
        (lambda p: surfaces(p, weight=-1.0), "weight must lie between"),
        (lambda p: Window(points=2), "3 to 501 points"),
        (lambda p: Window(reach=0.0), "positive reach"),
        (lambda p: looking_at(p, 3), "has 3 images, numbered 0 to 2"),
        (lambda p: looking_at(p, -1), "image=-1"),
        (lambda p: looking_at(p, 0, 0), "images=0"),
    ],
)
def test_what_has_no_surface_is_refused(prepared, make, words):
    with pytest.raises(ConfigError, match=words):
        make(prepared)


def test_the_loss_against_eps_is_that_of_the_fgsm_images(digits):
    model, x, y = digits
    (curve,) = loss_curves(prepare(wanted(attacks=("fgsm",), batch_size=7)), [0.1, 0.3])
    leaf = x.clone().requires_grad_()
    (grad,) = torch.autograd.grad(F.cross_entropy(model(leaf), y, reduction="sum"), leaf)
    assert [eps for eps, _ in curve.points] == [0.0, 0.1, 0.3]
    for eps, mean in curve.points:
        with torch.no_grad():
            losses = F.cross_entropy(model((x + eps * grad.sign()).clamp(0, 1)), y, reduction="none")
        assert mean.value == pytest.approx(losses.mean().item(), rel=1e-4)
        assert mean.error == pytest.approx(losses.std().item() / math.sqrt(30), rel=1e-4)


def test_of_several_runs_the_largest_loss_counts():
    plain, tries = loss_curves(prepare(wanted(n=10, attacks=("r-fgsm", "r-fgsm:restarts=4"))), [0.2])
    assert tries.points[1][1].value > plain.points[1][1].value


def test_without_radii_the_usual_ones_and_nothing_beyond_the_pixel_range():
    (curve,) = loss_curves(prepare(wanted(n=2, attacks=("fgsm",), eps="0.5")))
    assert [eps for eps, _ in curve.points] == [0.0, 0.125, 0.25, 0.375, 0.5, 0.75, 1.0]
    assert FACTORS[-1] * 0.5 > 1


def test_a_mean_knows_its_interval():
    mean = Mean.of(torch.tensor([1.0, 2.0, 3.0, 6.0]))
    assert mean.value == 3.0
    assert mean.error == pytest.approx(np.std([1, 2, 3, 6], ddof=1) / 2)
    assert mean.ci95 == pytest.approx((3 - 1.96 * mean.error, 3 + 1.96 * mean.error), abs=1e-3)
    assert Mean.of(torch.tensor([2.0])).ci95 == (2.0, 2.0)


def test_a_trace_follows_the_attack_step_by_step(digits):
    model, x, y = digits
    seen = []
    watching = Onlooker(progress=lambda what, done, total: seen.append((what, done, total)))
    (trace,) = traces(prepare(wanted(attacks=("ifgsm:steps=4",), eps="0.3", batch_size=11)), watching)
    delta, standing = torch.zeros_like(x), torch.ones(30, dtype=torch.bool)
    assert [moment.step for moment in trace.moments] == [0, 1, 2, 3, 4]
    for moment in trace.moments:
        leaf = (x + delta).requires_grad_()
        losses = F.cross_entropy(logits := model(leaf), y, reduction="none")
        (grad,) = torch.autograd.grad(losses.sum(), leaf)
        right = logits.argmax(1) == y
        standing &= right
        assert moment.right == Share(int(right.sum()), 30)
        assert moment.standing == Share(int(standing.sum()), 30)
        assert moment.loss.value == pytest.approx(losses.mean().item(), rel=1e-4)
        delta = (x + (delta + 0.075 * grad.sign()).clamp(-0.3, 0.3)).clamp(0, 1) - x
    assert trace.moments[-1].standing.count < trace.moments[0].standing.count
    assert seen[0] == ("ifgsm:steps=4", 0, 30)
    assert seen[-1] == ("ifgsm:steps=4", 30, 30)


def test_the_last_moment_stands_as_an_evaluation_ends():
    request = wanted(n=60, attacks=("gama-pgd:steps=6",), eps="0.25")
    (trace,) = traces(prepare(request))
    assert trace.moments[-1].standing == prepare(request).run().standing


@pytest.mark.parametrize(
    "attack", ["gama-mt:steps=2", "square", "pgd:restarts=2", "fab", "pgd-targeted:steps=2"]
)
def test_an_attack_of_several_walks_cannot_be_followed(attack):
    with pytest.raises(ConfigError, match=r"cannot follow '.*' step by step"):
        traces(prepare(wanted(n=2, attacks=(attack,))))


def test_networks_come_back_as_they_were(prepared):
    prepared.model.train()
    surfaces(prepared, window=Window(1.0, 3))
    traces(replace(prepared, plan=prepare(wanted(attacks=("pgd:steps=1",))).plan))
    assert prepared.model.training
    assert all(parameter.requires_grad for parameter in prepared.model.parameters())


def test_a_sweep_of_weights_is_one_run_that_can_be_gone_on_with(tmp_path):
    request = wanted(attacks=("gama-pgd:steps=4", "gama-fw:steps=4"), eps="0.25", out=tmp_path / "run")
    run = sweep_weights(request, (0.0, 50.0))
    assert [attack["name"] for attack in run.manifest.attacks] == [
        "gama-pgd:steps=4,weight=0",
        "gama-pgd:steps=4,weight=50",
        "gama-fw:steps=4,weight=0",
        "gama-fw:steps=4,weight=50",
    ]
    before = (tmp_path / "run" / "ledger-0.sqlite").read_bytes()
    again = sweep_weights(request, (0.0, 50.0))
    assert (again.ids == run.ids).all()
    assert (tmp_path / "run" / "ledger-0.sqlite").read_bytes() == before


def test_a_sweep_of_eps_is_a_run_for_each(tmp_path):
    runs = sweep_eps(wanted(attacks=("fgsm",), out=tmp_path), (0.3, 0.0, 0.1))
    assert [run.manifest.eps for run in runs] == [0.1, 0.3]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["eps-0.1", "eps-0.3"]
    alone = prepare(wanted(attacks=("fgsm",), eps="0.3")).run()
    assert int(runs[1].standing(["fgsm"]).sum()) == alone.standing.count


def test_of_minimum_norm_attacks_one_run_suffices():
    (run,) = sweep_eps(wanted(n=4, attacks=("fab:steps=3",)))
    assert run.manifest.eps == 0.2


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: sweep_weights(wanted(attacks=("pgd",))), "'pgd' has no weight to change; .*gama-pgd"),
        (lambda: sweep_weights(wanted(attacks=("gama-pgd:weight=5",))), "leave weight= out"),
        (lambda: sweep_weights(wanted(), ()), "got 'none'"),
        (lambda: sweep_weights(wanted(), (1.0, 1.0)), "each once, got '1\\+1'"),
        (lambda: sweep_weights(wanted(), (-1.0,)), "from 0 on"),
        (lambda: sweep_weights(wanted(), (math.inf,)), "from 0 on"),
        (lambda: sweep_eps(wanted(), (2.0,)), "at most 1 in linf"),
        (lambda: sweep_eps(wanted(), (0.0,)), "got 0 alone"),
        (lambda: sweep_eps(wanted(), (math.nan,)), "values of eps"),
    ],
)
def test_what_cannot_be_swept_is_refused(make, words):
    with pytest.raises(ConfigError, match=words):
        make()


def test_a_sweep_that_is_interrupted_draws_nothing():
    stop = Onlooker(progress=lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        sweep_eps(wanted(n=3, attacks=("fgsm",)), (0.1,), stop)
