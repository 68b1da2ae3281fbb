"""Whether logits are squashed into a range, as by 10 * tanh(z), and what attacks see without that."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import nn

from gamagat.engine.masking.exam import Exam, Standing, percent
from gamagat.engine.masking.result import Result, graded_points, worst
from gamagat.pieces.gradients import logits_of
from gamagat.pieces.types import Images, PerExample, Scores

# Winning logits within a hundredth of the range of all logits from its upper end: 0 to 2 % of 100 images and
# more on sound networks for digits, MNIST and CIFAR-10; behind 10 * tanh(z) of the same networks 16 to 100 %.
NEAR, HELD = 0.01, 10.0

# One run of GAMA through stretched logits against all attacks by gradients: on sound networks for digits 1.0
# points weaker to 0.3 stronger, and at most 2.0 behind tanh and sigmoid where these cost AutoAttack at most
# 1.0 points; where they cost it 1.4 to 5, 2.7 to 9.3. As with Square, from 10 on better look at no gradient.
BETTER, MUCH_BETTER = 2.0, 10.0

# PGD follows the scale of logits as well: stretched ones took 4 points more of GAT behind log_softmax, which
# squashes nothing. Behind tanh and sigmoid of winners that are held it is up to 44; 10 * tanh(z) of the zoo's
# GAT on CIFAR-10 kept 66 % where the network itself has 47.
MISLED = 10.0


END = 1 - 1e-6  # of the stretched range; from there on straight, as float32 knows no more of a tanh
# The median lead that stretched logits are given: of 0.3 to 8, GAMA left least of GAT on digits at 2.
LEAD = 2.0


class Logits(NamedTuple):
    """What the network says of all images untouched."""

    low: float
    high: float
    winner: PerExample
    lead: PerExample  # of the winner over the second

    def held(self) -> float:
        """The percentage of images whose winner is at the upper end."""
        return percent(self.winner >= self.high - NEAR * (self.high - self.low))


class Stretched(nn.Module):
    """A network whose logits are stretched back out, by one rising function for all classes.

    The winner stays the winner, so that what fools this network fools the one inside it.
    """

    def __init__(self, net: nn.Module, low: float, high: float, scale: float = 1.0) -> None:
        super().__init__()
        self.net, self.scale = net, scale
        self.middle, self.reach = (low + high) / 2, max((high - low) / 2, 1e-30)

    def forward(self, images: Images) -> Scores:
        share = (logits_of(self.net, images) - self.middle) / self.reach
        inside = share.clamp(-END, END)
        return self.scale * (inside.atanh() + share - inside)


@torch.no_grad()
def logits_seen(exam: Exam, model: nn.Module) -> Logits:
    """The logits of all images, batch after batch."""
    network = exam.network(model)
    logits = torch.cat([logits_of(network, x).cpu() for x, _, _ in exam.parts()])
    best = logits.topk(2, dim=1).values
    return Logits(float(logits.min()), float(logits.max()), best[:, 0], best[:, 0] - best[:, 1])


def stretched(exam: Exam) -> dict[str, Standing]:
    """What GAMA and PGD leave standing through stretched logits; nothing where they are not squashed."""
    if "stretched" not in exam.known:
        seen = known_logits(exam)
        exam.known["stretched"] = _attacked(exam, seen) if seen.held() > exam.worth(HELD) else {}
    known: dict[str, Standing] = exam.known["stretched"]
    return known


def known_logits(exam: Exam) -> Logits:
    """The logits of the network, asked once."""
    if "logits" not in exam.known:
        exam.known["logits"] = logits_seen(exam, exam.model)
    known: Logits = exam.known["logits"]
    return known


def _attacked(exam: Exam, seen: Logits) -> dict[str, Standing]:
    on = Stretched(exam.model, seen.low, seen.high)
    lead = float(logits_seen(exam, on).lead.median())
    on.scale = LEAD / lead if lead > 0 else 1.0
    specs = (exam.doses.gama, exam.doses.steps[1])
    return {spec: exam.moved(spec, on, "stretched") & exam.right() for spec in specs}


def squashing(exam: Exam) -> Result:
    """Attacks are no stronger where logits are stretched back out."""
    seen, doses = known_logits(exam), exam.doses
    plain = {doses.gama: percent(exam.followed()), doses.steps[1]: exam.accuracy(doses.steps[1])}
    left = {spec: percent(standing) for spec, standing in stretched(exam).items()}
    gama, pgd = (plain[spec] - left.get(spec, plain[spec]) for spec in plain)
    return Result(
        worst(graded_points(exam, gama, BETTER, MUCH_BETTER), graded_points(exam, pgd, MISLED)),
        f"the largest logit of {seen.held():.3g} % of the images is within {100 * NEAR:g} % of the upper end "
        f"of all logits, {seen.high:.3g}{_compared(exam, left, plain)}",
        f"where that is more than {exam.worth(HELD):.3g} %, {doses.gama} through stretched logits at most "
        f"{exam.worth(BETTER):.3g} points stronger than all as they are, above {exam.worth(MUCH_BETTER):.3g} "
        f"masked; PGD at most {exam.worth(MISLED):.3g} stronger",
        "Near the end of a range that logits are squashed into (tanh, sigmoid, clamp) neither they nor their "
        "gradients move, and attacks do not see what they gain.",
        "Attack the network without the layer that squashes its logits, and quote that number if the layer "
        "changes no answer; of the network as it is PGD's, and where GAMA gains AutoAttack's, are too high.",
        {"held_percent": seen.held(), "white_box_accuracy": plain[doses.gama]}
        | {f"stretched {spec}": left.get(spec) for spec in plain},
    )


def _compared(exam: Exam, left: dict[str, float], plain: dict[str, float]) -> str:
    """The accuracies in words, where there are some to compare."""
    if not left:
        return ""
    gama, pgd = exam.doses.gama, exam.doses.steps[1]
    return (
        f"; through the same logits stretched out {gama} leaves {left[gama]:.1f} % (as they are all attacks "
        f"by gradients {plain[gama]:.1f} %), {pgd} {left[pgd]:.1f} % (as they are {plain[pgd]:.1f} %)"
    )
