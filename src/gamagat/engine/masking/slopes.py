"""What the network's gradients are like, image by image, before any attack follows them."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F

from gamagat.attacks.network import Network
from gamagat.engine.checkup.outputs import ROUNDS_TO_ONE, UNDERFLOWS
from gamagat.engine.masking.exam import Exam, percent
from gamagat.engine.masking.result import Level, Result, graded_points, worst
from gamagat.pieces.gradients import logits_of
from gamagat.pieces.losses import View, log_odds, take, without
from gamagat.pieces.starts import uniform
from gamagat.pieces.types import Images, Labels, Mask, PerExample, Scores

# A network without dead layers has no image with a gradient of exactly zero; a few dead units may leave one
# or two in a hundred. From a tenth on, attacks stand still on so many images that accuracies move.
FEW_FLAT, MANY_FLAT = 1.0, 10.0

# From a lead of 104 on a float32 softmax has no gradient left in any loss built on it. At 17.3, where the
# doctor begins to warn, the true class's part is gone, yet the sign of the rest still points uphill; normally
# trained CIFAR-10 networks are there and attacks break them.
SATURATED = 10.0

# Between the same number of steps with and without exact slopes lie at most a few images that walk another
# way; 2 points are ten of 500. Published PGD also walks on from images that it has fooled: on GAT for digits
# that alone is 2.3 points of 300 images, so that no more points count than there are leads that round.
UNDERFLOWN = 2.0

# Measured: GAT and TRADES have a mean cosine of 0.67 to 0.76 on digits and, where eps is large, of 0.38 and
# 0.44 on MNIST; FGSM-AT that has collapsed has 0.29 to 0.38 on digits, GAT on CIFAR-10 in an epoch in which
# PGD has lost touch with FGSM (39 against 70 %) has 0.19. They overlap, so the limit is below all sound ones.
ALIGNED = 0.25


class Slopes(NamedTuple):
    """One row for each image."""

    lead: PerExample  # of the true logit over the best other one
    flat: Mask  # the gradient is zero
    broken: Mask  # the gradient is not finite
    underflown: Mask  # the plain cross-entropy's gradient is zero where the exact one is not
    cosine: PerExample  # between the gradients at the image and at a random neighbour in the ball


def slopes(exam: Exam) -> Slopes:
    """The gradients of all images, looked at once."""
    if "slopes" not in exam.known:
        watch = exam.watch("gradients")
        rows = []
        for x, y, noise in exam.parts():
            near = (x + uniform(x, exam.threat, noise.fold(7))).clamp(exam.threat.low, exam.threat.high)
            rows.append(_look(exam.network(), x, near, y))
            watch.end(len(x))
        exam.known["slopes"] = Slopes(*(torch.cat(column).cpu() for column in zip(*rows, strict=True)))
    known: Slopes = exam.known["slopes"]
    return known


def _look(network: Network, x: Images, near: Images, y: Labels) -> Slopes:
    logits, exact = exact_gradient(network, x, y)
    _, neighbour = exact_gradient(network, near, y)
    broken = ~(exact.isfinite().all(1) & neighbour.isfinite().all(1))
    flat = (exact == 0).all(1)
    lead = take(logits, y) - without(logits, y).amax(1)
    underflown = (plain_gradient(network, x, y) == 0).all(1) & ~flat & ~broken
    return Slopes(lead, flat, broken, underflown, F.cosine_similarity(exact, neighbour, dim=1, eps=1e-30))


def exact_gradient(network: Network, images: Images, y: Labels) -> tuple[Scores, Images]:
    """Logits, and the direction in which the cross-entropy climbs, rescaled so that it cannot underflow."""
    images = images.detach().requires_grad_()
    with torch.enable_grad():
        logits = logits_of(network, images)
    view = View(logits.detach(), y, lambda schedule: torch.zeros_like(logits[:, 0]))
    slope = log_odds.slope(view).rescaled()
    (grad,) = torch.autograd.grad(logits, images, slope, allow_unused=True, materialize_grads=True)
    grad = grad.flatten(1)
    largest = grad.abs().amax(1, keepdim=True)
    return logits.detach(), grad / torch.where(largest > 0, largest, 1.0)  # a cosine squares small numbers


def plain_gradient(network: Network, images: Images, y: Labels) -> Images:
    """The gradient of the cross-entropy as any tool would take it, in single precision."""
    images = images.detach().requires_grad_()
    with torch.enable_grad():
        loss = F.cross_entropy(logits_of(network, images), y, reduction="sum")
    (grad,) = torch.autograd.grad(loss, images, allow_unused=True, materialize_grads=True)
    return grad.flatten(1)


def zero_gradients(exam: Exam) -> Result:
    """Whether there is a gradient to follow at all."""
    found = slopes(exam)
    flat, broken = percent(found.flat), percent(found.broken)
    cut = f" ({exam.cut})" if exam.cut else ""
    return Result(
        graded_points(exam, flat + broken, FEW_FLAT, MANY_FLAT),
        f"the gradient is zero for {flat:.3g} % of the images{cut} and not finite for {broken:.3g} %",
        f"at most {exam.worth(FEW_FLAT):.3g} % together; above {exam.worth(MANY_FLAT):.3g} % masked",
        "An attack that follows gradients stands still on such images, which is no robustness.",
        "Look for argmax, rounding, thresholds, detach or dead layers; replace them in the backward pass by "
        "something differentiable (BPDA), and diagnose the network again.",
        {"zero_percent": flat, "not_finite_percent": broken},
    )


def alignment(exam: Exam) -> Result:
    """Whether the gradient at an image is good for anything a little further on."""
    limit = f"at least {ALIGNED:g}, where attacks leave anything standing"
    meaning = "Where it is low the loss is crooked inside the ball: one step misses, many steps get lost."
    found = slopes(exam)
    useful = ~found.flat & ~found.broken
    if not bool(useful.any()):
        return Result(
            Level.UNCHECKED,
            "no image has a gradient",
            limit,
            meaning,
            "See zero-gradients.",
            {"cosine": None},
        )
    cosine = float(found.cosine[useful].mean())
    # Of a network of which attacks leave nothing, crooked gradients have hidden nothing.
    level = Level.WARNS if cosine < ALIGNED and exam.stands() else Level.FINE
    return Result(
        level,
        f"the gradients at an image and at a random neighbour in the ball have a cosine of {cosine:.3f}",
        limit,
        meaning,
        "Trust only attacks with many steps and restarts, and attacks without gradients; smooth the training "
        "(GAT's or TRADES' term, GradAlign) if it is yours.",
        {"cosine": cosine},
    )


def saturation(exam: Exam) -> Result:
    """Logits so far apart that a softmax rounds everything away."""
    lead = slopes(exam).lead
    rounded, dead = percent(lead > ROUNDS_TO_ONE), percent(lead > UNDERFLOWS)
    return Result(
        graded_points(exam, dead, SATURATED),
        f"the true logit leads by more than {ROUNDS_TO_ONE:g} for {rounded:.3g} % of the images, by more "
        f"than {UNDERFLOWS:g} for {dead:.3g} %; the median lead is {float(lead.median()):.3g}",
        f"at most {exam.worth(SATURATED):.3g} % beyond {UNDERFLOWS:g}",
        "Beyond the second lead no loss behind a float32 softmax has a gradient; gamagat's exact slopes "
        "cope, other tools' attacks stand still.",
        "Do not trust accuracies under attack that other tools measured on this network; divide its logits "
        "by a constant before they do.",
        {"rounded_percent": rounded, "dead_percent": dead, "median_lead": float(lead.median())},
    )


def underflow(exam: Exam) -> Result:
    """Whether an attack differentiated through the softmax is weaker than one with exact slopes."""
    found = slopes(exam)
    lost, rounded = percent(found.underflown), percent(found.lead > ROUNDS_TO_ONE)
    exact, published = exam.accuracy(exam.doses.steps[1]), exam.accuracy(exam.doses.published)
    gap = published - exact
    return Result(
        worst(graded_points(exam, min(gap, rounded), UNDERFLOWN), graded_points(exam, lost, SATURATED)),
        f"the float32 gradient of the cross-entropy vanishes for {lost:.3g} % of the images; PGD through the "
        f"softmax leaves {published:.1f} %, with exact slopes {exact:.1f} %",
        f"PGD through the softmax at most {exam.worth(UNDERFLOWN):.3g} points weaker where leads beyond "
        f"{ROUNDS_TO_ONE:g} round ({rounded:.3g} % do), gradients vanish for at most "
        f"{exam.worth(SATURATED):.3g} %",
        "What an attack cannot see for rounding looks like robustness in any tool that differentiates the "
        "softmax.",
        "Report numbers of attacks with exact slopes or on logits (gama-pgd and pgd here, margin and DLR "
        "elsewhere).",
        {"underflown_percent": lost, "published_accuracy": published, "exact_accuracy": exact},
    )
