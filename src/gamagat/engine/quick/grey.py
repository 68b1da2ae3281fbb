"""Convolutions of one channel, for frozen weights on a CPU: `grey.c` does them, there and back.

torch's library computes sixteen channels on the way back and throws fifteen away.
"""

from __future__ import annotations

import ctypes
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.autograd.function import once_differentiable

from gamagat.engine.easing import is_plain
from gamagat.engine.quick.graph import replaced
from gamagat.engine.quick.native import native, ordered
from gamagat.engine.quick.rectifying import Rectified, rectify

SOURCE = Path(__file__).with_suffix(".c")


class Shape(ctypes.Structure):
    """As the library has it."""

    _fields_ = [
        (name, ctypes.c_long)
        for name in ("n", "h", "w", "high", "wide", "tall", "broad", "above", "beside", "o")
    ]


class Kernel:
    """The library's functions."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.lanes = int(library.lanes())
        pointer, shape = ctypes.c_void_p, ctypes.POINTER(Shape)
        self.there, self.back = library.there, library.back
        self.there.argtypes, self.there.restype = [*[pointer] * 4, ctypes.c_int, shape], None
        self.back.argtypes, self.back.restype = [*[pointer] * 4, shape], None


@cache
def kernel() -> Kernel | None:
    """The library, built and loaded once; None where that cannot be done."""
    library = native(SOURCE)
    return None if library is None else Kernel(library)


def grey(net: fx.GraphModule) -> int:
    """Do all such convolutions of the network so; how many they are."""
    how = kernel()
    if how is None:
        return 0
    fits = partial(_fits, lanes=how.lanes)
    rectify(net, fits, partial(RectifiedGrey, how=how))
    replaced(net, fits, partial(GreyConv, how=how))
    return sum(isinstance(module, Windows) for module in net.modules())


def _fits(conv: nn.Conv2d, lanes: int) -> bool:
    still = is_plain(conv) and tuple(conv.stride) == (1, 1)
    return still and conv.in_channels == 1 and conv.out_channels % lanes == 0


class Windows(nn.Module):
    """The weights, a row for each place of the window."""

    def __init__(self, conv: nn.Conv2d, how: Kernel) -> None:
        super().__init__()
        self.how, self.makes, self.window = how, conv.out_channels, conv.kernel_size
        self.padding = tuple(int(side) for side in conv.padding)
        self.weights = ordered(conv.weight.detach().flatten(1).T)
        self.bias = torch.zeros(self.makes) if conv.bias is None else conv.bias.detach().clone()

    def shape(self, images: Tensor) -> Shape:
        """Of what goes in and of what comes out."""
        count, channels, *sides = images.shape
        sizes = zip(sides, self.window, self.padding, strict=True)
        made = [side + 2 * more - size + 1 for side, size, more in sizes]
        if channels != 1 or min(made) < 1:
            raise ValueError(
                f"images of one channel and larger than the window are wanted, not {images.shape}"
            )
        return Shape(count, *sides, *made, *self.window, *self.padding, self.makes)


class GreyConv(Windows):
    """A convolution of one channel."""

    # `input` as torch has it: some call it by name.
    def forward(self, input: Tensor) -> Tensor:
        out: Tensor = Grey.apply(input, self, False)  # type: ignore[no-untyped-call]
        return out


class RectifiedGrey(Windows, Rectified):
    """The same, perhaps something added, and a ReLU."""

    def forward(self, input: Tensor, other: Tensor | None = None) -> Tensor:
        out: Tensor = Grey.apply(input, self, other is None)  # type: ignore[no-untyped-call]
        return out if other is None else torch.relu(out + other)


class Grey(torch.autograd.Function):
    """There and back; the gradient goes to the images alone."""

    @staticmethod
    def forward(ctx: Any, images: Tensor, layer: Windows, rectified: bool) -> Tensor:
        shape = ctx.shape = layer.shape(images)
        out = torch.empty((shape.n, shape.o, shape.high, shape.wide), memory_format=torch.channels_last)
        given = [ordered(images), layer.weights, layer.bias, out]
        layer.how.there(*(part.data_ptr() for part in given), rectified, shape)
        ctx.layer = layer
        ctx.save_for_backward(*[out] * rectified)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        (sign,), shape = ctx.saved_tensors or (None,), ctx.shape
        to = torch.empty(shape.n, 1, shape.h, shape.w)
        grad = ordered(grads[0])
        pointers = [grad.data_ptr(), None if sign is None else sign.data_ptr()]
        ctx.layer.how.back(*pointers, ctx.layer.weights.data_ptr(), to.data_ptr(), shape)
        return to, None, None
