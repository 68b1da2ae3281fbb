"""The nearest adversarial image: what attacks that look for it, also beyond eps, have in common."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch

from gamagat.attacks.network import Network, lead, predict
from gamagat.pieces.gradients import logits_of
from gamagat.pieces.noise import Noise
from gamagat.pieces.starts import surface
from gamagat.pieces.threat import ThreatModel
from gamagat.pieces.trees import lift
from gamagat.pieces.types import Counts, Images, Labels, Mask, Model, PerExample


class Nearest(NamedTuple):
    """The nearest adversarial image of each that was seen, and when one was first inside the threat model."""

    image: Images  # the image itself where there is none
    size: PerExample  # its distance; infinite where there is none
    fell: Counts  # how many steps were taken when one was first seen inside, or -1

    @classmethod
    def at_first(cls, x: Images, fooled: Mask, threat: ThreatModel) -> Nearest:
        """Before the first step: an image that is misclassified as it is has its answer already."""
        size = threat.distance(x, x)
        none = torch.zeros_like(size, dtype=torch.int64)
        return cls(x, torch.full_like(size, float("inf")), none - 1).seen(x, size, fooled, none, threat)

    def seen(
        self, images: Images, size: PerExample, fooled: Mask, step: Counts, threat: ThreatModel
    ) -> Nearest:
        """Remember the images, so far away, that fool and are nearer than all before."""
        nearer = fooled & (size < self.size)
        inside = fooled & (self.fell < 0) & threat.holds(images, size)
        return Nearest(
            torch.where(lift(nearer, images), images, self.image),
            torch.where(nearer, size, self.size),
            torch.where(inside, step, self.fell),
        )

    def otherwise(self, last: Images, x: Images, threat: ThreatModel, inside: bool = False) -> Images:
        """The nearest, or the last try, drawn into the ball, where there is none.

        With `inside` the nearest is no answer where it lies outside the threat model.
        """
        last = (x + threat.project(last - x, x)).clamp(threat.low, threat.high)
        found = self.fell >= 0 if inside else self.size.isfinite()
        return torch.where(lift(found, last), self.image, last)


@torch.no_grad()
def fools(model: Model, images: Images, y: Labels) -> Mask:
    """Which images are misclassified, in the eyes of the judge where there is one."""
    # A nearest adversarial image lies next to the boundary, where precision decides.
    return model.confirms(images, y) if isinstance(model, Network) else predict(model, images) != y


@torch.no_grad()
def looked(model: Model, images: Images, y: Labels, matters: Mask) -> tuple[Mask, Counts]:
    """Which images are misclassified, and how many forward passes it took to know.

    Where a stand-in is attacked the judge is asked only about those that matter, and of these only about
    those that the stand-in does not see clearly on one side.
    """
    once = torch.ones_like(y)
    if not (isinstance(model, Network) and model.asks and model.slack > 0):
        return fools(model, images, y), once
    ahead = lead(logits_of(model, images), y)
    fooled, asked = ahead > 0, matters & unclear(model, ahead)
    if bool(asked.any()):
        fooled[asked] = model.confirms(images[asked], y[asked])
    return fooled, once + asked


def unclear(model: Model, ahead: PerExample) -> Mask:
    """Where only the judge knows whether the best wrong class is ahead, for all that the network says of it.

    A network whose error is not known, as the judge's own in other arithmetic, is unclear everywhere.
    """
    if not (isinstance(model, Network) and model.asks):
        return torch.zeros_like(ahead, dtype=torch.bool)
    return ~(ahead.abs() > model.slack) | (model.slack == 0)  # also where it is no number


def halfway(x: Images, threat: ThreatModel, noise: Noise) -> Images:
    """Anywhere on the surface of the ball of half the size."""
    return surface(x, replace(threat, eps=threat.eps / 2), noise)
