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
from gamagat.engine.training.halves import Halves
from gamagat.engine.training.settings import Settings
from gamagat.engine.training.step import Trainer
from gamagat.models.core import build_model
from gamagat.pieces.augment import crop_flip
from gamagat.pieces.noise import Noise
from gamagat.pieces.threat import LINF, ThreatModel

COUNT, SIZE, HALF = 20, 8, torch.float16


def drawn(seed: int, *shape: int) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed))


def trained(model: nn.Module, recipe: str, halved: bool, side: int) -> Trainer:
    """After two epochs, each of two whole batches and a rest."""
    data = from_tensors(drawn(1, COUNT, 3, side, side), name="noise", labels=torch.arange(COUNT) % 5)
    feed, made = Resident(data, SIZE, torch.device("cpu")), DEFENSES.make(recipe)
    joined = can_be_joined(model, drawn(3, 4, 3, side, side))
    trainer = Trainer(
        model.train(), made, Settings(batch=SIZE), ThreatModel(LINF, 0.1), feed, SIZE, crop_flip(2),
        Precision(HALF, HALF), joined=joined,
    )  # fmt: skip
    if halved:
        trainer.working = Halves(model, HALF)
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
    one, other = (trained(deepcopy(model), recipe, halved, 8) for halved in (False, True))
    assert one.told() == other.told()
    theirs = other.model.state_dict()
    for name, value in one.model.state_dict().items():
        assert value.dtype == theirs[name].dtype
        assert torch.equal(value, theirs[name]), name
    moved = zip(other.model.parameters(), model.parameters(), strict=True)
    assert not any(torch.equal(new, old) for new, old in moved)


def test_only_what_autocast_would_cast_is_a_copy():
    model = build_model("resnet18-gat")
    twin = Halves(model, HALF)
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
    kinds = {name: value.dtype for name, value in Halves(model, HALF).net.named_parameters()}
    assert {kinds["2.weight"], kinds["2.bias"]} == {HALF}
    assert {kind for name, kind in kinds.items() if name.startswith("0.")} == {torch.float32}


def test_gradients_come_back_in_the_order_of_their_weights():
    model = nn.Sequential(nn.Conv2d(4, 6, 3), nn.Conv2d(6, 4, 3), nn.BatchNorm2d(4))
    model = model.to(memory_format=torch.channels_last)
    twin = Halves(model, HALF)
    grads = [drawn(number, *value.shape).to(value.dtype) for number, value in enumerate(twin.parameters)]
    assert grads[0].stride() != twin.originals[0].stride()
    grads[2] = grads[2].to(memory_format=torch.channels_last)
    for grad, wide, whole in zip(grads, twin.widened(grads), twin.originals, strict=True):
        assert wide.dtype == whole.dtype
        assert torch.equal(wide, grad.to(wide.dtype))
        assert wide.stride() == whole.stride()
