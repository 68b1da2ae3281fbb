"""A few answers of a network tell a function, or a setting of a module, that its weights do not tell."""

from collections.abc import Sequence

import torch

from gamagat.data.core import Dataset
from gamagat.engine.runtime import full_precision
from gamagat.pieces.gradients import logits_of
from gamagat.pieces.noise import Noise
from gamagat.pieces.types import Model

COUNT = 8  # images that are asked about
ALIKE = 0.02  # of the largest answer: what machines and batches make of one network differs by less


@torch.no_grad()
def answers(model: Model, data: Dataset, device: torch.device) -> list[float]:
    """The largest logit of each of the first images, and their means; nothing where they go by chance.

    As many images of noise are asked about: a network that is sure of itself says the same of much else.
    """
    first = torch.arange(min(COUNT, len(data)))
    seen, _ = data.batch(first, device)
    images = torch.cat([seen, Noise.for_images(first.to(device)).uniform(seen)])
    with full_precision():
        once, again = ([*map(float, _sums(model, images))] for _ in range(2))
    return [] if disagree(once, again) else once


def _sums(model: Model, images: torch.Tensor) -> torch.Tensor:
    logits = logits_of(model, images).double()
    return torch.cat([logits.amax(1), logits.mean(1)]).cpu()


def disagree(ours: Sequence[float], theirs: Sequence[float]) -> bool:
    """Whether these are answers of two networks; where there is nothing to compare, they are not."""
    if not ours or len(ours) != len(theirs):
        return False
    apart = max(abs(one - other) for one, other in zip(ours, theirs, strict=True))
    return apart > ALIKE * max(map(abs, ours))
