"""The guided attacks of the paper: GAMA-PGD, -FW and -MT, GA-CE, the 10-step forms, and GAMA with Adam.

They maximise the margin in probability space plus lambda_t times the squared distance of the probabilities
from those of the noisy start (the paper's algorithm 1), or with `guide=clean` of the clean image (its
equation 1); lambda_t falls to zero in the first part of the attack. Moments (`fade`, `drops`) up to 1 are
shares of the steps, so that a shorter attack keeps the shape of the schedule.
"""

from typing import Literal

from gamagat.attacks.combine import each_target
from gamagat.attacks.core import (
    ATTACKS,
    HUGE,
    TINY,
    Attack,
    IterativeAttack,
    check_options,
    clean_image,
    first_iterate,
)
from gamagat.errors import ConfigError
from gamagat.pieces.losses import Loss, by_autograd, cross_entropy, guided, probability_margin
from gamagat.pieces.rules import Rule, adam, frank_wolfe, projected_ascent
from gamagat.pieces.schedules import constant, milestone, ramp_down, stepped
from gamagat.pieces.starts import corner, unclipped
from gamagat.pieces.types import Schedule
from gamagat.registry import Options

Guided = Literal["clean", "start"]

MNIST = {"weight": 5.0, "fade": 0.5, "drops": (0.5, 0.75)}
MNIST_PGD = MNIST | {"rate": 1.0}

# Without a weight or with no time nothing guides; a rate that never drops, or drops by nothing, stays.
IDLE_DROPS: dict[str, list[Options]] = {"drops": [{"factor": 1.0}], "factor": [{"drops": ()}]}
IDLE: dict[str, list[Options]] = IDLE_DROPS | {
    "weight": [{"fade": 0.0}], "fade": [{"weight": 0.0}], "guide": [{"weight": 0.0}, {"fade": 0.0}],
}  # fmt: skip


def fading(weight: float, fade: float | None, steps: int) -> Schedule:
    """lambda_t: falls linearly to zero by the moment `fade`, or stays if there is none."""
    check_options(weight=(weight, 0.0, HUGE))
    if fade is None:
        return constant(weight)
    check_options(fade=(fade, 0.0, HUGE))
    return ramp_down(weight, over=milestone(fade, steps))


def dropping(rate: float, drops: tuple[float, ...], factor: float, steps: int) -> Schedule:
    """eta_t: falls by the factor at each of these moments."""
    check_options(rate=(rate, TINY, HUGE), factor=(factor, TINY, 1.0))
    return stepped(rate, at=tuple(milestone(drop, steps) for drop in drops), factor=factor)


def _guided(
    loss: Loss, weight: Schedule, rule: Rule, steps: int, guide: Guided, as_published: bool
) -> Attack:
    """From a random corner, guided by that corner or by the image; as published, to the last step."""
    if as_published and guide == "clean":
        raise ConfigError(
            "as published, GAMA is guided by its noisy start, and guide=clean cannot be had; leave out one "
            "of as_published=true and guide=clean"
        )
    if as_published:
        loss = by_autograd(guided(loss, weight))
        return IterativeAttack(unclipped(corner()), loss, rule, steps, guide=first_iterate, stop=False)
    by = clean_image if guide == "clean" else first_iterate
    return IterativeAttack(corner(), guided(loss, weight), rule, steps, guide=by)


@ATTACKS.register("gama-pgd", presets={"mnist": MNIST_PGD}, idle=IDLE)
def gama_pgd(
    steps: int = 100,
    weight: float = 50.0,
    fade: float | None = 0.25,
    rate: float = 2.0,
    drops: tuple[float, ...] = (0.6, 0.85),
    factor: float = 0.1,
    guide: Guided = "start",
    as_published: bool = False,
) -> Attack:
    """Guided margin attack with projected ascent: the paper's strongest single run."""
    rule = projected_ascent(dropping(rate, drops, factor, steps))
    return _guided(probability_margin, fading(weight, fade, steps), rule, steps, guide, as_published)


@ATTACKS.register("gama-fw", presets={"mnist": MNIST}, idle=IDLE)
def gama_fw(
    steps: int = 100,
    weight: float = 50.0,
    fade: float | None = 0.25,
    rate: float = 0.5,
    drops: tuple[float, ...] = (0.6, 0.85),
    factor: float = 0.2,
    guide: Guided = "start",
    as_published: bool = False,
) -> Attack:
    """Guided margin attack with Frank-Wolfe steps: the strongest at few steps."""
    rule = frank_wolfe(dropping(rate, drops, factor, steps))
    return _guided(probability_margin, fading(weight, fade, steps), rule, steps, guide, as_published)


@ATTACKS.register("gama-mt", presets={"mnist": MNIST_PGD}, idle=IDLE)
def gama_mt(
    top: int = 5,
    steps: int = 100,
    weight: float = 50.0,
    fade: float | None = 0.25,
    rate: float = 2.0,
    drops: tuple[float, ...] = (0.6, 0.85),
    factor: float = 0.1,
    guide: Guided = "start",
    as_published: bool = False,
) -> Attack:
    """GAMA-PGD aimed at each of the likeliest wrong classes in turn."""
    return each_target(gama_pgd(steps, weight, fade, rate, drops, factor, guide, as_published), top)


@ATTACKS.register("ga-ce", presets={"mnist": MNIST_PGD}, idle=IDLE)
def ga_ce(
    steps: int = 100,
    weight: float = 50.0,
    fade: float | None = 0.25,
    rate: float = 2.0,
    drops: tuple[float, ...] = (0.6, 0.85),
    factor: float = 0.1,
    guide: Guided = "start",
    as_published: bool = False,
) -> Attack:
    """Guided attack on the cross-entropy instead of the margin."""
    rule = projected_ascent(dropping(rate, drops, factor, steps))
    return _guided(cross_entropy, fading(weight, fade, steps), rule, steps, guide, as_published)


@ATTACKS.register("gama-adam", presets={"mnist": MNIST}, idle=IDLE)
def gama_adam(
    steps: int = 100,
    weight: float = 50.0,
    fade: float | None = 0.25,
    rate: float = 1.0,
    drops: tuple[float, ...] = (0.6, 0.85),
    factor: float = 0.1,
    momentum: float = 0.5,
    memory: float = 0.9,
    guide: Guided = "start",
    as_published: bool = False,
) -> Attack:
    """GAMA with Adam's step on the gradient itself, the paper's ablation."""
    check_options(momentum=(momentum, 0.0, 0.9999), memory=(memory, 0.0, 0.9999))
    rule = adam(dropping(rate, drops, factor, steps), momentum, memory)
    return _guided(probability_margin, fading(weight, fade, steps), rule, steps, guide, as_published)


@ATTACKS.register("gama-pgd-10", presets={"mnist": {"rate": 1.0}})
def gama_pgd_10(
    steps: int = 10, weight: float = 1.0, rate: float = 2.0, as_published: bool = False
) -> Attack:
    """GAMA-PGD for a budget of ten steps: lambda stays constant."""
    return gama_pgd(steps, weight, None, rate, (0.6, 0.85), 0.1, as_published=as_published)


@ATTACKS.register("gama-fw-10")
def gama_fw_10(steps: int = 10, weight: float = 1.0, rate: float = 0.5, as_published: bool = False) -> Attack:
    """GAMA-FW for a budget of ten steps: lambda and the step stay constant."""
    return gama_fw(steps, weight, None, rate, (), 1.0, as_published=as_published)
