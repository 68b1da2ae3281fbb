"""The judge decides what was fooled: in single precision, from the images alone, trusting no attack."""

from typing import NamedTuple

import torch

from gamagat.engine.runtime import full_precision
from gamagat.pieces.gradients import logits_of
from gamagat.pieces.threat import ThreatModel
from gamagat.pieces.types import Images, Labels, Mask, Model, PerExample, Scores


class Verdict(NamedTuple):
    """What the judge saw."""

    fooled: Mask  # another class wins, and the image is finite, in the pixel range and in the ball
    prediction: Labels
    distance: PerExample


@torch.no_grad()
def predict(model: Model, images: Images) -> Labels:
    """The classes the network gives these images; a network that returns NaN gives none (-1)."""
    with full_precision():
        return winners(logits_of(model, images))


def winners(logits: Scores) -> Labels:
    """The class with the largest logit; -1 where one of them is no number."""
    return torch.where(logits.isfinite().all(1), logits.argmax(1), -1)


def judge(model: Model, images: Images, x: Images, y: Labels, threat: ThreatModel) -> Verdict:
    """Look at adversarial images as a stranger would."""
    prediction, distance = predict(model, images), threat.distance(images, x)
    return Verdict((prediction != y) & threat.holds(images, distance), prediction, distance)
