"""Whether the network says the same thing twice."""

from __future__ import annotations

import torch

from gamagat.engine.checkup.body import SAME
from gamagat.engine.masking.exam import Exam
from gamagat.engine.masking.result import Result, graded
from gamagat.pieces.gradients import logits_of

PASSES = 4


@torch.no_grad()
def randomness(exam: Exam) -> Result:
    """Answers of several passes over the same images."""
    network, apart, changed = exam.network(), 0.0, 0
    for x, _, _ in exam.parts():
        first, *others = (logits_of(network, x) for _ in range(PASSES))
        size = first.abs().max().clamp_min(1e-30)
        apart = max(apart, *(float((again - first).abs().max() / size) for again in others))
        swayed = torch.stack([again.argmax(1) != first.argmax(1) for again in others]).any(0)
        changed += int(swayed.sum())
    share = 100 * changed / exam.count
    return Result(
        graded(apart, SAME),
        f"{PASSES} passes over the same images differ by {100 * apart:.2g} % of the largest logit and change "
        f"the answer to {share:.3g} % of them",
        f"at most {100 * SAME:g} % of the largest logit, what a GPU may differ by",
        "Gradients of one draw are noise, and a lucky draw counts as a fooled image: attacks on a random "
        "network say little, one way or the other.",
        "Switch the randomness off and diagnose again; if it is the defence, attack the mean over many draws "
        "(expectation over transformation).",
        {"apart_percent": 100 * apart, "changed_percent": share},
    )
