"""Fast is better than free (Wong et al., 2020)."""

from gamagat.attacks.core import TINY, check_options
from gamagat.defenses.adversary import Adversary
from gamagat.defenses.core import DEFENSES, DIGITS, Made, Recipe, Stage, Terms
from gamagat.pieces.losses import cross_entropy
from gamagat.pieces.rules import projected_ascent
from gamagat.pieces.schedules import constant
from gamagat.pieces.starts import uniform

CIFAR10 = {"epochs": 30, "cycle": "triangle", "rate": 0.2}
MNIST = {
    "epochs": 10, "batch": 100, "cycle": "triangle", "rate": 5e-3, "peak": 0.4, "optimizer": "adam",
    "weight_decay": 0.0, "probe": 2_000,
}  # fmt: skip


@DEFENSES.register("fbf", presets={"cifar10": CIFAR10, "mnist": MNIST, "digits": DIGITS})
def fbf(alpha: float = 1.25) -> Recipe:
    """FBF: the cross-entropy of images one step of alpha * eps from a uniform start, clipped to eps."""
    check_options(alpha=(alpha, TINY, 10.0))
    view = Adversary(uniform, cross_entropy, projected_ascent(constant(alpha)))

    def step(stage: Stage) -> Terms:
        adversarial = stage.logits(stage.attack(view, training=True))
        return Terms({"ce": stage.cross_entropy(adversarial)}, adversarial=adversarial)

    return Made(step)
