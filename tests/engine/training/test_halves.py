"""Weights that are cast once a step train as those that autocast casts in every pass, to the last bit."""

from copy import deepcopy

import pytest
import torch
from model_helpers import scramble
from quick.nets import usual
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from gamagat.data.core import from_tensors
from gamagat.defenses.core import DEFENSES, Precision
from gamagat.defenses.views import can_be_joined
from gamagat.engine.training.feed import Part, Resident
from gamagat.engine.training.halves import Halves, Itself, can_be_halved
from gamagat.engine.training.posed import means
from gamagat.engine.training.settings import Settings
from gamagat.engine.training.step import Trainer
from gamagat.models.core import build_model
from gamagat.pieces.augment import crop_flip
from gamagat.pieces.noise import Noise
from gamagat.pieces.threat import LINF, ThreatModel

COUNT, SIZE, HALF = 20, 8, torch.float16


def drawn(seed: int, *shape: int) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed))


def trained(model: nn.Module, recipe: str, halved: bool) -> Trainer:
    """After two epochs, each of two whole batches and a rest."""
    data = from_tensors(drawn(1, COUNT, 3, 8, 8), name="noise", labels=torch.arange(COUNT) % 5)
    feed, made = Resident(data, SIZE, torch.device("cpu")), DEFENSES.make(recipe)
    joined = can_be_joined(model, drawn(3, 4, 3, 8, 8))
    trainer = Trainer(
        model.train(), made, Settings(batch=SIZE), ThreatModel(LINF, 0.1), feed, SIZE, crop_flip(2),
        Precision(HALF, HALF), joined=joined, halved=halved,
    )  # fmt: skip
    assert isinstance(trainer.working, Halves if halved else Itself)
    for epoch in range(2):
        trainer.begin([0.05] * 3, [made.weight(0.0)] * 3)
        feed.begin(torch.arange(COUNT), Noise.for_images(data.ids).fold(epoch).keys)
        for number, count in enumerate((SIZE, SIZE, COUNT - 2 * SIZE)):
            trainer.batch(number, Part(count, 1.0))
    return trainer


@pytest.mark.parametrize("recipe", ["standard", "gat", "trades", "rmgm"])
@pytest.mark.parametrize("channels_last", [False, True])
def test_cast_once_or_in_every_pass(recipe, channels_last):
    model = usual()
    scramble(model)
    if channels_last:
        model = model.to(memory_format=torch.channels_last)
    one, other = (trained(deepcopy(model), recipe, halved) for halved in (False, True))
    assert one.told() == other.told()
    theirs = other.model.state_dict()
    for name, value in one.model.state_dict().items():
        assert value.dtype == theirs[name].dtype
        assert torch.equal(value, theirs[name]), name
    moved = zip(other.model.parameters(), model.parameters(), strict=True)
    assert not any(torch.equal(new, old) for new, old in moved)


def test_only_what_autocast_would_cast_is_a_copy():
    model = build_model("resnet18-gat")
    twin = Halves(model)
    layers = {name for name, layer in model.named_modules() if isinstance(layer, (nn.Conv2d, nn.Linear))}
    for (name, half), whole in zip(twin.net.named_parameters(), model.parameters(), strict=True):
        cast = name.rpartition(".")[0] in layers
        assert (half is not whole, half.dtype == HALF) == (cast, cast), name
    assert all(a is b for a, b in zip(twin.net.buffers(), model.buffers(), strict=True))
    with torch.no_grad():
        for value in model.parameters():
            value.add_(1.0)
    twin.renew()
    for half, whole in zip(twin.parameters, twin.originals, strict=True):
        assert torch.equal(half, whole.to(half.dtype))
        assert half.stride() == whole.stride()


def test_weights_that_are_computed_from_others_are_left_alone():
    model = nn.Sequential(parametrizations.weight_norm(nn.Linear(4, 4)), nn.ReLU(), nn.Linear(4, 2))
    kinds = {name: value.dtype for name, value in Halves(model).net.named_parameters()}
    assert {kinds["2.weight"], kinds["2.bias"]} == {HALF}
    assert {kind for name, kind in kinds.items() if name.startswith("0.")} == {torch.float32}


def test_gradients_come_back_in_the_order_of_their_weights():
    model = nn.Sequential(nn.Conv2d(4, 6, 3), nn.Conv2d(6, 4, 3), nn.BatchNorm2d(4))
    model = model.to(memory_format=torch.channels_last)
    twin = Halves(model)
    grads = [drawn(number, *value.shape).to(value.dtype) for number, value in enumerate(twin.parameters)]
    assert grads[0].stride() != twin.originals[0].stride()
    grads[2] = grads[2].to(memory_format=torch.channels_last)
    for grad, wide, whole in zip(grads, twin.widened(grads), twin.originals, strict=True):
        assert wide.dtype == whole.dtype
        assert torch.equal(wide, grad.to(wide.dtype))
        assert wide.stride() == whole.stride()


class Closing(nn.Module):
    """Keeps functions that know its layers: those of a copy know the layers of the first."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.last = nn.Conv2d(3, 4, 3), nn.Linear(144, 5)
        self.steps = [lambda x: self.conv(x).relu().flatten(1)]

    def forward(self, images: Tensor) -> Tensor:
        return self.last(self.steps[0](images))


class Precise(nn.Module):
    """Takes care that its last layer computes in single precision."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.last = nn.Conv2d(3, 4, 3), nn.Linear(144, 5)

    def forward(self, images: Tensor) -> Tensor:
        found = self.conv(images).relu().flatten(1)
        with torch.autocast(images.device.type, enabled=False):
            return self.last(found.float())


class Replacing(nn.Module):
    """Puts a new tensor in the place of its buffer."""

    mean: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.net = usual()
        self.register_buffer("mean", torch.zeros(3))

    def forward(self, images: Tensor) -> Tensor:
        self.mean = 0.9 * self.mean + 0.1 * images.mean((0, 2, 3)).detach()
        return self.net(images - self.mean.view(-1, 1, 1))


@pytest.mark.parametrize(
    ("model", "can"), [(Closing, False), (Precise, False), (Replacing, False), (usual, True)]
)
def test_a_twin_is_tried_first(model, can):
    net = model().train()
    scramble(net)
    before, dice = deepcopy(net.state_dict()), torch.get_rng_state()
    assert can_be_halved(net, drawn(1, 4, 3, 8, 8)) == can
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert torch.get_rng_state().equal(dice)


@pytest.mark.parametrize(
    ("compiled", "kind", "awp", "wanted"),
    [
        (True, HALF, 0.0, Halves),
        (False, HALF, 0.0, Itself),
        (True, None, 0.0, Itself),
        (True, HALF, 0.1, Itself),
    ],
)
def test_a_twin_is_for_long_trainings_in_half_precision(compiled, kind, awp, wanted, monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda piece, **_: piece)
    monkeypatch.setattr(nn.Module, "compile", lambda *_, **__: None)
    model = usual().train()
    data = from_tensors(drawn(1, COUNT, 3, 8, 8), name="noise", labels=torch.arange(COUNT) % 5)
    device = torch.device("cpu")
    trainer = Trainer(
        model, DEFENSES.make("gat"), Settings(batch=SIZE, awp=awp), ThreatModel(LINF, 0.1),
        Resident(data, SIZE, device), SIZE, crop_flip(2), Precision(kind, kind),
        **means(model, data, device, kind, compiled)._asdict(),
    )  # fmt: skip
    assert type(trainer.working) is wanted
