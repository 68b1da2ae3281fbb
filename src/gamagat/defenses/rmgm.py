"""R-MGM (Vivek et al., 2019): two adversaries of one image that should be told the same."""

from typing import Literal

import torch

from gamagat.attacks.core import HUGE, check_options
from gamagat.defenses.core import DEFENSES, DIGITS, Made, Recipe, Stage, Terms
from gamagat.defenses.fgsm_at import IDLE_FULL, MNIST, fgsm_view, rfgsm_view
from gamagat.defenses.objectives import logit_gap

Learns = Literal["fgsm", "rfgsm", "both"]

# With alpha=0 both views are FGSM's, yet behind dropout their logits differ: weight and learns still count.
IDLE = IDLE_FULL | {"ramp": [{"weight": 0.0}]}


@DEFENSES.register("rmgm", presets={"mnist": MNIST, "digits": DIGITS}, idle=IDLE)
def rmgm(
    weight: float = 1.0, alpha: float = 0.5, ramp: float = 0.0, learns: Learns = "rfgsm", full: bool = False
) -> Recipe:
    """R-MGM: the cross-entropy of R-FGSM images plus the squared gap of the logits of FGSM and R-FGSM.

    The gap counts `weight` times; it grows to that from nothing over the share `ramp` of the training. With
    `learns=fgsm` the cross-entropy is that of the FGSM images, with `both` the mean of the two. `full` is
    that of `rfgsm-at`.
    """
    check_options(weight=(weight, 0.0, HUGE), ramp=(ramp, 0.0, 1.0))
    random = rfgsm_view(alpha, full)

    def step(stage: Stage) -> Terms:
        plain, noisy = stage.attack(fgsm_view()), stage.attack(random)
        first, second = stage.logits_of(plain, noisy)
        learnt = {"fgsm": (first,), "rfgsm": (second,), "both": (first, second)}[learns]
        ce = torch.stack([stage.cross_entropy(logits) for logits in learnt]).mean()
        return Terms({"ce": ce, "gap": stage.tick.weight * logit_gap(first, second)}, adversarial=learnt[0])

    return Made(step, schedule=lambda done: weight * min(1.0, done / ramp) if ramp else weight)
