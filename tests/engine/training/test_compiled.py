"""A compiled step, with both views in one batch, is the plain step."""

from collections.abc import Callable
from copy import deepcopy

import pytest
import torch
from torch import Tensor, nn

from gamagat.data.core import from_tensors
from gamagat.defenses.core import DEFENSES
from gamagat.defenses.views import can_be_joined, seeing
from gamagat.engine.training.feed import Part, Resident
from gamagat.engine.training.run import TrainingRequest, _worth_compiling
from gamagat.engine.training.settings import Settings, make_plan
from gamagat.engine.training.step import Recorder, Trainer
from gamagat.pieces.augment import crop_flip
from gamagat.pieces.noise import Noise
from gamagat.pieces.threat import LINF, ThreatModel

COUNT, SIZE = 20, 8


def drawn(seed: int, *shape: int) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed))


class Widely(nn.Module):
    """Double precision from here on: steps by signs make much of the last bits of a gradient."""

    def forward(self, images: Tensor) -> Tensor:
        return images.double()


def network() -> nn.Module:
    return nn.Sequential(
        Widely(), nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.Conv2d(6, 4, 3, stride=2),
        nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(36, 5),
    ).double()  # fmt: skip


def trained(model: nn.Module, recipe: str, compiled: bool = False, joined: bool = False) -> Trainer:
    """After one epoch: two whole batches and a rest."""
    images = drawn(1, COUNT, 3, 8, 8)
    data = from_tensors(images, name="noise", labels=torch.arange(COUNT) % 5)
    feed = Resident(data, SIZE, torch.device("cpu"))
    made = DEFENSES.make(recipe)
    trainer = Trainer(
        model.train(), made, Settings(batch=SIZE), ThreatModel(LINF, 0.1), feed, SIZE, crop_flip(2),
        compiled=compiled, joined=joined,
    )  # fmt: skip
    trainer.begin([0.05] * 3, [made.weight(0.0)] * 3)
    feed.begin(torch.arange(COUNT), Noise.for_images(data.ids).keys)
    for number, count in enumerate((SIZE, SIZE, COUNT - 2 * SIZE)):
        trainer.batch(number, Part(count, 1.0))
    return trainer


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.parametrize("recipe", ["gat", "rfgsm-at", "trades"])
def test_compiled_training_is_plain_training(recipe):
    model = network()
    plain, together = trained(deepcopy(model), recipe), deepcopy(model)
    assert can_be_joined(together, drawn(3, 4, 3, 8, 8))
    quick = trained(together, recipe, compiled=True, joined=True)
    assert quick.told() == pytest.approx(plain.told(), rel=1e-4)
    theirs = quick.model.state_dict()
    for name, value in plain.model.state_dict().items():
        assert torch.allclose(value, theirs[name], rtol=1e-3, atol=1e-5), name


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("compiled", [False, True])
def test_convolutions_are_searched_for_where_whole_batches_are_many(compiled, monkeypatch):
    seen = []

    def play(self: Recorder, key: tuple[int, bool, int], step: Callable[[], None]) -> None:
        seen.append((key[2], torch.backends.cudnn.benchmark))

    monkeypatch.setattr(Recorder, "play", play)
    trained(network(), "standard", compiled)
    assert seen == [(SIZE, compiled), (SIZE, compiled), (COUNT - 2 * SIZE, False)]
    assert not torch.backends.cudnn.benchmark


@pytest.mark.parametrize("recipe", ["gat", "rfgsm-at", "rmgm", "trades"])
def test_views_in_one_batch_are_views_one_after_another(recipe):
    model = network()
    together = deepcopy(model)
    assert can_be_joined(together, drawn(3, 4, 3, 8, 8))
    theirs = trained(together, recipe, joined=True).model.state_dict()
    for name, value in trained(model, recipe).model.state_dict().items():
        assert torch.allclose(value, theirs[name], rtol=1e-3, atol=1e-5), name


def test_each_view_has_statistics_of_its_own():
    model = network().train()
    joined = deepcopy(model)
    assert can_be_joined(joined, drawn(3, 4, 3, 8, 8))
    views = [drawn(number, 6, 3, 8, 8).double() for number in (1, 2, 3)]
    apart = torch.cat([model(view) for view in views])
    with seeing(joined, 3):
        together = joined(torch.cat(views))
    assert torch.allclose(apart, together, atol=1e-12)
    apart.square().sum().backward()
    together.square().sum().backward()
    for one, other in zip(model.parameters(), joined.parameters(), strict=True):
        assert torch.allclose(one.grad, other.grad, atol=1e-10)
    for one, other in zip(model.buffers(), joined.buffers(), strict=True):
        assert torch.allclose(one, other, atol=1e-12)
    assert torch.allclose(model(views[0]), joined(views[0]), atol=1e-12)  # a single view afterwards
    assert torch.allclose(model.eval()(views[0]), joined.eval()(views[0]), atol=1e-12)


@pytest.mark.parametrize(
    "norm", [nn.BatchNorm2d(4, momentum=None), nn.BatchNorm2d(4, affine=False), nn.BatchNorm1d(4)]
)
def test_norms_that_are_not_known_are_left_alone(norm):
    model = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), norm)
    assert not can_be_joined(model, drawn(3, 4, 3, 8, 8))
    assert type(model[1]) is nn.BatchNorm2d


class OwnNorm(nn.Module):
    """A norm that somebody wrote."""

    def forward(self, x: Tensor) -> Tensor:
        return (x - x.mean((0, 2, 3), keepdim=True)) / x.std((0, 2, 3), keepdim=True)


def test_a_network_whose_images_meet_elsewhere_is_left_alone():
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 4, 3), OwnNorm(), nn.ReLU(),
        nn.Flatten(), nn.Linear(64, 5),
    )  # fmt: skip
    assert not can_be_joined(model, drawn(3, 4, 3, 8, 8))
    assert type(model[1]) is nn.BatchNorm2d
    model[4] = nn.Dropout(0.5)
    assert can_be_joined(model, drawn(3, 4, 3, 8, 8))


@pytest.mark.parametrize(
    ("asked", "device", "recipe", "epochs", "wanted"),
    [(None, "cuda", "gat", 100, True), (None, "cuda", "gat", 2, False), (None, "cpu", "gat", 100, False),
     (True, "cpu", "gat", 2, True), (False, "cuda", "gat", 100, False),
     (None, "cuda", "standard", 100, False), (None, "cuda", "trades", 30, True)],
)  # fmt: skip
def test_a_step_is_compiled_where_it_pays(asked, device, recipe, epochs, wanted):
    images = torch.zeros(40_000, 1, 1, 1, dtype=torch.uint8)
    data = from_tensors(images, name="many", labels=torch.arange(40_000) % 2)
    plan = make_plan(recipe, None, None, epochs=epochs, batch=128)
    request = TrainingRequest(recipe, compile=asked)
    assert _worth_compiling(request, plan, data, torch.device(device)) == wanted
