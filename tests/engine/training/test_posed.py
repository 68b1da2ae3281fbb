"""What attacks see while a network is trained: its weights of this moment, folded and in half precision."""

from copy import deepcopy

import pytest
import torch
from model_helpers import scramble
from quick.nets import Remembering, Viewing, nearly, usual, weighted
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from gamagat.data.core import from_tensors
from gamagat.defenses.core import DEFENSES, Precision
from gamagat.defenses.views import can_be_joined
from gamagat.engine.easing import ease
from gamagat.engine.training.feed import Part, Resident
from gamagat.engine.training.posed import Posed, given_back, pose
from gamagat.engine.training.probe import Probe, probes
from gamagat.engine.training.settings import Settings
from gamagat.engine.training.step import Trainer
from gamagat.models.core import build_model
from gamagat.pieces.augment import untouched
from gamagat.pieces.noise import Noise
from gamagat.pieces.threat import LINF, ThreatModel
from helpers import images_like


class Running(nn.Module):
    """A norm that somebody wrote, with statistics of its own."""

    mean: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.full((3,), 0.4))
        self.net = usual()

    def forward(self, images: Tensor) -> Tensor:
        return self.net(images - self.mean.view(-1, 1, 1))


class Aliased(nn.Module):
    """Adds in place to what it uses again: a traced copy does otherwise, as soon as the gain is not zero."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.conv, self.last = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 3, padding=1), nn.Linear(288, 5)
        self.gain = nn.Parameter(torch.zeros(1, 8, 1, 1))

    def forward(self, images: Tensor) -> Tensor:
        skip = self.stem(images)
        same = skip
        skip += self.gain * self.conv(skip.tanh())
        return self.last((torch.relu(skip) + same).flatten(1))


NETWORKS = {
    "own statistics": Running,
    "usual": usual,
    "normalised first": lambda: build_model("wrn:depth=10,width=1"),
    "GAT's block": lambda: build_model("resnet18-gat"),
    "grey, with linear layers": lambda: build_model("m-lenet"),
    "a view": Viewing,
}


def shown(name: str, count: int) -> Tensor:
    sizes = {"grey, with linear layers": (1, 28), "GAT's block": (3, 32), "normalised first": (3, 32)}
    channels, side = sizes.get(name, (3, 8))
    return torch.rand(count, channels, side, side, generator=torch.Generator().manual_seed(2))


def moved(model: nn.Module) -> None:
    """As training moves it: all weights, and the statistics of batch norms."""
    dice = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for value in (*model.parameters(), *model.buffers()):
            if value.is_floating_point():
                value.mul_(1 + 0.3 * torch.rand(value.shape, generator=dice))


@pytest.mark.parametrize("name", NETWORKS)
def test_it_follows_the_network(name):
    model = scramble(NETWORKS[name]()).eval()
    posed = Posed(model, compiled=False)
    images = shown(name, 20 if name == "usual" else 4)
    before = posed(images).float()
    moved(model)
    assert torch.equal(posed(images).float(), before)
    posed.renew()
    assert not torch.allclose(posed(images).float(), before, rtol=0.05)
    for old, new in zip(Posed(model, compiled=False).net.state_dict().items(),
                        posed.net.state_dict().items(), strict=True):  # fmt: skip
        assert old[0] == new[0]
        torch.testing.assert_close(new[1], old[1], rtol=2e-3, atol=1e-5)
    if name == "usual":  # deep ones with random weights are chaotic in half precision
        nearly(model, posed, images)


def test_the_network_is_left_as_it_was():
    model = usual().train()
    before = deepcopy(model.state_dict())
    assert pose(model, images_like(8), compiled=False) is not None
    assert model.training
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize("model", [Remembering(), weighted(parametrizations.weight_norm), Aliased()])
def test_a_network_that_cannot_be_copied_so_is_attacked_itself(model):
    assert pose(model, images_like(8), compiled=False) is None


@pytest.mark.parametrize(("recipe", "asked"), [("gat", 1), ("trades", 11), ("fbf", 0)])
def test_attacks_in_evaluation_mode_ask_it_and_no_others(recipe, asked):
    model = usual().train()
    posed = Posed(model, compiled=False)
    count, renewed = 0, 0
    answer, renew = posed.answer, posed.renew

    def counted(images: Tensor) -> Tensor:
        nonlocal count
        count += 1
        return answer(images)

    def once() -> None:
        nonlocal renewed
        renewed += 1
        renew()

    posed.answer, posed.renew = counted, once
    data = from_tensors(images_like(8), name="noise", labels=torch.arange(8) % 5)
    feed, made = Resident(data, 8, torch.device("cpu")), DEFENSES.make(recipe)
    trainer = Trainer(
        model, made, Settings(batch=8), ThreatModel(LINF, 0.1), feed, 8, untouched,
        Precision(torch.float16, None), posed=posed,
    )  # fmt: skip
    trainer.begin([0.05], [made.weight(0.0)])
    feed.begin(torch.arange(8), Noise.for_images(data.ids).keys)
    trainer.batch(0, Part(8, 1.0))
    assert (count, renewed) == (asked, int(asked > 0))
    stale = deepcopy(posed.net.state_dict())
    posed.renew()  # the step has moved the weights
    assert any(not torch.equal(value, stale[name]) for name, value in posed.net.state_dict().items())


def test_a_probe_sees_by_it_what_it_sees_by_the_network():
    model = usual().train()
    data = from_tensors(images_like(40), name="noise", labels=torch.arange(40) % 5)
    probe = Probe(data, ThreatModel(LINF, 0.1), torch.device("cpu"), probes("digits"), torch.float16, 40)
    posed = Posed(model, compiled=False)
    moved(model)
    ours, plain = probe.look(model, posed), probe.look(model)
    assert ours["clean"] == plain["clean"]
    assert ours["pgd-10 validation loss"] == pytest.approx(plain["pgd-10 validation loss"], rel=0.02)
    assert all(abs(ours[name] - plain[name]) <= 5 for name in ("fgsm", "pgd-10", "selection"))  # two images


def test_a_probe_asks_the_stand_in_alone():
    model = usual().train()
    scramble(model)
    other = deepcopy(model)
    moved(other)
    data = from_tensors(images_like(40), name="noise", labels=torch.arange(40) % 5)
    probe = Probe(data, ThreatModel(LINF, 0.1), torch.device("cpu"), probes("digits"), torch.float16, 40)
    assert probe.look(model, Posed(other, compiled=False)) == probe.look(other, Posed(other, compiled=False))


def test_a_network_is_given_back_as_it_was():
    model = usual()
    kinds = [type(layer) for layer in model.modules()]
    ease(model)
    assert can_be_joined(model, images_like(4))
    assert [type(layer) for layer in model.modules()] != kinds
    given_back(model)
    assert [type(layer) for layer in model.modules()] == kinds
