"""What happens as eps grows: the loss of FGSM images rises, and at last nothing is left standing."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import torch
import torch.nn.functional as F

from gamagat.engine.masking.exam import Exam
from gamagat.engine.masking.result import Level, Result, graded, graded_points
from gamagat.pieces.gradients import logits_of

# At the last radius every image can become plain grey, and the network gives grey a single class: more than
# the largest class cannot stand there, so that more is proof of an attack that fails. Attacks on sound
# networks leave nothing; a twentieth is a sign of an attack that struggles.
NOTHING_LEFT = 5.0

SHARES = (0.25, 0.5, 0.75, 1.0)  # of eps, for FGSM

# A normally trained network's loss may sag near eps, where a single step has gone too far; a collapsed one's
# falls below half of what it was nearer to the image.
SAG, FALL = 0.05, 0.5


def radii(exam: Exam) -> Iterator[float]:
    """Radii beyond eps, each twice the last, up to the one that reaches plain grey from any image."""
    pixels = math.prod(exam.prepared.data.shape)
    grey = 0.5 if exam.threat.norm.name == "linf" else 0.5 * math.sqrt(pixels)
    radius = 2 * exam.threat.eps
    while radius < 0.9 * grey:
        yield radius
        radius *= 2
    yield max(grey, exam.threat.eps)


def large_eps(exam: Exam) -> Result:
    """Accuracy reaches zero as eps grows."""
    left = {radius: exam.accuracy_at(exam.doses.far, radius) for radius in radii(exam)}
    *_, (grey, last) = left.items()
    labels = exam.prepared.data.labels
    most = 100 * float(torch.bincount(labels).max()) / len(labels)
    limit = max(most, NOTHING_LEFT)
    return Result(
        graded_points(exam, last, NOTHING_LEFT, limit),
        "PGD leaves " + ", ".join(f"{accuracy:.1f} % at {radius:.3g}" for radius, accuracy in left.items()),
        f"at most {exam.worth(NOTHING_LEFT):.3g} % at {grey:.3g}, above {exam.worth(limit):.3g} % masked",
        f"Within {grey:.3g} every image can become plain grey, so that no more than one class ({most:.3g} % "
        "of the images) can stand; what stands beyond that an attack has missed.",
        "Plot accuracy against eps, find out where attacks get stuck, and attack there without gradients.",
        {f"eps_{radius:.3g}_accuracy": accuracy for radius, accuracy in left.items()},
    )


def loss_rises(exam: Exam) -> Result:
    """The loss of FGSM images rises monotonically with eps."""
    losses = [mean_loss(exam, 0.0), *(mean_loss(exam, share * exam.threat.eps) for share in SHARES)]
    fall = float((np.maximum.accumulate(losses) - losses).max() / max(*losses, 1e-30))
    level = graded(fall, SAG, FALL)
    if level is Level.WARNS and not exam.stands():
        level = Level.FINE  # an overshot step is no masking where nothing is left to hide
    if not np.isfinite(losses).all():
        level = Level.WARNS  # NaN is neither higher nor lower
    if losses[-1] <= losses[0]:
        level = Level.MASKED  # the gradient leads nowhere
    shown = ", ".join(f"{loss:.3g}" for loss in losses)
    return Result(
        level,
        f"the mean cross-entropy of FGSM images is {shown} at 0, 1/4, 1/2, 3/4 and 1 of eps",
        f"falls by at most {100 * SAG:g} % of its peak, where attacks leave anything standing; above "
        f"{100 * FALL:g} %, or no higher than at 0, masked",
        "The gradient at the image says where the loss climbs; if the loss falls on the way, the network has "
        "bent it exactly where single steps go.",
        "Look at the loss along the gradient, image by image; do not trust single-step attacks, nor training "
        "with them.",
        {f"loss_{share:g}": loss for share, loss in zip((0.0, *SHARES), losses, strict=True)},
    )


@torch.no_grad()
def mean_loss(exam: Exam, eps: float) -> float:
    """The mean cross-entropy of FGSM images at this radius, over all images."""
    network, total = exam.network(), 0.0
    batches = exam.made(exam.doses.fgsm, eps) if eps else ((x, x, y) for x, y, _ in exam.parts())
    for images, _, y in batches:
        total += float(F.cross_entropy(logits_of(network, images), y, reduction="sum"))
    return total / exam.count
