"""The attacks between PGD and GAMA-PGD, which the paper's ablation of the attack (table S2) takes apart."""

from typing import Literal

from gamagat.attacks.core import ATTACKS, Attack, IterativeAttack, first_iterate
from gamagat.attacks.gama import IDLE, dropping, fading
from gamagat.pieces.losses import by_autograd, guided, logit_margin, probability_margin
from gamagat.pieces.rules import projected_ascent
from gamagat.pieces.starts import unclipped, uniform


@ATTACKS.register("pgd-margin", idle=IDLE)
def pgd_margin(
    space: Literal["logits", "probabilities"] = "logits",
    weight: float = 0.0,
    fade: float | None = None,
    steps: int = 100,
    rate: float = 2.0,
    drops: tuple[float, ...] = (0.6, 0.85),
    factor: float = 0.1,
) -> Attack:
    """GAMA-PGD without what makes it: a margin and a uniform start, guided if at all; to the last iterate."""
    lam = fading(weight, fade, steps)
    margin = logit_margin if space == "logits" else probability_margin
    loss = guided(margin, lam) if weight > 0 else margin
    rule = projected_ascent(dropping(rate, drops, factor, steps))
    start = unclipped(uniform)
    return IterativeAttack(start, by_autograd(loss), rule, steps, guide=first_iterate, stop=False)
