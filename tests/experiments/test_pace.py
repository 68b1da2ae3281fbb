"""How fast images go through a network, by a clock that only the network moves."""

import pytest
import torch
from torch import nn

from experiments.toy import shop_at
from gamagat.errors import ModelError
from gamagat.experiments import pace
from gamagat.experiments.core import Network


class Slow(nn.Module):
    """Every pass takes its time, and every image a little more; every second pass is disturbed."""

    def __init__(self, each_pass, each_image, disturbed=0.0):
        super().__init__()
        self.now, self.passes = 0.0, 0
        self.each_pass, self.each_image, self.disturbed = each_pass, each_image, disturbed

    def forward(self, x):
        self.passes += 1
        self.now += self.each_pass + self.each_image * len(x) + self.disturbed * (self.passes % 2)
        return x.flatten(1).sum(1)


def looked(monkeypatch, **costs):
    model = Slow(**costs)
    monkeypatch.setattr(pace, "perf_counter", lambda: model.now)
    return pace._pace(model, torch.rand(1024, 1, 2, 2))


def test_a_pass_that_is_dear_whatever_its_size_is_shared_by_many_images(monkeypatch):
    found = looked(monkeypatch, each_pass=0.2, each_image=1e-4)
    assert found.forward == pytest.approx(0.2 / 1024 + 1e-4)


def test_where_more_images_only_take_longer_few_are_looked_at(monkeypatch):
    found = looked(monkeypatch, each_pass=0.0, each_image=0.05)
    assert found.forward == pytest.approx(0.05)


def test_other_processes_do_not_slow_the_forecast(monkeypatch):
    found = looked(monkeypatch, each_pass=0.0, each_image=1e-3, disturbed=5.0)
    assert found.forward == pytest.approx(1e-3)


def test_a_network_that_fails_is_looked_at_once(tmp_path):
    said: list[str] = []
    shop = shop_at(tmp_path)
    shop.say = said.append
    paces = pace.Paces(shop)
    for _ in range(3):
        with pytest.raises(ModelError, match=r"the network cannot take images of shape \(1, 8, 8\)"):
            paces.of(Network("digits", "m-lenet", "gat"))  # which is for images of 28 pixels
    assert said == ["looking at the pace of m-lenet on digits"]
