"""Adversarial training with PGD (Madry et al., 2018)."""

from gamagat.attacks.core import TINY, check_options
from gamagat.defenses.adversary import Adversary
from gamagat.defenses.core import DEFENSES, DIGITS, Made, Recipe, Stage, Terms
from gamagat.errors import ConfigError
from gamagat.pieces.losses import cross_entropy
from gamagat.pieces.rules import projected_ascent
from gamagat.pieces.schedules import constant
from gamagat.pieces.starts import uniform

CIFAR10 = {"epochs": 110, "drops": (100 / 110, 105 / 110)}
MNIST = {
    "steps": 40, "step": 0.01 / 0.3, "epochs": 100, "batch": 50, "rate": 1e-4, "optimizer": "adam",
    "weight_decay": 0.0, "drops": (), "probe": 2_000,
}  # fmt: skip


@DEFENSES.register("pgd-at", presets={"cifar10": CIFAR10, "mnist": MNIST, "digits": DIGITS | {"steps": 7}})
def pgd_at(steps: int = 10, step: float = 0.25) -> Recipe:
    """PGD-AT: the cross-entropy of PGD images, in steps of `step` * eps from a uniform start."""
    if steps < 1:
        raise ConfigError(f"an attack needs at least one step, got steps={steps}")
    check_options(step=(step, TINY, 10.0))
    view = Adversary(uniform, cross_entropy, projected_ascent(constant(step)), steps)

    def act(stage: Stage) -> Terms:
        adversarial = stage.logits(stage.attack(view))
        return Terms({"ce": stage.cross_entropy(adversarial)}, adversarial=adversarial)

    return Made(act)
