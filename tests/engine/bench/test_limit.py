"""Operations counted against a count by hand, and the machine's rate."""

import pytest
import torch
from torch import nn

from gamagat.engine.bench import limit
from gamagat.engine.bench.limit import Flops, flops_during, flops_of, machine_rate
from gamagat.errors import ConfigError

CPU = torch.device("cpu")


def test_a_convolution_is_counted_as_by_hand():
    layer = nn.Conv2d(3, 6, 3, padding=1, bias=False)
    forward = 2 * 6 * 8 * 8 * 3 * 9  # a product and a sum for each output, input channel and tap
    # Back to the image: the same products once more; the weights are constants and have no gradient.
    assert flops_of(layer, torch.rand(2, 3, 8, 8)) == Flops(forward, 2 * forward)


def test_layers_add_up_and_the_network_comes_back_as_it_was():
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 5)).train()
    forward = 2 * 4 * 36 * 9 + 2 * 4 * 36 * 5
    assert flops_of(net, torch.rand(3, 1, 8, 8)).forward == forward
    assert net.training
    assert all(weight.requires_grad and weight.grad is None for weight in net.parameters())


def test_a_training_pass_counts_the_weights_gradients_too():
    layer, x = nn.Linear(7, 5), torch.rand(4, 7)
    assert flops_during(lambda: layer(x).sum().backward()) == 2 * (2 * 4 * 7 * 5)


def test_passes_are_weighed():
    assert Flops(forward=10.0, gradient=25.0).of(forwards=3, backwards=2) == 3 * 10 + 2 * 15


def test_the_rate_is_that_of_a_product(monkeypatch):
    monkeypatch.setattr(limit, "WHILE", 0.01)
    monkeypatch.setattr(limit, "FIRST", 64)
    assert 1e7 < machine_rate(CPU, "fp32") < 1e15
    with pytest.raises(ConfigError, match=r"unknown precision 'fp8'; .*fp16"):
        machine_rate(CPU, "fp8")


def test_the_rate_is_operations_over_the_fastest_seconds(monkeypatch):
    monkeypatch.setattr(limit, "_side_for", lambda *_: 128)
    monkeypatch.setitem(limit.ROUNDS, "cpu", 4)
    monkeypatch.setattr(limit, "_wall", _clock())
    assert machine_rate(CPU) == pytest.approx(2 * 128**3 / 0.25)


def _clock():
    """A clock that says these seconds one after the other; the first does not count."""
    seconds = iter([0.01, 0.5, 0.25, 0.5, 1.0])
    return lambda action: next(seconds)
