"""SPSA (Uesato et al., 2018): the loss is climbed along differences at random points, without gradients."""

from gamagat.attacks.core import ATTACKS, HUGE, TINY, Attack, IterativeAttack, check_options
from gamagat.pieces.gradients import spsa as differences
from gamagat.pieces.losses import logit_margin
from gamagat.pieces.rules import adam
from gamagat.pieces.schedules import constant
from gamagat.pieces.starts import uniform


@ATTACKS.register("spsa")
def spsa(steps: int = 100, samples: int = 128, rate: float = 0.01, delta: float = 0.01) -> Attack:
    """SPSA: Adam on the logit margin, its gradient from loss differences at `samples` pairs of images.

    `rate` and `delta` are in units of pixels, as the paper has them.
    """
    check_options(samples=(samples, 1, HUGE), rate=(rate, TINY, HUGE), delta=(delta, TINY, HUGE))
    rule = adam(constant(rate), in_pixels=True)
    return IterativeAttack(uniform, logit_margin, rule, steps, gradient=differences(samples, delta))
