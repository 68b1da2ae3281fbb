"""Input normalisation as a layer."""

import pytest
import torch

from gamagat.errors import ConfigError
from gamagat.models.core import Normalize, Normalized, build_model

STATISTICS = {
    "cifar10": ((0.4914, 0.4822, 0.4465), (0.2471, 0.2435, 0.2616)),
    "cifar10-madry": ((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)),
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
}


@pytest.mark.parametrize("name", STATISTICS)
def test_named_normalisation_stands_in_front_of_the_network(name: str) -> None:
    net = build_model(f"resnet18:normalize={name}").eval()
    assert isinstance(net, Normalized)
    x = torch.rand(2, 3, 32, 32)
    mean, std = (torch.tensor(numbers)[:, None, None] for numbers in STATISTICS[name])
    assert torch.equal(net.normalize(x), (x - mean) / std)
    assert torch.equal(net(x), net.net((x - mean) / std))


def test_half_is_two_x_minus_one_for_any_number_of_channels() -> None:
    for spec, channels in (("wrn:depth=10,width=1,normalize=half", 3), ("digits-cnn:normalize=half", 1)):
        net = build_model(spec)
        x = torch.rand(2, channels, 8, 8)
        assert torch.equal(net.get_submodule("normalize")(x), 2 * x - 1)


@pytest.mark.parametrize("name", ["preact-resnet18", "preact-resnet18-fbf"])
def test_preact_networks_normalise_unless_told_not_to(name: str) -> None:
    net = build_model(name)
    assert isinstance(net, Normalized)
    assert net.normalize.std.flatten().tolist() == pytest.approx([0.2471, 0.2435, 0.2616])
    assert not isinstance(build_model(f"{name}:normalize=none"), Normalized)


def test_the_numbers_are_not_saved_with_the_weights() -> None:
    plain, wrapped = build_model("digits-cnn"), build_model("digits-cnn:normalize=half")
    assert list(wrapped.state_dict()) == [f"net.{key}" for key in plain.state_dict()]


def test_the_layer_follows_the_network_to_another_precision() -> None:
    layer = Normalize((0.5,), (0.25,)).double()
    assert layer(torch.rand(1, 1, 2, 2, dtype=torch.float64)).dtype == torch.float64
    assert "std=[0.25]" in repr(layer)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("resnet18:normalize=cifar", "unknown normalisation 'cifar'; did you mean 'cifar10'?"),
        ("preact-resnet18:normalize=cifar", "did you mean 'cifar10'?"),
        ("digits-cnn:normalize=cifar10", "is for images of 3 channels, the network takes 1"),
    ],
)
def test_a_wrong_normalisation_is_refused_in_words(spec: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build_model(spec)
    assert words in str(caught.value)


@pytest.mark.parametrize(("mean", "std"), [((), ()), ((0.5,), (0.5, 0.5)), ((0.5,), (0.0,))])
def test_numbers_that_cannot_be_are_refused(mean: tuple[float, ...], std: tuple[float, ...]) -> None:
    with pytest.raises(ConfigError, match="one number a channel"):
        Normalize(mean, std)
