"""How many parameters each network has, and that each one runs, differentiates and starts as published."""

from itertools import pairwise

import pytest
import torch
from model_helpers import empty
from torch import nn

from gamagat.models.core import MODELS, build_model


def resnet18_parameters(classes: int, stem: int, affine_shortcut: bool = True) -> int:
    """Convolutions of 9 in out weights, BN of 2 out, and three shortcuts of in out."""
    blocks = 4 * (9 * 64 * 64 + 2 * 64)
    for width in (128, 256, 512):
        blocks += 9 * width * (width // 2 + 3 * width) + 4 * 2 * width
        blocks += width * width // 2 + 2 * width * affine_shortcut
    return 3 * 64 * stem**2 + 2 * 64 + blocks + 512 * classes + classes


def preact18_parameters() -> int:
    """As ResNet-18, but BN stands before each convolution and shortcuts have none."""
    norms = 2 * (4 * 64 + sum(width // 2 + 3 * width for width in (128, 256, 512)) + 512)
    plain = resnet18_parameters(10, 3, affine_shortcut=False)
    after = 2 * 64 + 2 * (4 * 64 + 4 * (128 + 256 + 512))
    return plain - after + norms


def wrn_parameters(depth: int, width: int, biases: bool = False) -> int:
    count, sizes = (depth - 4) // 6, [16 * width * 2**group for group in range(3)]
    total, incoming = 3 * 16 * 9 + biases * 16, 16
    for size in sizes:
        total += 9 * (incoming * size + (2 * count - 1) * size * size) + incoming * size  # with the shortcut
        total += 2 * (incoming + (2 * count - 1) * size) + biases * (2 * count + 1) * size
        incoming = size
    return total + 2 * incoming + 10 * incoming + 10


def resnet50_parameters(classes: int, stem: int) -> int:
    """Each block: in w + 9 w w + 4 w w weights and BN of 2 (w + w + 4w); the first also projects."""
    total, incoming = 3 * 64 * stem**2 + 2 * 64, 64
    for depth, width in zip((3, 4, 6, 3), (64, 128, 256, 512), strict=True):
        rest = 4 * width * width + 9 * width * width + 4 * width * width + 12 * width
        first = rest - 4 * width * width + incoming * width + 4 * width * incoming + 8 * width
        total, incoming = total + first + (depth - 1) * rest, 4 * width
    return total + 2048 * classes + classes


ALEXNET_CONVS = [(3, 64, 11), (64, 192, 5), (192, 384, 3), (384, 256, 3), (256, 256, 3)]
SMALL_CNN_CONVS = [(1, 32, 3), (32, 32, 3), (32, 64, 3), (64, 64, 3)]


def chain_parameters(convs: list[tuple[int, int, int]], widths: tuple[int, ...]) -> int:
    """Convolutions, then linear layers, all with bias."""
    linear = sum(one * two + two for one, two in pairwise(widths))
    return sum(incoming * outgoing * size**2 + outgoing for incoming, outgoing, size in convs) + linear


@pytest.mark.parametrize(
    ("name", "published", "derived"),
    [
        ("resnet18", 11_173_962, resnet18_parameters(10, 3)),
        ("resnet18-gat", 11_173_962, resnet18_parameters(10, 3)),
        ("resnet18-imagenet:classes=1000", 11_689_512, resnet18_parameters(1000, 7)),
        ("preact-resnet18", 11_172_170, preact18_parameters()),
        ("preact-resnet18-fbf", 11_172_170 - 1024, preact18_parameters() - 2 * 512),
        ("wrn-28-10", 36_479_194, wrn_parameters(28, 10)),
        ("wrn-34-10", 46_160_474, wrn_parameters(34, 10)),
        ("wrn-34-20", 184_531_674, wrn_parameters(34, 20)),
        ("wrn-34-10-gat", 46_160_474 + 16 + 11 * (160 + 320 + 640), wrn_parameters(34, 10, biases=True)),
        ("resnet50-imagenet", 25_557_032, resnet50_parameters(1000, 7)),
        ("alexnet:classes=1000", 61_100_840, chain_parameters(ALEXNET_CONVS, (9216, 4096, 4096, 1000))),
        ("small-cnn", 312_202, chain_parameters(SMALL_CNN_CONVS, (1024, 200, 200, 10))),
    ],
)
def test_number_of_parameters_is_the_published_one(name: str, published: int, derived: int) -> None:
    assert sum(value.numel() for value in empty(name).parameters()) == published == derived


IMAGES = {
    "m-lenet": 28,
    "bb-mnist": 28,
    "small-cnn": 28,
    "digits-cnn": 8,
    "alexnet": 224,
    "resnet18-imagenet": 64,
}
GREY = {"m-lenet", "bb-mnist", "small-cnn", "digits-cnn"}
HEAVY = {"alexnet", "resnet50-imagenet", *(name for name in MODELS.names() if name.startswith("wrn-"))}


@pytest.mark.parametrize("name", [name for name in MODELS.names() if name not in HEAVY])
def test_a_fresh_network_maps_images_to_logits_with_gradients(name: str) -> None:
    spec = f"{name}:depth=10,width=1" if name.startswith("wrn") else name
    net = build_model(spec, classes=7).eval()
    channels = 1 if name in GREY else 3
    x = torch.rand(2, channels, IMAGES.get(name, 32), IMAGES.get(name, 32), requires_grad=True)
    logits = net(x)
    assert logits.shape == (2, 7)
    assert logits.dtype == torch.float32
    (gradient,) = torch.autograd.grad(logits.square().sum(), x)
    assert gradient.isfinite().all()
    # The public small-cnn starts with a last layer of zeros: its first logits and gradients are zero.
    assert name == "small-cnn" or gradient.abs().sum() > 0


@pytest.mark.parametrize("name", sorted(HEAVY))
def test_a_large_network_maps_shapes(name: str) -> None:
    net = empty(name, classes=7)
    size = 224 if name in ("alexnet", "resnet50-imagenet") else 32
    assert net(torch.empty(2, 3, size, size, device="meta")).shape == (2, 7)


@pytest.mark.parametrize("name", MODELS.names())
def test_every_network_says_what_it_is_and_takes_its_number_of_classes(name: str) -> None:
    assert 20 < len(MODELS[name].summary) <= 110
    defaults = MODELS[name].defaults()
    assert isinstance(defaults["classes"], int)
    assert name == "resnet50-madry" or defaults["channels"] in (1, 3)


def test_initial_weights_are_those_of_trades() -> None:
    torch.manual_seed(0)
    wide = build_model("wrn:depth=10,width=4")
    weight = wide.state_dict()["block3.layer.0.conv2.weight"]
    assert weight.std().item() == pytest.approx((2 / (9 * 256)) ** 0.5, rel=0.01)
    assert not wide.state_dict()["fc.bias"].any()
    last = build_model("small-cnn").state_dict()
    assert not last["classifier.fc3.weight"].any()
    assert not last["classifier.fc3.bias"].any()


def test_dropout_is_active_in_training_only() -> None:
    for spec in ("wrn:depth=10,width=1,dropout=0.5", "wrn-gat:depth=10,width=1,dropout=0.5", "bb-mnist"):
        torch.manual_seed(0)
        net = build_model(spec)
        for layer in net.modules():
            if isinstance(layer, nn.BatchNorm2d):
                layer.eval()
        x = torch.rand(2, 1 if spec == "bb-mnist" else 3, 28, 28)
        assert not torch.equal(net(x), net(x))
        assert torch.equal(net.eval()(x), net(x))
