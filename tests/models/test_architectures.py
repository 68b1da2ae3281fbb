"""Names and shapes of every registered network, against what its publication says."""

from collections.abc import Callable

import pytest
from model_helpers import empty
from torch import nn

Shapes = dict[str, tuple[int, ...]]


def norm(name: str, width: int) -> Shapes:
    return {f"{name}.{part}": (width,) for part in ("weight", "bias", "running_mean", "running_var")}


def affine(name: str, *shape: int, bias: bool = True) -> Shapes:
    return {f"{name}.weight": shape} | ({f"{name}.bias": shape[:1]} if bias else {})


def conv(name: str, outgoing: int, incoming: int, size: int, bias: bool = False) -> Shapes:
    return affine(name, outgoing, incoming, size, size, bias=bias)


def shapes(net: nn.Module) -> Shapes:
    state = net.state_dict()
    return {key: tuple(value.shape) for key, value in state.items() if "num_batches_tracked" not in key}


def basic_stages(shortcut: str) -> Shapes:
    expected: Shapes = {}
    incoming = 64
    for layer, width in enumerate((64, 128, 256, 512), start=1):
        for block in range(2):
            at = f"layer{layer}.{block}"
            expected |= conv(f"{at}.conv1", width, incoming, 3) | norm(f"{at}.bn1", width)
            expected |= conv(f"{at}.conv2", width, width, 3) | norm(f"{at}.bn2", width)
            if incoming != width:
                expected |= conv(f"{at}.{shortcut}.0", width, incoming, 1) | norm(f"{at}.{shortcut}.1", width)
            incoming = width
    return expected


def bottleneck_stages(shortcut: str) -> Shapes:
    expected: Shapes = {}
    incoming = 64
    for layer, (depth, width) in enumerate(zip((3, 4, 6, 3), (64, 128, 256, 512), strict=True), start=1):
        for block in range(depth):
            at, outgoing = f"layer{layer}.{block}", 4 * width
            expected |= conv(f"{at}.conv1", width, incoming, 1) | norm(f"{at}.bn1", width)
            expected |= conv(f"{at}.conv2", width, width, 3) | norm(f"{at}.bn2", width)
            expected |= conv(f"{at}.conv3", outgoing, width, 1) | norm(f"{at}.bn3", outgoing)
            if incoming != outgoing:
                expected |= conv(f"{at}.{shortcut}.0", outgoing, incoming, 1)
                expected |= norm(f"{at}.{shortcut}.1", outgoing)
            incoming = outgoing
    return expected


@pytest.mark.parametrize("name", ["resnet18", "resnet18-gat"])
def test_small_resnet18_has_the_public_names(name: str) -> None:
    stem = conv("conv1", 64, 3, 3) | norm("bn1", 64)
    assert shapes(empty(name)) == stem | basic_stages("shortcut") | affine("linear", 10, 512)


def test_small_resnet50_has_the_public_names() -> None:
    stem = conv("conv1", 64, 3, 3) | norm("bn1", 64)
    assert shapes(empty("resnet50")) == stem | bottleneck_stages("shortcut") | affine("linear", 10, 2048)


def test_madry_resnet50_has_the_names_of_its_library() -> None:
    inner = {f"model.{key}": shape for key, shape in shapes(empty("resnet50")).items()}
    numbers = {"normalizer.new_mean": (3, 1, 1), "normalizer.new_std": (3, 1, 1)}
    assert shapes(empty("resnet50-madry")) == numbers | inner


@pytest.mark.parametrize(
    ("name", "stages", "features"),
    [("resnet18-imagenet", basic_stages, 512), ("resnet50-imagenet", bottleneck_stages, 2048)],
)
def test_imagenet_resnets_have_torchvisions_names(
    name: str, stages: Callable[[str], Shapes], features: int
) -> None:
    stem = conv("conv1", 64, 3, 7) | norm("bn1", 64)
    assert shapes(empty(name, 7)) == stem | stages("downsample") | affine("fc", 7, features)


@pytest.mark.parametrize(
    ("spec", "final_bn"),
    [
        ("preact-resnet18", True),
        ("preact-resnet18-fbf", False),
        ("preact-resnet18-fbf:bn_before_fc=true", True),
    ],
)
def test_preact_resnet18_has_the_public_names(spec: str, final_bn: bool) -> None:
    expected = conv("conv1", 64, 3, 3) | affine("linear", 10, 512) | (norm("bn", 512) if final_bn else {})
    incoming = 64
    for layer, width in enumerate((64, 128, 256, 512), start=1):
        for block in range(2):
            at = f"layer{layer}.{block}"
            expected |= norm(f"{at}.bn1", incoming) | conv(f"{at}.conv1", width, incoming, 3)
            expected |= norm(f"{at}.bn2", width) | conv(f"{at}.conv2", width, width, 3)
            if incoming != width:
                expected |= conv(f"{at}.shortcut.0", width, incoming, 1)
            incoming = width
    joined = "," if ":" in spec else ":"
    assert shapes(empty(f"{spec}{joined}normalize=none")) == expected


