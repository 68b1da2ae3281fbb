"""Adversarial training for free (Shafahi et al., 2019): ATF in the paper."""

import torch

from gamagat.defenses.core import DEFENSES, DIGITS, Made, Recipe, Stage, Terms
from gamagat.pieces.types import Images

CIFAR10 = {"epochs": 10, "replays": 8, "cycle": "triangle", "rate": 0.04}
SMALL = {"epochs": 10, "replays": 8, "batch": 64, "rate": 0.01}


@DEFENSES.register("free", presets={"cifar10": CIFAR10, "mnist": SMALL, "digits": DIGITS | SMALL})
def free() -> Recipe:
    """ATF: every batch is replayed, and one backward pass moves both the weights and the perturbation.

    The perturbation is carried on to the next batch. `replays` says how often each batch is used.
    """
    return Made(_step, carries=True)


def _step(stage: Stage) -> Terms:
    x, threat = stage.x, stage.threat
    kept = stage.memory["delta"][: len(x)]
    leaf = threat.project(kept, x).requires_grad_()
    images = (x + leaf).clamp(threat.low, threat.high)
    adversarial = stage.logits(images)
    stage.views.append(images.detach())

    @torch.no_grad()
    def carry(grad: Images) -> None:
        kept.copy_(threat.project(leaf + threat.vertex(grad), x))

    return Terms({"ce": stage.cross_entropy(adversarial)}, adversarial=adversarial, leaf=leaf, carry=carry)
