"""Whether attacks that see the network beat those that do not: Square's questions, and transferred images."""

from __future__ import annotations

import numpy as np

from gamagat.engine.masking.exam import Exam, Standing, percent
from gamagat.engine.masking.result import Level, Result, graded_points
from gamagat.engine.masking.squashing import stretched

# On the paper's CIFAR-10 networks Square is 6 to 9 points weaker than GAMA; on its GAT for MNIST it is 2
# stronger than one run of GAMA. 10 points mean that it is better not to look at gradients.
BETTER, MUCH_BETTER = 2.0, 10.0

# What Square finds and a single run of GAMA does not: 0.5 % of the images on MNIST (TRADES), 1 to 3 % on
# sound networks for digits; on GAT for CIFAR-10 Square added nothing to AutoAttack's gradients.
MISSED, MANY_MISSED = 5.0, 10.0

TRANSFERRED = ("fgsm", "pgd:steps=20,rate=0.125")  # the paper's FGSM and PGD, made on the source


def limits(exam: Exam, what: str) -> str:
    """The thresholds of what should be weaker than attacks by gradients, in words."""
    return (
        f"{what} at most {exam.worth(BETTER):.3g} points stronger, above {exam.worth(MUCH_BETTER):.3g} masked"
    )


def square(exam: Exam) -> Result:
    """White-box attacks beat Square."""
    blind, seeing = exam.accuracy(exam.doses.square), percent(exam.followed())
    alone = exam.accuracy(exam.doses.steps[-1])
    return Result(
        graded_points(exam, seeing - blind, BETTER, MUCH_BETTER),
        f"{exam.doses.square} leaves {blind:.1f} %, all attacks by gradients {seeing:.1f} % (PGD alone "
        f"{alone:.1f} %)",
        limits(exam, "Square"),
        "Who sees gradients knows more than who only asks for logits; if knowing more does not help, the "
        "gradients are wrong.",
        "Quote Square's number with 5000 queries instead of PGD's, and look for what spoils the gradients.",
        {"square_accuracy": blind, "white_box_accuracy": seeing, "pgd_accuracy": alone},
    )


def only_square(exam: Exam) -> Result:
    """Square finds nothing that GAMA does not."""
    gama, blind = exam.left(exam.doses.gama), exam.left(exam.doses.square)
    missed, other = percent(gama & ~blind), percent(~gama & blind)
    return Result(
        graded_points(exam, missed, MISSED, MANY_MISSED),
        f"Square fools {missed:.2f} % of the images that {exam.doses.gama} leaves standing; the other way "
        f"round {other:.2f} %",
        f"at most {exam.worth(MISSED):.3g} % of all images, above {exam.worth(MANY_MISSED):.3g} % masked",
        "An image that a blind search breaks and GAMA does not is one where the gradient hides the way.",
        "Report the worst case of both attacks (gamagat evaluate --attack gama-mt --attack square), and give "
        "GAMA restarts.",
        {"only_square_percent": missed, "only_gama_percent": other},
    )


def transfer(exam: Exam) -> Result:
    """White-box attacks beat images made on another network."""
    meaning = "Images made without this network should fool it less often than images made on it."
    if exam.source is None:
        do = "Give a network of the same classes with --source, best one trained normally."
        return Result(
            Level.UNCHECKED, "no source network was given", limits(exam, "transfer"), meaning, do, {}
        )
    seeing = percent(exam.followed())
    left = {spec: percent(stands & exam.right()) for spec, stands in transferred(exam).items()}
    return Result(
        graded_points(exam, seeing - min(left.values()), BETTER, MUCH_BETTER),
        "images of the source leave "
        + ", ".join(f"{accuracy:.1f} % ({spec})" for spec, accuracy in left.items())
        + f"; attacks on the network itself {seeing:.1f} %",
        limits(exam, "transfer"),
        meaning,
        "Attack through the source (gamagat transfer), quote that number, and look for what spoils the "
        "network's own gradients.",
        {"white_box_accuracy": seeing} | {f"transfer {spec}": accuracy for spec, accuracy in left.items()},
    )


def transferred(exam: Exam) -> dict[str, Standing]:
    """What survives each attack on the source, made once; nothing where there is no source."""
    if "transferred" not in exam.known:
        specs = () if exam.source is None else TRANSFERRED
        exam.known["transferred"] = {spec: moved(exam, spec) for spec in specs}
    known: dict[str, Standing] = exam.known["transferred"]
    return known


def standing_after_all(exam: Exam) -> Standing:
    """Which images every attack leaves standing, through stretched logits and transferred ones among them."""
    within = [exam.left(attack.name) for attack in exam.prepared.plan]
    moved = [*transferred(exam).values(), *stretched(exam).values()]
    standing: Standing = np.logical_and.reduce([*within, *moved])
    return standing


def moved(exam: Exam, spec: str) -> Standing:
    """Which images survive what an attack made of them on the source."""
    return exam.moved(spec, exam.source, "transfer")
