"""Noise keyed by image: the same draw in any batch, on any device, with any number of processes."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from gamagat.pieces.types import Images, Labels

# SplitMix64: a counter that advances by the golden ratio, then a mixer of two multiplications. The constants
# are written as signed 64-bit numbers, the only kind torch has; its products wrap around as they should.
GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)
FIRST, SECOND = 0xBF58476D1CE4E5B9 - (1 << 64), 0x94D049BB133111EB - (1 << 64)


def _shift(bits: Tensor, by: int) -> Tensor:
    """A logical shift to the right; torch's own copies the sign bit."""
    return (bits >> by) & ((1 << (64 - by)) - 1)


def _mix(bits: Tensor) -> Tensor:
    bits = (bits ^ _shift(bits, 30)) * FIRST
    bits = (bits ^ _shift(bits, 27)) * SECOND
    return bits ^ _shift(bits, 31)


def _laid_out(values: Tensor, like: Tensor) -> Tensor:
    """The values in the shape of `like`, and in its order in memory: mixed orders make every step slow."""
    values = values.view(like.shape)
    return values if like.is_contiguous() else torch.empty_like(like).copy_(values)


def _signed(number: int) -> int:
    """Any integer as the signed 64-bit number with the same low bits."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


@dataclass(frozen=True, slots=True)
class Noise:
    """A stream of random numbers for every image."""

    keys: Labels

    @classmethod
    def for_images(cls, ids: Labels, seed: int = 0) -> Noise:
        """The streams of these images under this seed."""
        return cls(_mix(_mix(ids.long() + FIRST) + _signed(seed * GOLDEN)))

    def fold(self, tag: int) -> Noise:
        """Independent streams, such as one for each restart."""
        return Noise(_mix(_mix(self.keys + SECOND) + _signed(tag * GOLDEN)))

    def __getitem__(self, index: Tensor) -> Noise:
        return Noise(self.keys[index])

    def uniform(self, like: Images) -> Images:
        """Numbers in [0, 1), shaped and typed like `like`."""
        digits = 24 if like.dtype == torch.float32 else 53 if like.dtype == torch.float64 else 11
        return _laid_out(_shift(self._bits(like), 64 - digits).to(like.dtype) / (1 << digits), like)

    def signs(self, like: Images) -> Images:
        """Plus or minus one with equal chance."""
        return _laid_out((1 - 2 * _shift(self._bits(like), 63)).to(like.dtype), like)

    def normal(self, like: Images) -> Images:
        """Standard normal numbers; in half precision too they are drawn in single, where none is infinite."""
        wide = like if like.dtype == torch.float64 else like.float()
        inside = self.uniform(wide).clamp(2.0**-25, 1 - 2.0**-24)
        return (math.sqrt(2) * (2 * inside - 1).erfinv()).to(like.dtype)

    def _bits(self, like: Images) -> Tensor:
        place = torch.arange(1, like[:1].numel() + 1, device=like.device)
        # The product must wrap around; a compiler that knows the constant would take it for an index.
        golden = (place | -1) & GOLDEN
        return _mix(self.keys.to(like.device)[:, None] + place * golden)
