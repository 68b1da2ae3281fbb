"""The network as attacks see it: a number of images at a time, in few shapes, under the clock."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

import torch

from gamagat.errors import GamagatError, ModelError
from gamagat.pieces.gradients import logits_of
from gamagat.pieces.losses import take, without
from gamagat.pieces.types import Images, Labels, Mask, Model, PerExample, Scores

PARTS = 64  # sizes of batches: many waste little, few are soon known to a GPU's libraries


class OutOfTime(Exception):  # noqa: N818 - it is no error
    """The time that was given is over."""


def predict(model: Model, images: Images) -> Labels:
    """The classes that win."""
    return logits_of(model, images).argmax(1)


class Network:
    """Wraps a model: `width` tells attacks how many images it takes at a time, each pass is told to `seen`.

    With `padded`, a batch is filled up to one of a few sizes, so that a GPU meets few shapes. The judge will
    see an image through `look`; with None it is not asked before the end. With `patience`, attacks look only
    every so many steps which images have fallen: on a GPU each look makes the host wait. An image has fallen
    when a wrong class leads by more than `slack`, which is as far as the network's numbers can be trusted.
    """

    def __init__(
        self,
        model: Model,
        width: int,
        padded: bool = False,
        deadline: float = float("inf"),
        seen: Callable[[int], None] | None = None,
        look: Callable[[Model, Images], Labels] | None = predict,
        patience: int = 1,
        slack: float = 0.0,
    ) -> None:
        self.model, self.width, self.padded, self.deadline = model, width, padded, deadline
        self.seen, self.look, self.patience, self.slack = seen, look, patience, slack

    def __call__(self, images: Images) -> Scores:
        if monotonic() > self.deadline:
            raise OutOfTime
        if len(images) > self.width:
            return torch.cat([self(part) for part in torch.split(images, self.width)])
        logits = self._answer(self._filled(images))[: len(images)]
        if self.seen is not None:
            self.seen(len(images))
        return logits

    @property
    def asks(self) -> bool:
        """Whether the judge can be asked before an image leaves."""
        return self.look is not None

    @torch.no_grad()
    def confirms(self, images: Images, y: Labels) -> Mask:
        """Which of these images the judge would call fooled; all, where it cannot be asked."""
        if self.look is None:
            return torch.ones_like(y, dtype=torch.bool)
        return self.look(self, images) != y

    def _answer(self, images: Images) -> Scores:
        try:
            return self.model(images)
        except Exception as error:
            if isinstance(error, GamagatError) or is_memory(error):
                raise
            shape, words = tuple(images.shape), " ".join(str(error).split()) or type(error).__name__
            raise ModelError(f"the network failed on images of shape {shape}: {words[:300]}") from error

    def _filled(self, images: Images) -> Images:
        missing = full(len(images), self.width) - len(images) if self.padded else 0
        # Images again, never more than there are: an expanded one would lose the layout in memory.
        return images if missing <= 0 else torch.cat([images, images[:missing].detach()])


def full(count: int, width: int) -> int:
    """The size that a batch is filled up to: a number of parts of the width; below one, a power of two."""
    step = max(1, width // PARTS)
    return min(width, -(-count // step) * step if count > step else max(2, 1 << (count - 1).bit_length()))


def fallen(model: Model, logits: Scores, y: Labels) -> Mask:
    """Which images a network with these logits takes for another class, as far as it can be trusted."""
    slack = model.slack if isinstance(model, Network) else 0.0
    return logits.argmax(1) != y if slack == 0 else lead(logits, y) > slack


def lead(logits: Scores, y: Labels) -> PerExample:
    """By how much the best wrong class is ahead of the true one."""
    return without(logits, y).amax(1) - take(logits, y)


def is_memory(error: Exception) -> bool:
    """Whether this says that memory does not suffice."""
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)
