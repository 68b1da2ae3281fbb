"""The MultiTargeted attack (Gowal et al., 2019): the logit margin of each likely wrong class in turn."""

from gamagat.attacks.combine import each_target
from gamagat.attacks.core import ATTACKS, HUGE, TINY, Attack, IterativeAttack, check_options
from gamagat.attacks.gama import IDLE_DROPS
from gamagat.pieces.losses import logit_margin
from gamagat.pieces.rules import projected_ascent
from gamagat.pieces.schedules import milestone, stepped
from gamagat.pieces.starts import unclipped, uniform


@ATTACKS.register("multitargeted", idle=IDLE_DROPS)
def multitargeted(
    top: int = 5,
    steps: int = 100,
    rate: float = 1.0,
    drops: tuple[float, ...] = (0.5, 0.75),
    factor: float = 0.1,
    as_published: bool = False,
) -> Attack:
    """PGD on the logit margin of each of the likeliest wrong classes in turn."""
    check_options(rate=(rate, TINY, HUGE), factor=(factor, TINY, 1.0))
    rule = projected_ascent(stepped(rate, tuple(milestone(drop, steps) for drop in drops), factor))
    start = unclipped(uniform) if as_published else uniform
    return each_target(IterativeAttack(start, logit_margin, rule, steps, stop=not as_published), top)
