"""What the blocks compute, against straight-line rewrites from the publications."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from model_helpers import scramble
from torch import Tensor

from gamagat.models.core import build_model

State = dict[str, Tensor]


def bn(s: State, at: str, x: Tensor) -> Tensor:
    scale = s[f"{at}.weight"] / (s[f"{at}.running_var"] + 1e-5).sqrt()
    shift = s[f"{at}.bias"] - s[f"{at}.running_mean"] * scale
    return x * scale[:, None, None] + shift[:, None, None]


def conv(s: State, at: str, x: Tensor, stride: int = 1) -> Tensor:
    weight = s[f"{at}.weight"]
    return F.conv2d(x, weight, s.get(f"{at}.bias"), stride, weight.shape[-1] // 2)


def head(s: State, at: str, x: Tensor, window: int) -> Tensor:
    return F.avg_pool2d(x, window).flatten(1) @ s[f"{at}.weight"].T + s[f"{at}.bias"]


def resnet18(s: State, x: Tensor, rectified: bool) -> Tensor:
    x = bn(s, "bn1", conv(s, "conv1", x)).relu()
    for layer in (1, 2, 3, 4):
        for block in (0, 1):
            at, stride = f"layer{layer}.{block}", 2 if layer > 1 and block == 0 else 1
            out = bn(s, f"{at}.bn1", conv(s, f"{at}.conv1", x, stride)).relu()
            out = bn(s, f"{at}.bn2", conv(s, f"{at}.conv2", out))
            if rectified:
                out = out.relu()
            if stride == 2:
                x = bn(s, f"{at}.shortcut.1", conv(s, f"{at}.shortcut.0", x, 2))
            x = (out + x).relu()
    return head(s, "linear", x, 4)


def resnet50(s: State, x: Tensor) -> Tensor:
    x = bn(s, "bn1", conv(s, "conv1", x)).relu()
    for layer, depth in enumerate((3, 4, 6, 3), start=1):
        for block in range(depth):
            at, stride = f"layer{layer}.{block}", 2 if layer > 1 and block == 0 else 1
            out = bn(s, f"{at}.bn1", conv(s, f"{at}.conv1", x)).relu()
            out = bn(s, f"{at}.bn2", conv(s, f"{at}.conv2", out, stride)).relu()
            out = bn(s, f"{at}.bn3", conv(s, f"{at}.conv3", out))
            if block == 0:
                x = bn(s, f"{at}.shortcut.1", conv(s, f"{at}.shortcut.0", x, stride))
            x = (out + x).relu()
    return head(s, "linear", x, 4)


def preact18(s: State, x: Tensor, raw: bool, final_bn: bool) -> Tensor:
    x = conv(s, "conv1", x)
    for layer in (1, 2, 3, 4):
        for block in (0, 1):
            at, stride = f"layer{layer}.{block}", 2 if layer > 1 and block == 0 else 1
            active = bn(s, f"{at}.bn1", x).relu()
            out = conv(s, f"{at}.conv1", active, stride)
            out = conv(s, f"{at}.conv2", bn(s, f"{at}.bn2", out).relu())
            if stride == 2:
                x = conv(s, f"{at}.shortcut.0", x if raw else active, 2)
            x = out + x
    return head(s, "linear", bn(s, "bn", x).relu() if final_bn else x, 4)


def wrn_trades(s: State, x: Tensor, blocks: int) -> Tensor:
    x = conv(s, "conv1", x)
    for group, stride in ((1, 1), (2, 2), (3, 2)):
        for block in range(blocks):
            at = f"block{group}.layer.{block}"
            out = bn(s, f"{at}.bn1", x).relu()
            if f"{at}.convShortcut.weight" in s:
                x = conv(s, f"{at}.convShortcut", out, stride)
            out = conv(s, f"{at}.conv1", out, stride if block == 0 else 1)
            x = x + conv(s, f"{at}.conv2", bn(s, f"{at}.bn2", out).relu())
    return head(s, "fc", bn(s, "bn1", x).relu(), 8)


def wrn_gat(s: State, x: Tensor, blocks: int) -> Tensor:
    x = conv(s, "conv1", x)
    for layer, stride in ((1, 1), (2, 2), (3, 2)):
        for block in range(blocks):
            at, step = f"layer{layer}.{block}", stride if block == 0 else 1
            out = conv(s, f"{at}.conv1", bn(s, f"{at}.bn1", x).relu())
            out = conv(s, f"{at}.conv2", bn(s, f"{at}.bn2", out).relu(), step)
            if f"{at}.shortcut.0.weight" in s:
                x = conv(s, f"{at}.shortcut.0", x, step)
            x = out + x
    return head(s, "linear", bn(s, "bn1", x).relu(), 8)


def m_lenet(s: State, x: Tensor) -> Tensor:
    for first, second in (("conv1", "conv11"), ("conv2", "conv21")):
        x = F.max_pool2d(conv(s, second, conv(s, first, x).relu()).relu(), 2)
    hidden = F.linear(x.flatten(1), s["fc1.weight"], s["fc1.bias"]).relu()
    return F.linear(hidden, s["fc2.weight"], s["fc2.bias"])


def bb_mnist(s: State, x: Tensor) -> Tensor:
    x = F.conv2d(x, s["conv1.weight"], s["conv1.bias"]).relu()
    x = F.conv2d(x, s["conv2.weight"], s["conv2.bias"]).relu()
    hidden = F.linear(x.flatten(1), s["fc1.weight"], s["fc1.bias"]).relu()
    return F.linear(hidden, s["fc2.weight"], s["fc2.bias"])


def digits_cnn(s: State, x: Tensor) -> Tensor:
    x = F.max_pool2d(conv(s, "conv2", conv(s, "conv1", x).relu()).relu(), 2)
    x = conv(s, "conv3", x).relu().flatten(1)
    hidden = F.linear(x, s["fc1.weight"], s["fc1.bias"]).relu()
    return F.linear(hidden, s["fc2.weight"], s["fc2.bias"])


REWRITES: dict[str, Callable[[State, Tensor], Tensor]] = {
    "resnet18": lambda s, x: resnet18(s, x, rectified=False),
    "resnet18-gat": lambda s, x: resnet18(s, x, rectified=True),
    "resnet50": resnet50,
    "preact-resnet18:normalize=none": lambda s, x: preact18(s, x, raw=False, final_bn=True),
    "preact-resnet18-fbf:normalize=none": lambda s, x: preact18(s, x, raw=True, final_bn=False),
    "preact-resnet18-fbf:normalize=none,bn_before_fc=yes": lambda s, x: preact18(
        s, x, raw=True, final_bn=True
    ),
    "wrn:depth=16,width=1": lambda s, x: wrn_trades(s, x, blocks=2),
    "wrn:depth=16,width=2": lambda s, x: wrn_trades(s, x, blocks=2),
    "wrn-gat:depth=16,width=1": lambda s, x: wrn_gat(s, x, blocks=2),
    "wrn-gat:depth=16,width=2": lambda s, x: wrn_gat(s, x, blocks=2),
    "m-lenet": m_lenet,
    "bb-mnist": bb_mnist,
    "digits-cnn": digits_cnn,
}
GREY = {"m-lenet": (1, 28, 28), "bb-mnist": (1, 28, 28), "digits-cnn": (1, 8, 8)}


def relative_gap(a: Tensor, b: Tensor) -> float:
    return float((a - b).norm() / b.norm())


@pytest.mark.parametrize("spec", REWRITES)
def test_forward_is_the_published_one(spec: str) -> None:
    net = scramble(build_model(spec))
    x = torch.rand(2, *GREY.get(spec, (3, 32, 32)), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert relative_gap(net(x), REWRITES[spec](net.state_dict(), x)) < 1e-4


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("resnet18", "resnet18-gat"),
        ("preact-resnet18", "preact-resnet18-fbf:bn_before_fc=true"),
    ],
)
def test_variants_share_their_names_but_not_their_answers(one: str, other: str) -> None:
    first, second = scramble(build_model(one)), build_model(other).eval()
    second.load_state_dict(first.state_dict())
    x = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert relative_gap(first(x), second(x)) > 0.01


def test_madry_network_clamps_then_normalises() -> None:
    net = build_model("resnet50-madry")
    scramble(net.get_submodule("model"))
    x = 3 * torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0)) - 1
    mean = torch.tensor([0.4914, 0.4822, 0.4465])[:, None, None]
    std = torch.tensor([0.2023, 0.1994, 0.2010])[:, None, None]
    with torch.no_grad():
        expected = net.get_submodule("model")((x.clamp(0, 1) - mean) / std)
        assert torch.equal(net.eval()(x), expected)
