"""A rewritten copy says what the network says, and the network is left as it was."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from model_helpers import scramble
from quick.nets import Around, Shared, Viewing, alike, both, nearly, usual, weighted
from torch import Tensor, fx, nn
from torch.nn.utils import parametrizations

from gamagat.defenses.views import ViewNorm, can_be_joined
from gamagat.engine.easing import ThinnedConv, WindowConv, ease
from gamagat.engine.quick.folding import folded
from gamagat.engine.quick.halving import FullLinear, RectifiedConv, halved
from gamagat.models.core import MODELS, build_model
from helpers import images_like

SIZES = {"m-lenet": 28, "bb-mnist": 28, "small-cnn": 28, "digits-cnn": 8, "alexnet": 224}
GREY = {"m-lenet", "bb-mnist", "small-cnn", "digits-cnn"}
# The large ones are small ones of their kind with other numbers; a full run looks at them, too.
LARGE = ("alexnet", "resnet50", "wrn-2", "wrn-3")
NAMES = [
    pytest.param(name, marks=[pytest.mark.slow] if name.startswith(LARGE) else []) for name in MODELS.names()
]


def half(net: fx.GraphModule) -> Callable[[Tensor], Tensor]:
    """The network in half precision, as a GPU would run it."""
    made = halved(net)

    def call(images: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.float16):
            return made(images)

    return call


def kinds(net: nn.Module) -> list[type]:
    return [type(module) for module in net.modules()]


@pytest.mark.parametrize("name", NAMES)
def test_every_registered_network_is_the_same_when_folded_and_nearly_when_halved(name):
    net = scramble(build_model(f"{name}:depth=10,width=1" if name in ("wrn", "wrn-gat") else name))
    size = SIZES.get(name, 32)
    images = torch.rand(2, 1 if name in GREY else 3, size, size, generator=torch.Generator().manual_seed(0))
    copy = folded(net)
    alike(net, copy, images, off=1e-3)
    # Deep networks with random weights are chaotic: half precision turns their gradients, not their logits.
    alike(net, half(copy), images, off=0.05, share=0.0)


def test_batch_norms_behind_convolutions_are_gone():
    net = folded(usual())
    assert nn.BatchNorm2d not in kinds(net)
    assert kinds(net).count(nn.Conv2d) == 2


def test_the_parts_of_a_halved_network_are_in_place():
    net = halved(folded(usual()))
    assert [kinds(net).count(kind) for kind in (RectifiedConv, FullLinear)] == [2, 1]
    assert {value.dtype for name, value in net.state_dict().items() if "7" in name} == {torch.float32}
    assert {value.dtype for name, value in net.state_dict().items() if "7" not in name} == {torch.float16}


def test_the_logits_are_not_rounded_to_half_and_no_switch_is_compiled_in():
    """A program with a switch of autocast inside is compiled anew in every process."""
    layer, images, seen = FullLinear(nn.Linear(64, 5)), torch.rand(3, 64), []

    def backend(program: fx.GraphModule, _: list[Tensor]) -> Callable[..., Tensor]:
        seen.extend(str(node.target) for node in program.graph.nodes)
        return program.forward

    with torch.autocast("cpu", torch.float16):
        scores = torch.compile(layer, backend=backend)(images)
    assert scores.dtype == torch.float32
    assert torch.allclose(scores, layer.linear(images), atol=1e-6)
    assert any("linear" in target for target in seen)
    assert not any("autocast" in target for target in seen)


def test_sums_and_their_relus_go_where_they_can():
    """Into a convolution; five sums of GAT's network have two positive terms, and need no ReLU."""
    for name, sums, rectified in (("resnet18", 0, 17), ("resnet18-gat", 5, 20)):
        net = halved(folded(build_model(name)))
        calls = [node for node in net.graph.nodes if node.op == "call_function"]
        assert [sum(word in str(call.target) for call in calls) for word in ("add", "relu")] == [sums, 0]
        assert kinds(net).count(RectifiedConv) == rectified
        assert [kinds(net).count(kind) for kind in (ThinnedConv, WindowConv)] == [3, 1]


