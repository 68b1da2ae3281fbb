"""The published-style loops against our forms of them."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from gamagat.attacks.core import ATTACKS
from gamagat.data.core import load_data
from gamagat.defenses.core import Stage, Tick
from gamagat.engine.bench import published
from gamagat.engine.bench.measure import Counted
from gamagat.engine.training.settings import Settings, make_plan
from gamagat.models.core import load_model
from gamagat.pieces.noise import Noise
from gamagat.pieces.threat import LINF, ThreatModel

EPS = 0.2
THREAT = ThreatModel(LINF, EPS)


@pytest.fixture(scope="module")
def digits():
    """The network that comes with the package, frozen, and images in double precision."""
    data = load_data("digits").head(64)
    x, y = data.batch(torch.arange(len(data)))
    model = load_model("digits-cnn", classes=10, channels=1).double().eval()
    for weight in model.parameters():
        weight.requires_grad_(False)
    return model, x.double(), y, Noise.for_images(data.ids)


@pytest.mark.parametrize("preset", [None, "mnist"])
def test_it_makes_the_images_of_our_attack_as_published(digits, preset):
    model, x, y, noise = digits
    ours = ATTACKS.make("gama-pgd", preset, steps=20, as_published=True)(model, x, y, THREAT, noise)
    settings = published.GamaSettings.for_data(preset, 20)
    theirs = published.gama_pgd(model, x, y, EPS, settings, delta=EPS * noise.signs(x))
    same = (ours.images - theirs).abs().flatten(1).amax(1) < 1e-6
    assert same.float().mean() > 0.95  # a pixel with a gradient of next to nothing may go either way
    assert torch.equal(model(ours.images).argmax(1), model(theirs).argmax(1))


def test_it_asks_for_the_reference_in_every_step(digits):
    model, x, y, _ = digits
    counted = Counted(model)
    published.gama_pgd(counted, x, y, EPS, published.GamaSettings.for_data(None, 7))
    assert (counted.forwards, counted.backwards) == (2 * 7 * len(x), 7 * len(x))


def test_it_stays_in_the_ball_and_begins_at_a_corner(digits):
    model, x, y, _ = digits
    images = published.gama_pgd(model, x, y, EPS, published.GamaSettings.for_data(None, 3))
    assert THREAT.contains(images.float(), x.float()).all()
    assert published.random_corner(x, EPS).abs().unique().tolist() == [EPS]


def test_settings_are_those_of_our_attack_in_steps():
    assert published.GamaSettings.for_data(None, 100) == (100, 50.0, 25, 2.0, (60, 85), 0.1)
    assert published.GamaSettings.for_data("mnist", 100) == (100, 5.0, 50, 1.0, (50, 75), 0.1)


class Signs:
    """Noise of chosen signs, for both sides alike."""

    def __init__(self, signs):
        self.signs_ = signs

    def fold(self, tag):
        return self

    def signs(self, like):
        return self.signs_


@pytest.mark.parametrize("number", [0, 1])
def test_a_step_of_gat_is_our_recipe_as_published(monkeypatch, number):
    """Without batch norm the order of the passes cannot be seen: loss and gradients must agree."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Tanh(), nn.Flatten(), nn.Linear(4 * 36, 5)).double()
    x, y = torch.rand(6, 1, 8, 8, dtype=torch.float64), torch.arange(6) % 5
    draws = torch.rand_like(x)
    monkeypatch.setattr(torch, "rand_like", lambda like: draws)
    twin = copy.deepcopy(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
    gat = published.GatSettings(EPS, 0.5, alternate=True)
    loss = published.gat_step(net, optimizer, x, y, gat, weight=10.0, number=number)
    stage = Stage(twin, x, y, THREAT, Signs((0.5 - draws).sign()), Tick(number, 10.0))
    terms = make_plan("gat:as_published=true").recipe(stage)
    assert float(loss) == pytest.approx(float(terms.loss.detach()), rel=1e-5)
    ours = torch.autograd.grad(sum(terms.terms.values()), list(twin.parameters()))
    for mine, theirs in zip(ours, net.parameters(), strict=True):
        assert torch.allclose(mine, theirs.grad, rtol=1e-4, atol=1e-8)


def test_a_step_of_gat_learns_and_leaves_training_mode_on():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(4 * 36, 5)).train()
    x, y = torch.rand(10, 1, 8, 8), torch.arange(10) % 5
    optimizer = published.optimizer_for(Settings(rate=0.05), list(net.parameters()))
    before = float(F.cross_entropy(net(x), y).detach())
    for number in range(30):
        published.gat_step(net, optimizer, x, y, published.GatSettings(0.05, 0.5, True), 1.0, number)
    assert float(F.cross_entropy(net(x), y).detach()) < before / 2
    assert net.training


def test_the_optimisers_are_torchs_with_our_settings():
    weights = [nn.Parameter(torch.zeros(2))]
    adam = published.optimizer_for(Settings(optimizer="adam", rate=0.01), weights)
    sgd = published.optimizer_for(Settings(weight_decay=0.1, momentum=0.5), weights)
    assert isinstance(adam, torch.optim.Adam)
    assert adam.defaults["lr"] == 0.01
    assert (sgd.defaults["momentum"], sgd.defaults["weight_decay"]) == (0.5, 0.1)
