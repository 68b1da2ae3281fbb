"""Gradient ascent on the cross-entropy: FGSM, R-FGSM, IFGSM, PGD and its targeted form."""

from typing import Literal

from gamagat.attacks.combine import Aimed, least_likely, random_wrong
from gamagat.attacks.core import ATTACKS, HUGE, STRIDES, TINY, Attack, IterativeAttack, check_options
from gamagat.pieces.losses import by_autograd, cross_entropy, target_likelihood
from gamagat.pieces.rules import projected_ascent
from gamagat.pieces.schedules import constant
from gamagat.pieces.starts import Start, at_image, corner, unclipped, uniform

MNIST_RATE = 0.01 / 0.3  # steps of 0.01 at eps 0.3


def _ascent(start: Start, rate: float, steps: int, as_published: bool = False) -> Attack:
    check_options(rate=(rate, TINY, HUGE))
    loss = by_autograd(cross_entropy) if as_published else cross_entropy
    rule = projected_ascent(constant(rate))
    return IterativeAttack(start, loss, rule, steps, stop=not as_published)


@ATTACKS.register("fgsm")
def fgsm(as_published: bool = False) -> Attack:
    """Fast gradient sign method: one step of eps along the gradient of the cross-entropy."""
    return _ascent(at_image, 1.0, 1, as_published)


@ATTACKS.register("r-fgsm")
def r_fgsm(alpha: float = 0.5, as_published: bool = False) -> Attack:
    """FGSM from a random corner: alpha * eps of sign noise, then one step of what is left of eps."""
    check_options(alpha=(alpha, 0.0, 0.999))
    return _ascent(corner(alpha), 1.0 - alpha, 1, as_published)


@ATTACKS.register("ifgsm", presets={"mnist": {"steps": 40}})
def ifgsm(steps: int = 7, as_published: bool = False) -> Attack:
    """Iterative FGSM from the image itself, in steps of eps / steps."""
    return _ascent(at_image, 1.0 / max(steps, 1), steps, as_published)


@ATTACKS.register("pgd", presets={"mnist": {"rate": MNIST_RATE}}, tags=[STRIDES])
def pgd(steps: int = 100, rate: float = 0.25, as_published: bool = False) -> Attack:
    """Projected gradient ascent on the cross-entropy from a uniform start, in steps of rate * eps."""
    return _ascent(unclipped(uniform) if as_published else uniform, rate, steps, as_published)


@ATTACKS.register("pgd-targeted", presets={"mnist": {"rate": MNIST_RATE}}, tags=[STRIDES])
def pgd_targeted(
    target: Literal["least-likely", "random"] = "least-likely",
    steps: int = 500,
    rate: float = 0.25,
    as_published: bool = False,
) -> Attack:
    """PGD towards one wrong class: the least likely one, or any with equal chance."""
    check_options(rate=(rate, TINY, HUGE))
    loss = by_autograd(target_likelihood) if as_published else target_likelihood
    start = unclipped(uniform) if as_published else uniform
    attack = IterativeAttack(start, loss, projected_ascent(constant(rate)), steps, stop=not as_published)
    return Aimed(attack, {"least-likely": least_likely, "random": random_wrong}[target])