def test_a_network_that_was_trained_here_is_folded_like_any_other():
    net = build_model("resnet18")
    ease(net)
    assert can_be_joined(net, torch.rand(2, 3, 32, 32))
    assert not {nn.BatchNorm2d, ViewNorm} & set(kinds(folded(net)))
    alike(scramble(build_model("resnet18")), folded(scramble(net)), torch.rand(2, 3, 32, 32), off=1e-3)


def used_twice(net: Shared, images: Tensor) -> Tensor:
    seen = net.conv(images)
    return net.norm(seen) + seen


def rectified_twice(net: Shared, images: Tensor) -> Tensor:
    seen = net.norm(net.conv(images))
    return torch.relu(seen) - seen


def written_over(net: Shared, images: Tensor) -> Tensor:
    seen = net.norm(net.conv(images))
    net.relu(seen)  # in place: what it returns is of no use
    return seen.mul(2.0)


def added_in_place(net: Shared, images: Tensor) -> Tensor:
    seen = images * 2
    total = seen.add_(net.norm(net.conv(images)))
    return torch.relu(total) * seen


def changed_after(net: Shared, images: Tensor) -> Tensor:
    seen = images * 2
    total = net.norm(net.conv(images)) + seen
    seen.add_(1.0)
    return torch.relu(total) * seen


OUTPUTS: dict[str, Callable[[Shared, Tensor], Tensor]] = {
    "a convolution used twice": lambda m, x: m.norm(m.conv(m.norm(m.conv(x)))),
    "a convolution with two batch norms": lambda m, x: m.norm(m.conv(x)) + m.other(m.conv(x)),
    "an output used twice": used_twice,
    "an output written over": written_over,
    "weights used by themselves": lambda m, x: m.norm(m.conv(x)) + F.conv2d(x, m.conv.weight, padding=1),
    "a batch norm before": lambda m, x: m.conv(m.norm(x)),
    "no affine numbers": lambda m, x: m.other(m.conv(x)),
    "a batch norm used twice": lambda m, x: m.norm(m.conv(m.norm(x))),
    "no running statistics": lambda m, x: m.bare(m.conv(x)),
    "a module inplace": lambda m, x: m.relu(m.norm(m.conv(x))),
    "a method": lambda m, x: m.norm(m.conv(x)).relu(),
    "a method inplace": lambda m, x: m.norm(m.conv(x)).relu_(),
    "a function": lambda m, x: F.relu(m.norm(m.conv(x)), inplace=True),
    "a named argument": lambda m, x: F.relu(input=m.norm(input=m.conv(input=x))),
    "torch.relu": lambda m, x: torch.relu(m.conv(x)),
    "a ReLU on two": rectified_twice,
    "a sum": lambda m, x: torch.relu(m.norm(m.conv(x)) + x),
    "a sum the other way": lambda m, x: F.relu(x.add(m.norm(m.conv(x)))),
    "a sum of more": lambda m, x: F.relu(m.norm(m.conv(x)) + (x - 0.5) + x.square()),
    "a weighted sum": lambda m, x: F.relu(torch.add(m.norm(m.conv(x)), x, alpha=-3)),
    "a sum with a number": lambda m, x: m.relu(m.norm(m.conv(x)) + 0.2),
    "a sum written over": added_in_place,
    "a sum over positions": lambda m, x: F.relu(m.norm(m.conv(x)) + x.mean((2, 3), keepdim=True)),
    "a sum over positions, the small one first": lambda m, x: F.relu(
        m.conv(x.mean((2, 3), keepdim=True)) + x
    ),
    "a term that changes after the sum": changed_after,
    "a sum of ReLUs": lambda m, x: F.relu(F.relu(x - 0.5) + m.relu(m.norm(m.conv(x)))),
    "a sum of sums of ReLUs": lambda m, x: F.relu(F.relu(F.relu(x - 0.5) + x.relu()) + F.relu(m.conv(x))),
}


