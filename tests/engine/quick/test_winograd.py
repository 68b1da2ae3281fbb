"""Convolutions by Winograd's algorithm: what torch's say, there and back, whatever the shapes."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from gamagat.engine.quick import grey, network, winograd
from gamagat.engine.quick.folding import folded
from gamagat.engine.quick.network import quickened
from gamagat.engine.quick.winograd import RectifiedWinograd, WinogradConv
from gamagat.engine.runtime import borrowed
from gamagat.models.core import build_model

HOW = winograd.kernel()
LANES = 1 if HOW is None else HOW.lanes
needs_it = pytest.mark.skipif(HOW is None, reason="no compiler, or none whose library can be loaded")
WORDS = "fp32, batch norms folded, channels last"


def conv(
    takes: int = LANES, makes: int = 2 * LANES, bias: bool = True, padding: int = 1, size: int = 3
) -> nn.Conv2d:
    with torch.random.fork_rng():
        torch.manual_seed(takes + makes)
        return nn.Conv2d(takes, makes, size, padding=padding, bias=bias).requires_grad_(False)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def close(ours: Tensor, theirs: Tensor) -> None:
    """As close as single precision allows: transforms lose a digit."""
    assert ours.shape == theirs.shape
    torch.testing.assert_close(
        ours, theirs, rtol=0, atol=1e-4 * max(1.0, float(theirs.detach().abs().amax()))
    )


@needs_it
@settings(max_examples=60, deadline=None)
@given(
    count=st.integers(1, 9),
    sides=st.tuples(st.integers(0, 17), st.integers(0, 17)),
    takes=st.integers(1, 3),
    makes=st.integers(1, 9),
    kernel=st.sampled_from([(size, padding) for size in (3, 5) for padding in range(size)]),
    parts=st.tuples(st.booleans(), st.booleans(), st.booleans(), st.booleans()),
)
def test_it_is_the_convolution_with_all_that_may_go_with_it(count, sides, takes, makes, kernel, parts):
    assert HOW is not None
    (size, padding), (biased, added, signed, rectified) = kernel, parts
    layer = conv(takes * LANES, makes * LANES, biased, padding, size)
    sides = tuple(side + max(1, size - 2 * padding) for side in sides)
    images, sign = normal(count, takes * LANES, *sides), normal(count, takes * LANES, *sides, seed=1)
    made = [side + 2 * padding - size + 1 for side in sides]
    other = normal(count, makes * LANES, *made, seed=2) if added else None
    seen = images * (sign > 0) if signed else images
    wanted = layer(seen) if other is None else layer(seen) + other
    weights = HOW.packed(layer.weight, padding)
    found = HOW.convolved(images, weights, layer.bias, other, sign if signed else None, rectified)
    close(found, wanted.relu() if rectified else wanted)
    assert found.is_contiguous(memory_format=torch.channels_last)


@needs_it
@pytest.mark.parametrize("size", [3, 5])
@pytest.mark.parametrize("added", ["nothing", "images", "a channel's number"])
def test_gradients_are_torchs(added, size):
    assert HOW is not None
    layer, images = conv(size=size, padding=size // 2), normal(3, LANES, 7, 9).requires_grad_()
    shapes = {"images": (3, 2 * LANES, 7, 9), "a channel's number": (1, 2 * LANES, 1, 1)}
    other = normal(*shapes[added], seed=1).requires_grad_() if added in shapes else None
    asked = [images] if other is None else [images, other]
    wanted = torch.relu(layer(images) if other is None else layer(images) + other)
    found = RectifiedWinograd(layer, HOW)(images, other)
    close(found, wanted)
    weights = normal(*wanted.shape, seed=2)
    for ours, theirs in zip(
        torch.autograd.grad((found * weights).sum(), asked),
        torch.autograd.grad((wanted * weights).sum(), asked),
        strict=True,
    ):
        close(ours, theirs)


@needs_it
@pytest.mark.parametrize(("size", "padding"), [(size, padding) for size in (3, 5) for padding in range(size)])
def test_without_a_relu(size, padding):
    assert HOW is not None
    layer, images = conv(bias=False, padding=padding, size=size), normal(5, LANES, 8, 8).requires_grad_()
    found, wanted = WinogradConv(layer, HOW)(images), layer(images)
    close(found, wanted)
    (ours,), (theirs,) = (torch.autograd.grad(out.square().sum(), images) for out in (found, wanted))
    close(ours, theirs)


@needs_it
@pytest.mark.parametrize("size", [3, 5])
def test_neither_threads_nor_the_batch_change_a_bit(size):
    assert HOW is not None
    layer, images = WinogradConv(conv(size=size), HOW), normal(41, LANES, 10, 6)
    together, before = layer(images), torch.get_num_threads()
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            assert torch.equal(layer(images), together)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(torch.cat([layer(image[None]) for image in images]), together)


@needs_it
def test_orders_of_memory_and_no_image_at_all():
    assert HOW is not None
    layer, images = WinogradConv(conv(), HOW), normal(4, LANES, 6, 6)
    whole = layer(images)
    assert torch.equal(layer(images.contiguous(memory_format=torch.channels_last)), whole)
    assert torch.equal(layer(images.transpose(2, 3).contiguous().transpose(2, 3)), whole)
    assert layer(images[:0]).shape == (0, 2 * LANES, 6, 6)


@needs_it
def test_what_would_be_read_wrongly_is_refused():
    assert HOW is not None
    layer, images = WinogradConv(conv(), HOW), normal(2, LANES, 5, 5)
    with pytest.raises(ValueError, match=f"images of {LANES} channels are wanted, not of {2 * LANES}"):
        layer(normal(2, 2 * LANES, 5, 5))
    with pytest.raises(TypeError, match=r"single precision on a CPU, not torch\.float64"):
        layer(images.double())
    packed = HOW.packed(conv().weight)
    with pytest.raises(ValueError, match="shape of the images"):
        HOW.convolved(images, packed, sign=images[:1])
    with pytest.raises(ValueError, match="shape of the images"):
        HOW.convolved(images, packed, other=images)


class Residual(nn.Module):
    """One of each kind: convolution and ReLU, sum and ReLU, a stride, other kernels, and one by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, LANES, 3, padding=1)
        self.first, self.second = (nn.Conv2d(LANES, LANES, 3, padding=1, bias=False) for _ in range(2))
        self.norms = nn.ModuleList(nn.BatchNorm2d(LANES) for _ in range(2))
        self.down = nn.Conv2d(LANES, LANES, 3, stride=2, padding=1)
        self.wide = nn.Conv2d(LANES, LANES, 5, padding=2)
        self.wider = nn.Conv2d(LANES, LANES, 7, padding=3)
        self.oblong = nn.Conv2d(LANES, LANES, (3, 5), padding=(1, 2))
        self.alone = nn.Conv2d(LANES, LANES, 3, padding=1)
        self.head = nn.Linear(LANES, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.stem(x))
        x = F.relu(self.norms[1](self.second(F.relu(self.norms[0](self.first(x))))) + x)
        x = self.oblong(self.wider(self.wide(F.relu(self.down(x)))))
        return self.head(self.alone(x).mean((2, 3)))


