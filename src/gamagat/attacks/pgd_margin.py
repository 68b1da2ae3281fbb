"""The attacks between PGD and GAMA-PGD, which the paper's ablation of the attack (table S2) takes apart."""

from typing import Literal

from gamagat.attacks.core import ATTACKS, HUGE, TINY, Attack, IterativeAttack, check_options, first_iterate
from gamagat.pieces.losses import by_autograd, guided, logit_margin, probability_margin
from gamagat.pieces.rules import projected_ascent
from gamagat.pieces.schedules import constant, milestone, stepped
from gamagat.pieces.starts import unclipped, uniform


@ATTACKS.register("pgd-margin")
def pgd_margin(
    space: Literal["logits", "probabilities"] = "logits",
    weight: float = 0.0,
    steps: int = 100,
    rate: float = 2.0,
    drops: tuple[float, ...] = (0.6, 0.85),
    factor: float = 0.1,
) -> Attack:
    """GAMA-PGD without what makes it: a margin, a uniform start, and lambda constant; to the last iterate."""
    check_options(weight=(weight, 0.0, HUGE), rate=(rate, TINY, HUGE), factor=(factor, TINY, 1.0))
    margin = logit_margin if space == "logits" else probability_margin
    loss = guided(margin, constant(weight)) if weight > 0 else margin
    rule = projected_ascent(stepped(rate, tuple(milestone(drop, steps) for drop in drops), factor))
    start = unclipped(uniform)
    return IterativeAttack(start, by_autograd(loss), rule, steps, guide=first_iterate, stop=False)