@pytest.mark.parametrize("how", OUTPUTS.values(), ids=OUTPUTS)
def test_layers_in_any_order_are_still_right(how):
    net = Shared(how)
    alike(net, folded(net), images_like(6))
    nearly(net, half(folded(net)), images_like(20))


@pytest.mark.parametrize(
    "options",
    [
        {"padding": "same"},
        {"padding": "valid"},
        {"padding_mode": "reflect"},
        {"padding_mode": "circular", "bias": True},
        {"groups": 2},
        {"groups": 4, "bias": True},
        {"dilation": 2},
        {"stride": 2, "bias": True},
        {"stride": (1, 2), "padding": (2, 0)},
        {"kernel_size": 1, "padding": 0},
        {"kernel_size": 1, "padding": 0, "stride": 2},
        {"kernel_size": 1, "padding": 0, "stride": (3, 1), "bias": True},
        {"kernel_size": 1, "padding": 1, "stride": 2},
        {"kernel_size": 2, "padding": (1, 0), "bias": True},
    ],
    ids=str,
)
def test_convolutions_of_any_kind_are_still_right(options):
    net = Shared(lambda m, x: m.norm(m.conv(x)).relu(), **options)
    alike(net, folded(net), images_like(6))
    nearly(net, half(folded(net)), images_like(20))


@pytest.mark.parametrize("wrap", [parametrizations.weight_norm, parametrizations.spectral_norm])
def test_computed_weights_are_computed_once_and_the_network_keeps_its_own(wrap):
    net = weighted(wrap)
    before = both(net, images_like(6))
    copy = folded(net)
    assert nn.BatchNorm2d not in kinds(copy)
    alike(net, copy, images_like(6))
    after = both(net, images_like(6))
    assert all(torch.equal(*pair) for pair in zip(before, after, strict=True))
    assert all(hasattr(net[place], "parametrizations") for place in (0, 3, 7))


def test_what_a_network_takes_besides_images_has_its_default():
    net = Viewing()
    alike(net, folded(net), images_like(6))


def test_views_are_to_be_had_with_channels_last():
    net = Viewing()
    copy = folded(net).to(memory_format=torch.channels_last)
    alike(net, lambda images: copy(images.contiguous(memory_format=torch.channels_last)), images_like(6))


@pytest.mark.parametrize("place", [0, 1, 2, 7])
def test_hooks_inside_are_kept(place):
    net = usual()
    net[place].register_forward_hook(lambda module, given, output: output.clamp(max=0.3))
    alike(net, folded(net), images_like(6))
    nearly(net, half(folded(net)), images_like(20))


def test_hooks_on_gradients_are_kept():
    net = usual()
    net[1].register_full_backward_hook(lambda module, given, output: (given[0].clamp(-0.1, 0.1),))
    alike(net, folded(net), images_like(6))


def test_the_network_is_left_as_it_was():
    net = usual().train()
    net[1].eval()
    net[3].weight.requires_grad_(False)
    net[4].register_forward_hook(lambda *_: None)

    def condition() -> tuple[object, ...]:
        modules = list(net.modules())
        return (
            [
                (name, value.data_ptr(), value.dtype, value.clone().tolist())
                for name, value in net.state_dict().items()
            ],
            [value.requires_grad for value in net.parameters()],
            [(type(module), module.training, len(module._forward_hooks)) for module in modules],
        )

    before = condition()
    half(folded(net))(images_like(2))
    assert condition() == before


def test_the_copy_shares_nothing_with_the_network():
    net = usual()
    own = {value.data_ptr() for value in net.state_dict().values()}
    assert own.isdisjoint(value.data_ptr() for value in halved(folded(net)).state_dict().values())


def test_a_network_in_a_wrapper_is_folded_through_it():
    net = Around(lambda inner, images: inner(images - 0.5) / 3)
    copy = folded(net)
    assert nn.BatchNorm2d not in kinds(copy)
    alike(net, copy, images_like(6))
