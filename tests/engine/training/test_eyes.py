"""A stand-in of the moment may be attacked in place of the network, which decides what fell."""

from copy import deepcopy
from threading import Thread

import pytest
import torch
from torch import nn
from training.small_training import trained, write_images

from gamagat.data.core import load_data
from gamagat.engine.quick.network import Quick
from gamagat.engine.training import eyes, probe
from gamagat.engine.training.eyes import Eyes, quick_eyes
from gamagat.engine.training.probe import Probe, probes
from gamagat.engine.watch import Onlooker
from gamagat.models.core import load_model
from gamagat.pieces.noise import Noise
from gamagat.pieces.threat import LINF, ThreatModel

CPU = torch.device("cpu")
THREAT = ThreatModel(LINF, 0.2)
PASSES = 1 + 10 + 7  # of an image through the network under all attacks


@pytest.fixture
def network() -> nn.Module:
    return load_model("digits-cnn")


@pytest.fixture(scope="module")
def digits():
    return load_data("digits", "test").head(90)


def looking(digits, **more):
    return Probe(digits, THREAT, CPU, probes(None), batch_size=50, **more)


def test_a_look_by_a_stand_in_sees_what_the_network_sees_and_follows_its_weights(network, digits):
    plain, quick = looking(digits), looking(digits, quick=True)
    before = deepcopy(network.state_dict())
    looks = []
    for _ in range(2):
        looks.append(quick.look(network))
        assert looks[-1] == pytest.approx(plain.look(network), abs=1.2)  # one image
        assert quick.look(network) == looks[-1]  # the same weights, the same bits
        assert all(torch.equal(before[key], value) for key, value in network.state_dict().items())
        with torch.no_grad():
            for value in network.parameters():
                value.mul_(0.7)
        before = deepcopy(network.state_dict())
    assert looks[0] != looks[1]


def test_attacks_see_the_stand_in_and_the_network_decides(network, digits, monkeypatch):
    seen = {"network": 0, "stand-in": 0}

    def counting(which, model):
        def answer(images):
            seen[which] += len(images)
            return model(images)

        return answer

    monkeypatch.setattr(
        eyes, "quickened", lambda model, *_: Quick(counting("stand-in", deepcopy(model)), "a copy")
    )
    monkeypatch.setattr(Probe, "_cast", lambda self, model: counting("network", model))
    plain = looking(digits).look(network)
    assert seen == {"network": 90 * (PASSES + 4), "stand-in": 0}
    seen["network"] = 0
    assert looking(digits, quick=True).look(network) == plain
    assert seen == {"network": 90 * (4 + 3), "stand-in": 90 * (PASSES + 3)}


def blind(images):
    """Takes everything for another class, whatever it is."""
    return images.flatten(1)[:, :10] * 0 + torch.nan


def unable(images):
    raise MemoryError("no room")


def unable_on_the_way_back(images):
    class Broken(torch.autograd.Function):
        @staticmethod
        def forward(ctx, images):
            return images.flatten(1)[:, :10].clone()

        @staticmethod
        def backward(ctx, *grads):
            raise RuntimeError("no way back")

    return Broken.apply(images)


@pytest.mark.parametrize("stand_in", [blind, unable, unable_on_the_way_back])
def test_where_a_stand_in_is_of_no_use_the_network_itself_is_attacked(network, digits, stand_in):
    x, y = digits.batch(torch.arange(50))
    noise = Noise.for_images(digits.ids[:50])
    with torch.no_grad():
        right = network(x).argmax(1) == y
    network.requires_grad_(False)
    for attack in probes(None).values():
        images = attack(network, x, y, THREAT, noise)
        others = Eyes(network, stand_in).attacked(attack, x, y, THREAT, noise)
        with torch.no_grad():
            fallen, also = (network(found).argmax(1) != y for found in (images, others))
        assert torch.equal(fallen[right], also[right])
        assert bool(fallen[right].any())


def test_a_stand_in_that_does_not_agree_is_refused(network, digits):
    sample, _ = digits.batch(torch.arange(32))
    assert quick_eyes(network.eval(), sample) is not None

    class ByChance(nn.Module):
        def forward(self, images):
            return torch.rand(len(images), 10) + images.flatten(1)[:, :10]

    assert quick_eyes(ByChance(), sample) is None


def test_only_the_main_thread_makes_one(network, digits):
    sample, made = digits.batch(torch.arange(32))[0], []
    thread = Thread(target=lambda: made.append(quick_eyes(network, sample)))
    thread.start()
    thread.join()
    assert made == [None]


def test_a_look_tells_how_far_it_is(network, digits):
    told = []
    onlooker = Onlooker(lambda what, done, total: told.append((done, total)))
    looking(digits, onlooker=onlooker, quick=True).look(network)
    done = [part for part, _ in told]
    assert {total for _, total in told} == {90}
    assert (done[0], done[-1]) == (0, 90)
    assert done == sorted(done)
    assert len(set(done)) >= 2 * PASSES  # with every pass of each of two parts


def test_on_a_gpu_a_look_tells_nothing_and_has_no_stand_in(network, digits):
    gpu = Probe(digits, THREAT, torch.device("cuda"), probes(None), quick=True)
    assert gpu._eyes(network, None)[1:] == (None, None)


@pytest.mark.parametrize(("changes", "made"), [({}, 3), ({"precision": "fp32"}, 0), ({"ema": 0.9}, 3)])
def test_training_looks_by_one_after_each_epoch_unless_precision_forbids_it(
    tmp_path, monkeypatch, changes, made
):
    asked = []
    monkeypatch.setattr(probe, "quick_eyes", lambda *_: asked.append(1))
    trained(write_images(tmp_path), tmp_path / "run", model="with_norm", epochs=3, **changes)
    assert len(asked) == made
