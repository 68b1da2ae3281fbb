"""The judge decides what was fooled: in single precision, from the images alone, trusting no attack."""

from typing import NamedTuple

import torch

from gamagat.engine.runtime import full_precision, searched
from gamagat.pieces.gradients import logits_of
from gamagat.pieces.threat import ThreatModel
from gamagat.pieces.types import Images, Labels, Mask, Model, PerExample, Scores

PIECE = 512  # images that a GPU looks at together
SMALL = 3 * 32 * 32  # numbers of an image up to which a search pays; larger ones were never measured


class Verdict(NamedTuple):
    """What the judge saw."""

    fooled: Mask  # another class wins, and the image is finite, in the pixel range and in the ball
    prediction: Labels
    distance: PerExample


@torch.no_grad()
def predict(model: Model, images: Images) -> Labels:
    """The classes the network gives these images; a network that returns NaN gives none (-1)."""
    small = images.is_cuda and images[:1].numel() <= SMALL
    with full_precision():
        return winners(in_pieces(model, images, PIECE) if small else logits_of(model, images))


def in_pieces(model: Model, images: Images, size: int) -> Scores:
    """The network's answers, piece by piece, as fast as convolutions of that one size can be had.

    The rest is answered without a search: every number of images would need one of its own.
    """
    *whole, rest = images.tensor_split([*range(size, len(images) + 1, size)])
    with searched():
        answers = [logits_of(model, piece) for piece in whole]
    if len(rest) or not whole:
        answers.append(logits_of(model, rest))
    return torch.cat(answers)


def winners(logits: Scores) -> Labels:
    """The class with the largest logit; -1 where one of them is no number."""
    return torch.where(logits.isfinite().all(1), logits.argmax(1), -1)


def judge(model: Model, images: Images, x: Images, y: Labels, threat: ThreatModel) -> Verdict:
    """Look at adversarial images as a stranger would."""
    prediction, distance = predict(model, images), threat.distance(images, x)
    return Verdict((prediction != y) & threat.holds(images, distance), prediction, distance)
