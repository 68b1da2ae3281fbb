"""Whether stronger attacks are stronger: steps against one step, more steps, restarts."""

from __future__ import annotations

from itertools import pairwise

from gamagat.engine.masking.exam import LOOKS_ROBUST, Exam, percent
from gamagat.engine.masking.result import Level, Result, graded_points, worst
from gamagat.engine.training.probe import GAP, SHARE

# All accuracies are of the same images. Finer steps may miss one or two that a coarse walk happened to hit
# (0.2 points at most on networks measured here); above 1 point of 500 images they are more than five.
WEAKER, MUCH_WEAKER = 1.0, 5.0

# FGSM and PGD have parted when the trainer's watchdog calls it a collapse (GAP and SHARE). Before that comes
# a gap that no sound network has shown: the paper's have 3 to 16 points on CIFAR-10, those here 9 to 20 on
# digits; GAT on CIFAR-10 in an epoch that was half collapsed had 31.
WIDE = 25.0

# From 20 steps to 500 the paper's networks lose 0 to 0.9 points on CIFAR-10, from 20 to 100 those here less
# than 1 on digits and MNIST; from 7 to 20, GAT's half collapsed epoch lost 13.
UNCONVERGED, FAR_FROM_CONVERGED = 5.0, 20.0

# A thousand restarts of PGD take 1 point off the paper's GAT on CIFAR-10 and 3 on MNIST; five of them 1.5 off
# TRADES on MNIST and 6 to 7 off sound networks on digits, the last of them half a point.
LAST_HELP, ALL_HELP, ALL_HELP_MASKED = 1.5, 10.0, 25.0


def single_step(exam: Exam) -> Result:
    """Iterative attacks beat FGSM, but FGSM is not fooled altogether."""
    clean, one = percent(exam.right()), exam.accuracy(exam.doses.fgsm)
    many = min(exam.accuracy(spec) for spec in exam.doses.steps)
    parted = one - many > GAP and many < SHARE * one
    fooled = Level.MASKED if parted else graded_points(exam, one - many, WIDE)
    level = worst(
        graded_points(exam, many - one, WEAKER, MUCH_WEAKER),
        fooled if one >= LOOKS_ROBUST * clean else Level.FINE,
    )
    return Result(
        level,
        f"FGSM leaves {one:.1f} %, PGD {many:.1f} %, of {clean:.1f} % clean",
        f"PGD at most {exam.worth(WEAKER):.3g} points weaker, above {exam.worth(MUCH_WEAKER):.3g} masked; "
        f"where FGSM leaves half of the clean accuracy, PGD at most {WIDE:g} points stronger, masked if it "
        f"takes {GAP:g} points and half of what FGSM leaves",
        "Steps that follow the gradient cannot do worse than a single one; where one step does next to "
        "nothing and many do everything, training has taught the network to fool single steps.",
        "Quote no FGSM number of this network. If PGD is the weaker one, its gradients are useless; if FGSM "
        "is, training collapsed: take an earlier epoch, or train with a method that does not (gat, trades).",
        {"clean_accuracy": clean, "fgsm_accuracy": one, "pgd_accuracy": many},
    )


def more_steps(exam: Exam) -> Result:
    """More steps never help less, and at last they help no more."""
    left = [exam.accuracy(spec) for spec in exam.doses.steps]
    rise = max(after - before for before, after in pairwise(left))
    gain = left[-2] - left[-1]
    level = worst(
        graded_points(exam, rise, WEAKER, MUCH_WEAKER),
        graded_points(exam, gain, UNCONVERGED, FAR_FROM_CONVERGED),
    )
    shown = ", ".join(f"{accuracy:.1f}" for accuracy in left)
    return Result(
        level,
        f"PGD with ever more steps leaves {shown} % ({', '.join(exam.doses.steps)})",
        f"never more than {exam.worth(WEAKER):.3g} points up, above {exam.worth(MUCH_WEAKER):.3g} masked; "
        f"the last at most {exam.worth(UNCONVERGED):.3g} points down, above "
        f"{exam.worth(FAR_FROM_CONVERGED):.3g} masked",
        "On a smooth loss finer steps climb at least as high, and a few dozen of them arrive.",
        "Where accuracy rises the gradient misleads; where it still falls attack with several hundred steps "
        "before you quote a number.",
        dict(zip(exam.doses.steps, left, strict=True)),
    )


def restarts(exam: Exam) -> Result:
    """Restarts stop helping."""
    spec = exam.doses.restarts
    times = len(next(attack.runs for attack in exam.prepared.plan if attack.name == spec))
    left = [exam.accuracy(spec, many) for many in range(1, times + 1)]
    last, whole = left[-2] - left[-1], left[0] - left[-1]
    level = worst(graded_points(exam, last, LAST_HELP), graded_points(exam, whole, ALL_HELP, ALL_HELP_MASKED))
    shown = ", ".join(f"{accuracy:.1f}" for accuracy in left)
    return Result(
        level,
        f"{spec} leaves {shown} % from restart to restart",
        f"the last takes at most {exam.worth(LAST_HELP):.3g} points, all together "
        f"{exam.worth(ALL_HELP):.3g}, above {exam.worth(ALL_HELP_MASKED):.3g} masked",
        "Where the loss is smooth every start leads to the same place; where another start keeps helping, "
        "single runs get stuck.",
        "Attack with more restarts until the accuracy stays, and quote that number.",
        {"last_points": last, "all_points": whole, "accuracy": left[-1]},
    )
