"""Auto-PGD (Croce and Hein, 2020): on the cross-entropy, on the DLR loss, and aimed at each likely class."""

from gamagat.attacks.combine import each_target
from gamagat.attacks.core import ATTACKS, USES_DLR, Attack, IterativeAttack
from gamagat.pieces.auto_step import auto_step
from gamagat.pieces.gradients import averaged
from gamagat.pieces.losses import Loss, dlr, dlr_targeted, log_odds
from gamagat.pieces.starts import surface


def _apgd(loss: Loss, steps: int, eot: int = 1) -> Attack:
    return IterativeAttack(surface, loss, auto_step(steps), steps, gradient=averaged(eot))


@ATTACKS.register("apgd-ce")
def apgd_ce(steps: int = 100, eot: int = 1) -> Attack:
    """Auto-PGD on the cross-entropy: steps that halve by themselves when they stop paying.

    Networks that answer at random are read `eot` times a step.
    """
    # The rule compares losses, and the cross-entropy of a sure network is 0.0 wherever one looks.
    return _apgd(log_odds, steps, eot)


@ATTACKS.register("apgd-dlr", tags=[USES_DLR])
def apgd_dlr(steps: int = 100, eot: int = 1) -> Attack:
    """Auto-PGD on the difference of logits ratio; with two classes, on the logit margin."""
    return _apgd(dlr, steps, eot)


@ATTACKS.register("apgd-t", tags=[USES_DLR])
def apgd_t(top: int = 9, steps: int = 100) -> Attack:
    """Auto-PGD on the targeted DLR loss of each of the likeliest wrong classes in turn."""
    return each_target(_apgd(dlr_targeted, steps), top)
