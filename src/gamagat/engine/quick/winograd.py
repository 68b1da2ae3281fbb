"""3x3 and 5x5 convolutions by Winograd's algorithm, for frozen weights on a CPU: `winograd.c` says how."""

from __future__ import annotations

import ctypes
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, fx, nn
from torch.autograd.function import once_differentiable

from gamagat.engine.easing import is_plain
from gamagat.engine.quick.convolution import turned
from gamagat.engine.quick.graph import replaced
from gamagat.engine.quick.native import native, ordered
from gamagat.engine.quick.rectifying import Rectified, rectify

SOURCE = Path(__file__).with_suffix(".c")
TILE = 6  # pixels on each side that a tile of results depends on
# The points that polynomials are multiplied at, beside infinity, and what their values are multiplied by.
POINTS = {0: 1 / 4, 1: -1 / 6, -1: -1 / 6, 2: 1 / 24, -2: 1 / 24}


class Packed(NamedTuple):
    """Weights as the library wants them, and what they make of an image."""

    panels: Tensor
    takes: int  # channels
    makes: int
    padding: int
    size: int  # of the kernel

    @property
    def side(self) -> int:
        """Of a tile of results."""
        return TILE + 1 - self.size

    def shape(self, images: Tensor) -> tuple[int, ...]:
        """Of what comes out."""
        more = 2 * self.padding - self.size + 1
        return len(images), self.makes, *(side + more for side in images.shape[2:])


def values(size: int) -> Tensor:
    """The matrix that takes the weights of a row to their values at all points."""
    rows = [[scale * point**power for power in range(size)] for point, scale in POINTS.items()]
    return torch.tensor([*rows, [0.0] * (size - 1) + [1.0]], dtype=torch.float64)


class Kernel:
    """The library's functions."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.lanes, self.across = int(library.lanes()), int(library.across())
        self.run = library.winograd
        self.run.argtypes = [ctypes.c_void_p] * 6 + [ctypes.c_int] + [ctypes.c_long] * 7

    def packed(self, weight: Tensor, padding: int = 1) -> Packed:
        """Weights in the 36 planes, for each of them in panels of columns."""
        known = values(weight.shape[-1])
        taken = weight.double().flatten(2) @ torch.kron(known, known).T
        planes = taken.float().permute(2, 1, 0)
        panels = torch.cat([panel.flatten(1) for panel in torch.split(planes, self.across, 2)], 1)
        return Packed(panels, weight.shape[1], weight.shape[0], padding, weight.shape[-1])

    def convolved(
        self,
        images: Tensor,
        weights: Packed,
        bias: Tensor | None = None,
        other: Tensor | None = None,
        sign: Tensor | None = None,
        rectified: bool = False,
    ) -> Tensor:
        """The convolution of images; only of what has a positive `sign`, if it is given.

        Bias and other are added, and of the sum only what is positive is kept if it is to be rectified.
        """
        count, channels, *sides = images.shape
        out = torch.empty(weights.shape(images), memory_format=torch.channels_last)
        if channels != weights.takes:
            raise ValueError(f"images of {weights.takes} channels are wanted, not of {channels}")
        if (sign is not None and sign.shape != images.shape) or (
            other is not None and other.shape != out.shape
        ):
            raise ValueError("signs must have the shape of the images, and what is added that of the result")
        given = [
            None if part is None else ordered(part) for part in (images, sign, weights.panels, bias, other)
        ]
        pointers = [None if part is None else part.data_ptr() for part in (*given, out)]
        if out.numel() and self.run(
            *pointers, rectified, count, *sides, channels, weights.makes, weights.padding, weights.side
        ):
            raise MemoryError("no room for the planes of a convolution")
        return out


@cache
def kernel() -> Kernel | None:
    """The library, built and loaded once; None where that cannot be done."""
    library = native(SOURCE)
    return None if library is None else Kernel(library)


def winograd(net: fx.GraphModule) -> int:
    """Do all such convolutions of the network so; how many they are."""
    how = kernel()
    if how is None:
        return 0
    fits = partial(_fits, lanes=how.lanes)
    rectify(net, fits, partial(RectifiedWinograd, how=how))
    replaced(net, fits, partial(WinogradConv, how=how))
    return sum(isinstance(module, Weights) for module in net.modules())


def _fits(conv: nn.Conv2d, lanes: int) -> bool:
    size = conv.kernel_size[0]
    usual = is_plain(conv) and conv.kernel_size in ((3, 3), (5, 5)) and conv.stride == (1, 1)
    # The way back is padded by what is left of the kernel's reach.
    padded = conv.padding in [(padding, padding) for padding in range(size)]
    return usual and padded and conv.in_channels % lanes == conv.out_channels % lanes == 0


class Weights(nn.Module):
    """Of a convolution, and of the one that takes a gradient back."""

    def __init__(self, conv: nn.Conv2d, how: Kernel) -> None:
        super().__init__()
        self.how, weight, padding = how, conv.weight.detach(), int(conv.padding[0])
        rest = weight.shape[-1] - 1 - padding
        self.there, self.back = how.packed(weight, padding), how.packed(turned(weight), rest)
        self.bias = None if conv.bias is None else conv.bias.detach().clone()


class WinogradConv(Weights):
    """A convolution."""

    # `input` as torch has it: some call it by name.
    def forward(self, input: Tensor) -> Tensor:
        out: Tensor = Convolved.apply(input, self)  # type: ignore[no-untyped-call]
        return out


class RectifiedWinograd(Weights, Rectified):
    """A convolution, perhaps something added, and a ReLU."""

    def forward(self, input: Tensor, other: Tensor | None = None) -> Tensor:
        whole = isinstance(other, Tensor) and other.shape == self.there.shape(input)
        if other is not None and not whole:
            plain: Tensor = Convolved.apply(input, self)  # type: ignore[no-untyped-call]
            return torch.relu(plain + other)  # which is added to many positions
        out: Tensor = ConvolvedRectified.apply(input, other, self)  # type: ignore[no-untyped-call]
        return out


class Convolved(torch.autograd.Function):
    """There with the weights, back with the turned ones; the gradient goes to the images alone."""

    @staticmethod
    def forward(ctx: Any, images: Tensor, layer: Weights) -> Tensor:
        ctx.layer = layer
        return layer.how.convolved(images, layer.there, layer.bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return ctx.layer.how.convolved(grads[0], ctx.layer.back), None


class ConvolvedRectified(torch.autograd.Function):
    """The same with a sum and a ReLU behind it; the gradient goes to the other summand, too."""

    @staticmethod
    def forward(ctx: Any, images: Tensor, other: Tensor | None, layer: Weights) -> Tensor:
        ctx.layer, ctx.added = layer, other is not None
        out = layer.how.convolved(images, layer.there, layer.bias, other, rectified=True)
        ctx.save_for_backward(out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor | None, None]:
        (out,), how, back = ctx.saved_tensors, ctx.layer.how, ctx.layer.back
        if not ctx.added:
            return how.convolved(grads[0], back, sign=out), None, None
        through = torch.ops.aten.threshold_backward(grads[0], out, 0)
        return how.convolved(through, back), through, None
