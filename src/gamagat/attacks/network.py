"""The network as attacks see it: a number of images at a time, in few shapes, under the clock."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

import torch

from gamagat.errors import GamagatError, ModelError
from gamagat.pieces.gradients import logits_of
from gamagat.pieces.types import Images, Labels, Mask, Model, Scores


class OutOfTime(Exception):  # noqa: N818 - it is no error
    """The time that was given is over."""


def predict(model: Model, images: Images) -> Labels:
    """The classes that win."""
    return logits_of(model, images).argmax(1)


class Network:
    """Wraps a model: `width` tells attacks how many images it takes at a time, each pass is told to `seen`.

    With `padded`, a batch is filled up to the next power of two, so that a GPU meets few shapes. The judge
    will see an image through `look`. With `patience`, attacks look only every so many steps which images have
    fallen: on a GPU each look makes the host wait.
    """

    def __init__(
        self,
        model: Model,
        width: int,
        padded: bool = False,
        deadline: float = float("inf"),
        seen: Callable[[int], None] | None = None,
        look: Callable[[Model, Images], Labels] = predict,
        patience: int = 1,
    ) -> None:
        self.model, self.width, self.padded, self.deadline = model, width, padded, deadline
        self.seen, self.look, self.patience = seen, look, patience

    def __call__(self, images: Images) -> Scores:
        if monotonic() > self.deadline:
            raise OutOfTime
        if len(images) > self.width:
            return torch.cat([self(part) for part in torch.split(images, self.width)])
        logits = self._answer(self._filled(images))[: len(images)]
        if self.seen is not None:
            self.seen(len(images))
        return logits

    @torch.no_grad()
    def confirms(self, images: Images, y: Labels) -> Mask:
        """Which of these images the judge would call fooled."""
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
        missing = min(self.width, 1 << (len(images) - 1).bit_length()) - len(images) if self.padded else 0
        return images if missing <= 0 else torch.cat([images, images[-1:].expand(missing, -1, -1, -1)])


def is_memory(error: Exception) -> bool:
    """Whether this says that memory does not suffice."""
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)
