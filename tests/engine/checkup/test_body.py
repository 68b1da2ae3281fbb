from typing import Self

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gamagat.engine.doctor import examine
from gamagat.engine.request import EvaluationRequest, prepare
from helpers import images_like, seeded


class Stubborn(nn.Module):
    """Never leaves train mode."""

    def train(self, mode: bool = True) -> Self:
        return super().train(True)


class StubbornDropout(Stubborn, nn.Dropout):
    pass


class StubbornBatchNorm(Stubborn, nn.BatchNorm2d):
    pass


class AlwaysDropout(nn.Module):
    def forward(self, features: Tensor) -> Tensor:
        return F.dropout(features, 0.5, training=True)


class Noisy(nn.Module):
    def forward(self, features: Tensor) -> Tensor:
        return features + 0.1 * torch.from_numpy(np.random.normal(size=features.shape)).float()


class OwnStatistics(nn.Module):
    """Batch norm by hand that moves on with every pass, by a new buffer in place of the old."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(1, 6, 1, 1))

    def forward(self, features: Tensor) -> Tensor:
        self.mean = 0.9 * self.mean + 0.1 * features.mean((0, 2, 3), keepdim=True)
        return features - self.mean


def with_layer(layer: nn.Module) -> nn.Module:
    """A network in eval mode with this layer in its middle."""
    return seeded(lambda: nn.Sequential(nn.Conv2d(3, 6, 3), layer, nn.Flatten(), nn.Linear(216, 5)))


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("layer", [nn.BatchNorm2d(6), nn.Dropout(), nn.GroupNorm(2, 6), nn.InstanceNorm2d(6)])
def test_layers_that_obey_eval_mode_are_fine(found, own_data, layer, quick):
    model = with_layer(layer)
    assert found(model, own_data(model), quick=quick) == {}


def test_hooks_of_torch_itself_are_fine(found, own_data):
    with pytest.warns(FutureWarning, match="weight_norm"):
        model = with_layer(nn.utils.weight_norm(nn.Conv2d(6, 6, 1)))
    assert found(model, own_data(model)) == {}


def test_train_mode_is_found_and_named(findings, own_data):
    model = with_layer(nn.Dropout())
    data = own_data(model)
    (finding,) = findings(model.train(), data).values()
    assert (finding.check, finding.severity) == ("train-mode", "warn")
    assert "5 of 5 modules are in train mode, Dropout among them" in finding.seen


def test_a_container_in_train_mode_is_not_said_to_be_random(findings, own_data):
    """A network in eval mode behind its normalisation: nobody thinks of the new container's mode."""
    inner = with_layer(nn.BatchNorm2d(6))
    (finding,) = findings(nn.Sequential(nn.Identity(), inner.eval()), own_data(inner)).values()
    assert finding.check == "train-mode"
    assert "no dropout or batch norm among them" in finding.words
    assert "random" not in finding.words


def test_one_module_left_in_train_mode_is_found(found, own_data):
    model = with_layer(nn.BatchNorm2d(6))
    data = own_data(model)
    model[1].train()
    assert found(model, data) == {"train-mode": "warn"}


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("layer", [StubbornDropout(), AlwaysDropout(), Noisy()])
def test_randomness_in_eval_mode_stops(found, own_data, layer, quick):
    model = with_layer(layer)
    assert found(model, own_data(model), quick=quick)["non-determinism"] == "stop"


def test_randomness_is_no_obstacle_to_attacks_that_average_over_it(found, own_data):
    model = with_layer(Noisy())
    many = ["autoattack:version=rand", "apgd-ce:eot=5"]
    assert found(model, own_data(model), attacks=many)["non-determinism"] == "warn"
    assert found(model, own_data(model), attacks=[*many, "pgd"])["non-determinism"] == "stop"


def test_the_layer_that_eval_mode_does_not_reach_is_named(findings, own_data):
    model = with_layer(StubbornDropout())
    assert "look at 1." in findings(model, own_data(model))["non-determinism"].seen


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize(
    ("layer", "name"), [(StubbornBatchNorm(6), "1.running_mean"), (OwnStatistics(), "1.mean")]
)
def test_statistics_that_move_in_eval_mode_stop(findings, own_data, layer, name, quick):
    model = with_layer(layer)
    seen = findings(model, own_data(model), quick=quick)
    assert seen["moving-statistics"].stops
    assert name in seen["moving-statistics"].seen
    assert "non-determinism" not in seen


@pytest.mark.parametrize("quick", [True, False])
def test_logits_that_depend_on_the_other_images_stop(findings, own_data, quick):
    model = with_layer(nn.BatchNorm2d(6, track_running_stats=False))
    finding = findings(model, own_data(model), quick=quick)["batch-dependence"]
    assert finding.stops
    assert "look at 1." in finding.seen


def test_a_network_that_needs_company_is_found(findings):
    norm = nn.BatchNorm1d(10, track_running_stats=False)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10), norm).eval()
    assert "fails on a single image" in findings(model)["batch-dependence"].seen


def test_a_network_that_overwrites_its_images_is_found(found, broken):
    assert found(broken(before=lambda x: x.mul_(0.9)))["changed-input"] == "stop"


def test_writing_over_images_is_named_also_where_it_changes_nothing(digits, broken):
    worst = examine(broken(before=lambda x: x.clamp_(0, 1)), digits, device=torch.device("cpu"))[0]
    assert worst.check == "changed-input"
    assert "in place of" in worst.words


def test_leftover_gradients_are_found(found, own_data):
    model = with_layer(nn.Identity())
    data = own_data(model)
    model(images_like(2)).sum().backward()
    assert found(model, data) == {"leftover-gradients": "warn"}


def test_hooks_are_found_until_they_are_gone(found, own_data):
    model = with_layer(nn.Identity())
    data = own_data(model)
    handle = model[1].register_forward_hook(lambda *_: None)
    assert found(model, data) == {"hooks": "warn"}
    handle.remove()
    assert found(model, data) == {}


def test_weights_made_under_inference_mode_stop(found):
    with torch.inference_mode():
        model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    assert found(model) == {"inference-weights": "stop"}
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_half_precision_is_found(found, broken):
    assert found(broken(lambda z: z.bfloat16())) == {"low-precision": "warn"}


@pytest.mark.parametrize("suite", ["autoattack", "autoattack:eot=20"])
def test_looks_that_the_standard_suite_does_not_take_are_no_average(suite):
    """They are a setting of the suite whose other form averages."""
    request = EvaluationRequest("checkup.test_body:jittery", attacks=(suite,), device="cpu", force=True)
    assert {finding.check: finding.severity for finding in prepare(request).check()}[
        "non-determinism"
    ] == "stop"


def jittery() -> nn.Module:
    return seeded(lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 10), Noisy()))
