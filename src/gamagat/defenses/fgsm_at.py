"""Training on single-step adversaries: FGSM-AT, which collapses, and RFGSM-AT."""

from gamagat.attacks.core import check_options
from gamagat.defenses.adversary import Adversary
from gamagat.defenses.core import DEFENSES, DIGITS, Made, Recipe, Stage, Terms
from gamagat.pieces.losses import cross_entropy
from gamagat.pieces.rules import projected_ascent
from gamagat.pieces.schedules import constant
from gamagat.pieces.starts import at_image, corner

MNIST = {"epochs": 50, "batch": 64, "rate": 0.01, "drops": (0.25, 0.5, 0.75), "factor": 0.2, "probe": 2_000}
IDLE_FULL = {"full": [{"alpha": 0.0}]}  # without noise, what is left of eps is all of it


def fgsm_view() -> Adversary:
    """One step of eps along the sign of the gradient."""
    return Adversary(at_image, cross_entropy, projected_ascent(constant(1.0)))


def rfgsm_view(alpha: float, full: bool) -> Adversary:
    """Sign noise of alpha * eps, then one step of what is left of eps, or of the full eps, clipped to eps."""
    check_options(alpha=(alpha, 0.0, 1.0 if full else 0.999))
    return Adversary(corner(alpha), cross_entropy, projected_ascent(constant(1.0 if full else 1.0 - alpha)))


@DEFENSES.register("fgsm-at", presets={"mnist": MNIST, "digits": DIGITS})
def fgsm_at() -> Recipe:
    """FGSM-AT: the cross-entropy of FGSM images. Known to collapse: it learns to fool FGSM."""

    def step(stage: Stage) -> Terms:
        adversarial = stage.logits(stage.attack(fgsm_view()))
        return Terms({"ce": stage.cross_entropy(adversarial)}, adversarial=adversarial)

    return Made(step)


@DEFENSES.register("rfgsm-at", presets={"mnist": MNIST, "digits": DIGITS}, idle=IDLE_FULL)
def rfgsm_at(alpha: float = 0.5, full: bool = False) -> Recipe:
    """RFGSM-AT: the cross-entropy of clean and of R-FGSM images, in equal parts.

    R-FGSM is sign noise of alpha * eps and a step of (1 - alpha) * eps; with `full` a step of eps, clipped to
    eps, as GAT's authors have it.
    """
    view = rfgsm_view(alpha, full)

    def step(stage: Stage) -> Terms:
        adversarial, clean = stage.logits_of(stage.attack(view), stage.x)
        terms = {
            "ce clean": stage.cross_entropy(clean) / 2,
            "ce adversarial": stage.cross_entropy(adversarial) / 2,
        }
        return Terms(terms, clean, adversarial)

    return Made(step)
