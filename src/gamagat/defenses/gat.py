"""Guided adversarial training, the paper's single-step defence, and its ablations."""

from typing import Literal

from torch import Tensor

from gamagat.attacks.core import HUGE, check_options
from gamagat.defenses import objectives
from gamagat.defenses.adversary import Adversary
from gamagat.defenses.core import DEFENSES, DIGITS, Made, Recipe, Stage, Terms, stepped_up
from gamagat.pieces.losses import Loss, cross_entropy, guided, probability_margin
from gamagat.pieces.rules import projected_ascent
from gamagat.pieces.schedules import constant
from gamagat.pieces.starts import corner
from gamagat.pieces.types import Schedule, Scores
from gamagat.registry import Options

Ablation = Literal["none", "A1", "A2", "A3", "A4", "A5"]

WIDE = {"weight": 3.0, "step_up": (0.7,), "up": 20.0, "drops": (0.55, 0.7, 0.75)}
MNIST = {
    "weight": 15.0, "step_up": (0.25, 0.5, 0.75), "up": 3.0, "alpha": 1.0, "alternate": False, "epochs": 50,
    "batch": 64, "rate": 0.01, "drops": (0.25, 0.5, 0.75), "factor": 0.2, "probe": 2_000,
}  # fmt: skip
IMAGENET = {
    "weight": 20.0, "step_up": (0.75,), "up": 7.0, "epochs": 120, "batch": 64, "drops": (0.5, 0.75),
}  # fmt: skip
UNGUIDED: Options = {"ablation": "A4"}  # and no drift in what it minimises
IDLE: dict[str, list[Options]] = {
    "weight": [UNGUIDED],
    "step_up": [UNGUIDED, {"weight": 0.0}, {"up": 1.0}],
    "up": [UNGUIDED, {"weight": 0.0}, {"step_up": ()}],
    "alternate": [{"ablation": ablation} for ablation in ("A1", "A2", "A4", "A5")],
    "smoothing": [{"ablation": "A2"}],
    # Where every batch is guided, every batch has a clean pass anyway.
    "as_published": [
        {"ablation": "A1"}, {"ablation": "A2"},
        *({"alternate": False, "ablation": ablation} for ablation in ("none", "A3")),
    ],
}  # fmt: skip


@DEFENSES.register(
    "gat",
    presets={
        "cifar10/as_published": {"batch": 64},
        "mnist": MNIST,
        "imagenet": IMAGENET,
        "cifar10/wrn-34-10": WIDE,
        "cifar10/wrn-34-10-gat": WIDE,
        "digits": DIGITS | {"alpha": 1.0},
    },
    idle=IDLE,
)
def gat(
    weight: float = 10.0,
    step_up: tuple[float, ...] = (0.86,),
    up: float = 4.0,
    alpha: float = 0.5,
    alternate: bool = True,
    ablation: Ablation = "none",
    as_published: bool = False,
) -> Recipe:
    """GAT: CE(clean) plus lambda times the squared drift of the probabilities under a guided attack.

    lambda is `weight`, times `up` from each share of the training in `step_up` on. The attack begins with
    sign noise of alpha * eps and takes one step of eps up the cross-entropy plus lambda times the drift; with
    `alternate`, every second batch without the drift. Ablations: A1 never alternates, A2 attacks and trains
    with the margin, A3 trains with CE on clean and guided adversarial images, A4 the same on plain ones, A5
    attacks with plain CE. The drift is measured from a clean pass of its own, in training mode as in the
    scripts; `as_published` makes it in every batch, needed or not, as it moves the running statistics.
    """
    check_options(weight=(weight, 0.0, HUGE), up=(up, 0.0, HUGE), alpha=(alpha, 0.0, 1.0))
    for share in step_up:
        check_options(step_up=(share, 0.0, 1.0))
    guiding = ablation not in ("A4", "A5")
    turns = 2 if alternate and guiding and ablation not in ("A1", "A2") else 1
    base = probability_margin if ablation == "A2" else cross_entropy

    def step(stage: Stage) -> Terms:
        plain = not guiding or (turns == 2 and stage.tick.turn == 0)
        reference = None if plain and not as_published else stage.answer(stage.x, training=True)
        view = one_step(base if plain else guided(base, _now(stage.tick.weight)), alpha)
        images = stage.attack(view, None if plain else reference)
        adversarial, clean = stage.logits_of(images, stage.x)
        return Terms(_terms(stage, clean, adversarial, ablation), clean, adversarial)

    return Made(step, stepped_up(weight, step_up, up), turns)


def one_step(loss: Loss, alpha: float) -> Adversary:
    """Sign noise of alpha * eps, one step of the full eps, clipped to eps."""
    return Adversary(corner(alpha), loss, projected_ascent(constant(1.0)))


def _terms(stage: Stage, clean: Scores, adversarial: Scores, ablation: Ablation) -> dict[str, Tensor]:
    if ablation in ("A3", "A4"):
        return {"ce clean": stage.cross_entropy(clean), "ce adversarial": stage.cross_entropy(adversarial)}
    drift = stage.tick.weight * objectives.drift(clean, adversarial)
    if ablation == "A2":
        return {"margin": objectives.margin(clean, stage.y), "drift": drift}
    return {"ce": stage.cross_entropy(clean), "drift": drift}


def _now(weight: Tensor | float) -> Schedule:
    """A schedule that says what lambda is in this batch; it may be a tensor."""
    return lambda step: weight  # type: ignore[return-value]
