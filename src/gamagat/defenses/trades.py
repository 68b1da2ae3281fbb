"""TRADES (Zhang et al., 2019), and TR-GAT, which trains on GAMA-FW's images in every second batch."""

from gamagat.attacks.core import HUGE, TINY, check_options
from gamagat.defenses import objectives
from gamagat.defenses.adversary import Adversary
from gamagat.defenses.core import DEFENSES, DIGITS, Made, Recipe, Stage, Terms
from gamagat.errors import ConfigError
from gamagat.pieces.losses import divergence, guided, probability_margin
from gamagat.pieces.rules import frank_wolfe, projected_ascent
from gamagat.pieces.schedules import constant
from gamagat.pieces.starts import corner, gaussian

CIFAR10 = {"epochs": 76, "drops": (74 / 76,), "weight_decay": 2e-4}
MNIST = {
    "beta": 1.0, "steps": 40, "step": 0.01 / 0.3, "epochs": 100, "batch": 128, "rate": 0.01,
    "drops": (0.54, 0.74, 0.89), "weight_decay": 0.0, "probe": 2_000,
}  # fmt: skip
SMALL = DIGITS | {"steps": 7, "step": 0.25}
WIDE = {"beta": 6.0}


def kl_view(steps: int, step: float) -> Adversary:
    """Steps up the divergence from the clean image's probabilities, from a faint random start."""
    if steps < 1:
        raise ConfigError(f"an attack needs at least one step, got steps={steps}")
    check_options(step=(step, TINY, 10.0))
    return Adversary(gaussian(0.001), divergence, projected_ascent(constant(step)), steps)


def trades_terms(stage: Stage, view: Adversary) -> Terms:
    """CE(clean) + beta * KL(p(x) || p(x')), the adversary made in evaluation mode against p(x) there."""
    images = stage.attack(view, reference=stage.answer(stage.x))
    clean, adversarial = stage.logits_of(stage.x, images)
    gap = stage.tick.weight * objectives.divergence(clean, adversarial)
    return Terms({"ce": stage.cross_entropy(clean), "kl": gap}, clean, adversarial)


@DEFENSES.register("trades", presets={"cifar10": CIFAR10, "mnist": MNIST, "digits": SMALL})
def trades(beta: float = 6.0, steps: int = 10, step: float = 0.007 / 0.031) -> Recipe:
    """TRADES: the cross-entropy of clean images plus beta times the divergence of adversarial ones."""
    check_options(beta=(beta, 0.0, HUGE))
    view = kl_view(steps, step)
    return Made(lambda stage: trades_terms(stage, view), schedule=lambda done: beta)


@DEFENSES.register(
    "tr-gat",
    presets={
        "cifar10": CIFAR10,
        "cifar10/wrn-34-10": CIFAR10 | WIDE,
        "cifar10/wrn-34-10-gat": CIFAR10 | WIDE,
        "mnist": MNIST,
        "digits": SMALL,
    },
)
def tr_gat(beta: float = 5.0, steps: int = 10, step: float = 0.007 / 0.031) -> Recipe:
    """TR-GAT: TRADES on the adversaries of KL-PGD and GAMA-FW in turn; the lambda of GAMA-FW is beta."""
    check_options(beta=(beta, 0.0, HUGE))
    loss = guided(probability_margin, constant(beta))
    views = (kl_view(steps, step), Adversary(corner(), loss, frank_wolfe(constant(0.5)), steps))
    return Made(lambda stage: trades_terms(stage, views[stage.tick.turn]), lambda done: beta, turns=2)
