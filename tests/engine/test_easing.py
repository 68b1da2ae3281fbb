"""Eased convolutions are the convolutions that they stand for."""

from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import nn

from gamagat.engine.easing import ThinnedConv, WindowConv, ease

KINDS: list[tuple[dict[str, Any], type]] = [
    ({"kernel_size": 3, "padding": 1}, WindowConv),
    ({"kernel_size": 3, "bias": False}, WindowConv),
    ({"kernel_size": (2, 3), "padding": (0, 2)}, WindowConv),
    ({"kernel_size": 1, "stride": 2}, ThinnedConv),
    ({"kernel_size": 1, "stride": (1, 3), "bias": False}, ThinnedConv),
    ({"kernel_size": 1}, nn.Conv2d),
    ({"kernel_size": 1, "stride": 2, "padding": 1}, nn.Conv2d),
    ({"kernel_size": 3, "stride": 2}, nn.Conv2d),
    ({"kernel_size": 5}, nn.Conv2d),
    ({"kernel_size": 3, "dilation": 2}, nn.Conv2d),
    ({"kernel_size": 3, "groups": 3}, nn.Conv2d),
    ({"kernel_size": 3, "padding": "same"}, nn.Conv2d),
    ({"kernel_size": 3, "padding": 1, "padding_mode": "reflect"}, nn.Conv2d),
]


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize(("options", "kind"), KINDS, ids=str)
def test_it_gives_the_same_values_and_gradients_by_the_same_names(options, kind, layout):
    dice = torch.Generator().manual_seed(0)
    conv = nn.Conv2d(3, 6, **options).double()
    other = deepcopy(conv)
    ease(nn.Sequential(other))
    assert type(other) is kind
    assert list(other.state_dict()) == list(conv.state_dict())
    x = torch.randn(2, 3, 9, 8, generator=dice, dtype=torch.float64).contiguous(memory_format=layout)
    wanted, got = (made(x.requires_grad_()) for made in (conv, other))
    torch.testing.assert_close(got, wanted)
    pull = torch.randn(wanted.shape, generator=dice, dtype=torch.float64)
    for grads in zip(*(torch.autograd.grad(out, [x, *made.parameters()], pull)
                       for out, made in ((wanted, conv), (got, other))), strict=True):  # fmt: skip
        torch.testing.assert_close(*grads)


def test_other_kinds_of_layers_are_left_alone():
    class Own(nn.Conv2d):
        pass

    net = nn.Sequential(Own(3, 4, 3), nn.ConvTranspose2d(4, 3, 1, stride=2), nn.Conv2d(40, 8, 3))
    ease(net)
    assert [type(layer) for layer in net] == [Own, nn.ConvTranspose2d, nn.Conv2d]