@pytest.mark.parametrize(
    ("name", "depth", "width"), [("wrn-28-10", 28, 10), ("wrn-34-10", 34, 10), ("wrn-34-20", 34, 20)]
)
def test_wide_resnets_have_the_names_of_trades(name: str, depth: int, width: int) -> None:
    sizes = (16, 16 * width, 32 * width, 64 * width)
    expected = conv("conv1", 16, 3, 3) | norm("bn1", sizes[3]) | affine("fc", 10, sizes[3])
    for group in (1, 2, 3):
        for block in range((depth - 4) // 6):
            at, incoming, outgoing = f"block{group}.layer.{block}", sizes[group - (block == 0)], sizes[group]
            expected |= norm(f"{at}.bn1", incoming) | conv(f"{at}.conv1", outgoing, incoming, 3)
            expected |= norm(f"{at}.bn2", outgoing) | conv(f"{at}.conv2", outgoing, outgoing, 3)
            if block == 0:
                expected |= conv(f"{at}.convShortcut", outgoing, incoming, 1)
    assert shapes(empty(name)) == expected
    assert shapes(empty(f"wrn:depth={depth},width={width}")) == expected


@pytest.mark.parametrize(
    ("name", "depth", "width"),
    [("wrn-28-10-gat", 28, 10), ("wrn-34-10-gat", 34, 10), ("wrn-34-20-gat", 34, 20)],
)
def test_wide_resnets_of_gat_have_their_own_names_and_biases(name: str, depth: int, width: int) -> None:
    sizes = (16, 16 * width, 32 * width, 64 * width)
    expected = conv("conv1", 16, 3, 3, bias=True) | norm("bn1", sizes[3]) | affine("linear", 10, sizes[3])
    for group in (1, 2, 3):
        for block in range((depth - 4) // 6):
            at, incoming, outgoing = f"layer{group}.{block}", sizes[group - (block == 0)], sizes[group]
            expected |= norm(f"{at}.bn1", incoming) | conv(f"{at}.conv1", outgoing, incoming, 3, bias=True)
            expected |= norm(f"{at}.bn2", outgoing) | conv(f"{at}.conv2", outgoing, outgoing, 3, bias=True)
            if block == 0:
                expected |= conv(f"{at}.shortcut.0", outgoing, incoming, 1, bias=True)
    net = empty(name)
    assert shapes(net) == expected
    assert net.get_submodule("bn1").momentum == 0.9


def test_vgg11_is_conv_bn_relu_with_one_linear_layer() -> None:
    places = zip((0, 4, 8, 11, 15, 18, 22, 25), (64, 128, 256, 256, 512, 512, 512, 512), strict=True)
    expected, incoming = affine("classifier", 10, 512), 3
    for place, width in places:
        expected |= conv(f"features.{place}", width, incoming, 3, bias=True) | norm(
            f"features.{place + 1}", width
        )
        incoming = width
    assert shapes(empty("vgg11")) == expected


def test_alexnet_has_torchvisions_names() -> None:
    convs = [(0, 64, 3, 11), (3, 192, 64, 5), (6, 384, 192, 3), (8, 256, 384, 3), (10, 256, 256, 3)]
    expected: Shapes = {}
    for place, outgoing, incoming, size in convs:
        expected |= conv(f"features.{place}", outgoing, incoming, size, bias=True)
    for place, outgoing, incoming in [(1, 4096, 9216), (4, 4096, 4096), (6, 100, 4096)]:
        expected |= affine(f"classifier.{place}", outgoing, incoming)
    assert shapes(empty("alexnet")) == expected


MNIST_NETS: dict[str, Shapes] = {
    "m-lenet": {
        "conv1": (32, 1, 5, 5),
        "conv11": (32, 32, 5, 5),
        "conv2": (64, 32, 5, 5),
        "conv21": (64, 64, 5, 5),
    }
    | {"fc1": (512, 3136), "fc2": (10, 512)},
    "bb-mnist": {"conv1": (64, 1, 5, 5), "conv2": (64, 64, 5, 5), "fc1": (128, 25600), "fc2": (10, 128)},
    "small-cnn": {"feature_extractor.conv1": (32, 1, 3, 3), "feature_extractor.conv2": (32, 32, 3, 3)}
    | {"feature_extractor.conv3": (64, 32, 3, 3), "feature_extractor.conv4": (64, 64, 3, 3)}
    | {"classifier.fc1": (200, 1024), "classifier.fc2": (200, 200), "classifier.fc3": (10, 200)},
    "digits-cnn": {"conv1": (16, 1, 3, 3), "conv2": (32, 16, 3, 3), "conv3": (32, 32, 3, 3)}
    | {"fc1": (64, 512), "fc2": (10, 64)},
}


@pytest.mark.parametrize("name", MNIST_NETS)
def test_grey_image_networks_have_their_names(name: str) -> None:
    expected: Shapes = {}
    for layer, shape in MNIST_NETS[name].items():
        expected |= affine(layer, *shape)
    assert shapes(empty(name)) == expected
