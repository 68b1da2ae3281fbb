"""Who sees validation images: the network, and on a CPU, where it is attacked, a faster one in its place."""

from __future__ import annotations

from threading import current_thread, main_thread
from typing import NamedTuple

import torch
from torch import nn

from gamagat.defenses.adversary import Adversary
from gamagat.engine.judge import winners
from gamagat.engine.quick.network import quickened
from gamagat.engine.watch import Watch
from gamagat.errors import ModelError
from gamagat.pieces.gradients import logits_of
from gamagat.pieces.noise import Noise
from gamagat.pieces.threat import ThreatModel
from gamagat.pieces.types import Images, Labels, Mask, Model, Scores


class Eyes(NamedTuple):
    """The network, or what stands for it altogether, and what attacks see in its place."""

    network: Model
    quick: Model | None = None
    watch: Watch | None = None  # who is told of every pass of an attack

    def attacked(self, attack: Adversary, x: Images, y: Labels, threat: ThreatModel, noise: Noise) -> Images:
        """Adversarial images; those that fell for the stand-in alone are made again by the network itself."""
        network = _watched(self.network, self.watch)
        if self.quick is None:
            return attack(network, x, y, threat, noise)
        try:
            images = attack(_watched(self.quick, self.watch), x, y, threat, noise)
            fell = _fallen(self.quick, images, y)
        except (MemoryError, ModelError, RuntimeError):  # what fails may be its arithmetic alone
            return attack(network, x, y, threat, noise)
        doubtful = (fell & ~_fallen(self.network, images, y)).nonzero().flatten()
        if len(doubtful):
            images[doubtful] = attack(network, x[doubtful], y[doubtful], threat, noise[doubtful])
        return images


def quick_eyes(model: nn.Module, sample: Images) -> Model | None:
    """A stand-in with the weights of this moment, if one agrees: the same one for the same weights.

    Tracing changes how every module of the process is called, so it is left to the main thread.
    """
    if current_thread() is not main_thread():
        return None
    made = quickened(model, "auto", sample, 0, lambda words: None)
    return None if made is None else made.model


@torch.no_grad()
def _fallen(network: Model, images: Images, y: Labels) -> Mask:
    return winners(logits_of(network, images)) != y


def _watched(network: Model, watch: Watch | None) -> Model:
    """The same network, telling the watch how many images have passed through it."""
    if watch is None:
        return network

    def answer(images: Images) -> Scores:
        scores: Scores = network(images)
        watch.seen(len(images))
        return scores

    return answer