@needs_it
def test_what_of_a_network_is_done_so():
    torch.manual_seed(0)
    net = folded(Residual().eval())
    assert winograd.winograd(net) == 4
    kinds = {name: type(module).__name__ for name, module in net.named_children()}
    assert kinds == {
        "stem": "Conv2d", "first": "RectifiedWinograd", "second": "RectifiedWinograd", "down": "Conv2d",
        "wide": "WinogradConv", "wider": "Conv2d", "oblong": "Conv2d", "alone": "WinogradConv",
        "head": "Linear",
    }  # fmt: skip


@needs_it
@pytest.mark.parametrize(
    ("make", "side"),
    [
        (Residual, 16),
        (lambda: build_model("resnet18", 10, 3), 16),
        (lambda: build_model("m-lenet", 10, 3), 28),
    ],
)
def test_a_network_gets_such_a_stand_in_and_it_agrees(make, side):
    torch.manual_seed(0)
    model, images = make(), torch.rand(9, 3, side, side)
    with borrowed(model):
        quick = quickened(model, "auto", images, 10, pytest.fail)
        assert quick is not None
        assert quick.words == f"{WORDS}, own convolutions"
        slopes = []
        for net in (model, quick.model):
            asked = images.clone().requires_grad_()
            logits = net(asked)
            slopes.append((logits.detach(), *torch.autograd.grad(logits[:, 0].sum(), asked)))
    for theirs, ours in zip(*slopes, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-3 * float(theirs.abs().amax()))


class Odd(nn.Module):
    """Ways to write a network that are easily rewritten wrongly."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.first = how, nn.Conv2d(3, LANES, 3, padding=1)
        self.second, self.head = nn.Conv2d(LANES, LANES, 3, padding=1), nn.Linear(LANES, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        if self.how == "by name":
            x = F.relu(self.second(input=x) + x)
        elif self.how == "twice itself":
            y = self.second(x)
            x = F.relu(y + y)
        elif self.how == "its weights, too":
            x = self.second(x) * self.second.weight.mean()
        else:
            x = F.relu(self.second(x) + x.size(1))
        return self.head(x.mean((2, 3)))


@needs_it
@pytest.mark.parametrize("how", ["by name", "twice itself", "its weights, too", "a number"])
def test_odd_networks_keep_their_function(how):
    torch.manual_seed(0)
    net, images = Odd(how).eval(), torch.rand(4, 3, 9, 9)
    made = folded(net)
    assert winograd.winograd(made) == (how != "its weights, too")
    made.recompile()
    close(made(images), net(images))


@needs_it
def test_what_is_no_number_stays_none():
    assert HOW is not None
    layer, images = conv(), normal(1, LANES, 9, 9)
    images[0, 0, 4, 4] = torch.nan
    wanted = torch.relu(layer(images)).isnan()
    assert (wanted <= RectifiedWinograd(layer, HOW)(images).isnan()).all()
    assert wanted.any()


def test_without_a_compiler_there_is_the_usual_stand_in(monkeypatch):
    monkeypatch.setattr(winograd, "kernel", lambda: None)
    monkeypatch.setattr(grey, "kernel", lambda: None)
    model = build_model("resnet18", 10, 3)
    with borrowed(model):
        quick = quickened(model, "auto", torch.rand(3, 3, 8, 8), 10, pytest.fail)
    assert quick is not None
    assert quick.words == WORDS


def test_a_network_without_such_convolutions_has_the_usual_stand_in_too():
    model = nn.Sequential(nn.Conv2d(3, 5, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(320, 4))
    with borrowed(model):
        quick = network.quickened(model, "auto", torch.rand(3, 3, 8, 8), 10, pytest.fail)
    assert quick is not None
    assert quick.words == WORDS
