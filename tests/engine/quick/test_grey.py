"""Convolutions of one channel: what torch's say, there and back, whatever the window."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from gamagat.engine.quick import grey
from gamagat.engine.quick.folding import folded
from gamagat.engine.quick.grey import GreyConv, RectifiedGrey

HOW = grey.kernel()
LANES = 1 if HOW is None else HOW.lanes
pytestmark = pytest.mark.skipif(HOW is None, reason="no compiler, or none whose library can be loaded")


def conv(window: tuple[int, int], padding: tuple[int, int], makes: int = 1, bias: bool = True) -> nn.Conv2d:
    with torch.random.fork_rng():
        torch.manual_seed(makes)
        return nn.Conv2d(1, makes * LANES, window, padding=padding, bias=bias).requires_grad_(False)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@settings(max_examples=60, deadline=None)
@given(
    count=st.integers(1, 5),
    sides=st.tuples(st.integers(1, 12), st.integers(1, 12)),
    window=st.tuples(st.integers(1, 6), st.integers(1, 6)),
    padding=st.tuples(st.integers(0, 4), st.integers(0, 4)),
    makes=st.integers(1, 4),
    parts=st.tuples(st.booleans(), st.booleans(), st.booleans()),
)
def test_it_is_the_convolution_there_and_back(count, sides, window, padding, makes, parts):
    assert HOW is not None
    biased, rectified, added = parts
    sides = tuple(side + size for side, size in zip(sides, window, strict=True))
    layer, images = conv(window, padding, makes, biased), normal(count, 1, *sides).requires_grad_()
    wanted = layer(images)
    other = normal(*wanted.shape, seed=1) if added and rectified else None
    if rectified:
        wanted = torch.relu(wanted if other is None else wanted + other)
        found = RectifiedGrey(layer, HOW)(images, other)
    else:
        found = GreyConv(layer, HOW)(images)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-5)
    assert found.is_contiguous(memory_format=torch.channels_last)
    weights = normal(*wanted.shape, seed=2) * (wanted.detach().abs() > 1e-4)  # a ReLU may fall either way
    (ours,), (theirs,) = (torch.autograd.grad((out * weights).sum(), images) for out in (found, wanted))
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-4)


def test_orders_of_memory_and_no_image_at_all():
    assert HOW is not None
    layer, images = GreyConv(conv((3, 3), (1, 1)), HOW), normal(4, 1, 6, 7)
    whole = layer(images)
    assert torch.equal(layer(images.contiguous(memory_format=torch.channels_last)), whole)
    assert torch.equal(layer(images.transpose(2, 3).contiguous().transpose(2, 3)), whole)
    assert layer(images[:0]).shape == (0, LANES, 6, 7)
    assert torch.equal(torch.cat([layer(image[None]) for image in images]), whole)


@pytest.mark.parametrize("shape", [(2, 3, 9, 9), (2, 1, 1, 9)])
def test_what_would_be_read_wrongly_is_refused(shape):
    assert HOW is not None
    layer = GreyConv(conv((3, 3), (0, 0)), HOW)
    with pytest.raises(ValueError, match="one channel and larger than the window"):
        layer(normal(*shape))
    with pytest.raises(TypeError, match="single precision"):
        layer(normal(2, 1, 9, 9).double())


def test_what_of_a_network_is_done_so():
    net = folded(
        nn.Sequential(
            nn.Conv2d(1, LANES, 5, padding=2), nn.ReLU(), nn.Conv2d(LANES, 1, 3), nn.Conv2d(1, LANES, 3),
            nn.Conv2d(LANES, 1, 1), nn.Conv2d(1, LANES + 1, 3), nn.Conv2d(LANES + 1, 1, 1),
            nn.Conv2d(1, LANES, 3, stride=2), nn.Flatten(),
        ).eval()
    )  # fmt: skip
    assert grey.grey(net) == 2
    kinds = [type(net.get_submodule(str(number))).__name__ for number in (0, 2, 3, 5, 7)]
    assert kinds == ["RectifiedGrey", "Conv2d", "GreyConv", "Conv2d", "Conv2d"]
