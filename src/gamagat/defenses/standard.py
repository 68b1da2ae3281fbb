"""Training without adversaries."""

from gamagat.defenses.core import DEFENSES, DIGITS, Made, Recipe, Stage, Terms
from gamagat.defenses.fgsm_at import MNIST


@DEFENSES.register("standard", presets={"mnist": MNIST, "digits": DIGITS})
def standard() -> Recipe:
    """Normal training: the cross-entropy of clean images."""

    def step(stage: Stage) -> Terms:
        clean = stage.logits(stage.x)
        return Terms({"ce": stage.cross_entropy(clean)}, clean)

    return Made(step, selected_by="clean")
