"""The look after every epoch sees what an evaluation would see, and leaves the network as it was."""

from copy import deepcopy

import pytest
import torch
from torch import nn

from gamagat import evaluate
from gamagat.data.core import from_tensors, load_data
from gamagat.engine.training import probe
from gamagat.engine.training.probe import Probe, collapsed, probes
from gamagat.engine.training.step import Recorder
from gamagat.models.core import load_model
from gamagat.pieces.threat import LINF, ThreatModel
from helpers import images_like, seeded

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def network() -> nn.Module:
    return load_model("digits-cnn")


@pytest.fixture(scope="module")
def digits(network):
    """Test digits that the network knows: an evaluation attacks no others, the probe does."""
    data = load_data("digits", "test")
    x, y = data.batch(torch.arange(len(data)))
    with torch.no_grad():
        return data.take(network(x).argmax(1) == y).head(150)


@pytest.mark.parametrize("eps", [0.1, 0.2, 0.3])
def test_accuracies_are_those_of_an_evaluation(network, digits, eps):
    seen = Probe(digits, ThreatModel(LINF, eps), CPU, probes(None), batch_size=64).look(network)
    # An evaluation stops at the first success; on these images no later step undoes one.
    specs = {"fgsm": "fgsm", "selection": "ifgsm:steps=7", "pgd-10": "pgd:steps=10"}
    found = evaluate(network, digits, eps=eps, attacks=list(specs.values()))
    shares = {attack.name: attack.standing.percent for attack in found.attacks}
    assert seen["clean"] == found.clean.percent
    for name in ("fgsm", "selection"):
        assert seen[name] == shares[specs[name]]
    assert seen["pgd-10"] == pytest.approx(shares[specs["pgd-10"]], abs=3.0)  # other random starts
    assert seen["pgd-10"] <= seen["fgsm"] < 100


def test_the_size_of_its_batches_changes_nothing(network, digits):
    looks = [
        Probe(digits.head(50), ThreatModel(LINF, 0.3), CPU, probes(None), batch_size=size).look(network)
        for size in (7, 1000)
    ]
    assert looks[0] == pytest.approx(looks[1])


@pytest.mark.parametrize("staying", [probe.STAYING, 0])
def test_a_recorder_plays_looks_at_the_network_as_it_is_now(network, digits, monkeypatch, staying):
    monkeypatch.setattr(probe, "STAYING", staying)
    network, played = deepcopy(network), []

    class Told(Recorder):
        def play(self, key, step):
            played.append(key)
            step()

    threat = ThreatModel(LINF, 0.2)
    plain, recorded = (
        Probe(digits.head(50), threat, CPU, probes(None), batch_size=20, recorder=recorder)
        for recorder in (None, Told(CPU))
    )
    first = recorded.look(network)
    assert first == plain.look(network)
    with torch.no_grad():
        for value in network.parameters():
            value.mul_(0.7)
    assert recorded.look(network) == plain.look(network) != first
    assert len(played) == (6 if staying else 0)
    assert len(set(played)) == (3 if staying else 0)  # the same operations, part by part


@pytest.mark.parametrize(("preset", "steps"), [(None, 7), ("cifar10", 7), ("mnist", 40), ("imagenet", 20)])
def test_epochs_are_selected_by_the_attack_of_the_data(preset, steps):
    chosen = probes(preset)
    assert {name: attack.steps for name, attack in chosen.items()} == {
        "fgsm": 1,
        "pgd-10": 10,
        "selection": steps,
    }


def test_the_network_comes_back_as_it_was():
    net = seeded(
        lambda: nn.Sequential(
            nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.Flatten(), nn.Dropout(0.5), nn.Linear(108, 4)
        )
    ).train()
    net[1].eval()
    net[4].bias.requires_grad_(False)
    before = {key: value.clone() for key, value in net.state_dict().items()}
    modes, wanted = [m.training for m in net.modules()], [p.requires_grad for p in net.parameters()]
    state = torch.get_rng_state()
    data = from_tensors(images_like(20, 1), name="any", labels=torch.arange(20) % 4)
    looking = Probe(data, ThreatModel(LINF, 0.1), CPU, probes(None))
    assert looking.look(net) == looking.look(net)  # in evaluation mode: no unit is dropped
    assert [m.training for m in net.modules()] == modes
    assert [p.requires_grad for p in net.parameters()] == wanted
    assert all(p.grad is None for p in net.parameters())
    assert all(torch.equal(before[key], value) for key, value in net.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state)


def test_a_network_that_returns_nan_is_right_about_nothing():
    class Lost(nn.Module):
        def forward(self, x):
            return x.flatten(1)[:, :4] * float("nan")

    data = from_tensors(images_like(10, 1), name="any", labels=torch.zeros(10).long())
    seen = Probe(data, ThreatModel(LINF, 0.1), CPU, probes(None)).look(Lost())
    assert set(seen.values()) == {0.0}
    assert not collapsed(seen)


@pytest.mark.parametrize(
    ("fgsm", "pgd", "expected"),
    [
        (80.0, 0.0, True),
        (50.0, 24.0, True),
        (50.0, 25.0, False),  # half is left
        (90.0, 60.0, False),
        (20.0, 0.0, False),  # 20 points are not more than 20
        (20.1, 0.0, True),
        (10.0, 0.0, False),
        (0.0, 0.0, False),
        (40.0, 45.0, False),
    ],
)
def test_a_network_has_collapsed_when_it_resists_one_step_but_not_ten(fgsm, pgd, expected):
    assert collapsed({"clean": 90.0, "fgsm": fgsm, "pgd-10": pgd, "selection": 50.0}) is expected
