"""The network as attacks see it: a number of images at a time, in few shapes, under the clock."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

import torch

from gamagat.pieces.types import Images, Model, Scores


class OutOfTime(Exception):  # noqa: N818 - it is no error
    """The time that was given is over."""


class Network:
    """Wraps a model: `width` tells attacks how many images it takes at a time, each pass is told to `seen`.

    With `padded`, a batch is filled up to the next power of two, so that a GPU meets few shapes.
    """

    def __init__(
        self,
        model: Model,
        width: int,
        padded: bool = False,
        deadline: float = float("inf"),
        seen: Callable[[int], None] | None = None,
    ) -> None:
        self.model, self.width, self.padded, self.deadline = model, width, padded, deadline
        self.seen = seen

    def __call__(self, images: Images) -> Scores:
        if monotonic() > self.deadline:
            raise OutOfTime
        if len(images) > self.width:
            return torch.cat([self(part) for part in torch.split(images, self.width)])
        logits = self.model(self._filled(images))[: len(images)]
        if self.seen is not None:
            self.seen(len(images))
        return logits

    def _filled(self, images: Images) -> Images:
        missing = min(self.width, 1 << (len(images) - 1).bit_length()) - len(images) if self.padded else 0
        return images if missing <= 0 else torch.cat([images, images[-1:].expand(missing, -1, -1, -1)])
