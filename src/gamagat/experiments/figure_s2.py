"""Figure S2: four trainings over their epochs."""

from gamagat.experiments.defences import defence
from gamagat.experiments.figures import FIGURES, Figure, Line

ROWS = ("RFGSM-AT", "PGD-AT", "TRADES", "GAT")
NOTES = {
    "": (
        "The paper shows the cross-entropy of test images, clean and under FGSM and PGD-7; ours is of the "
        "validation images that a training looks at, clean and under PGD-10, beside its training losses."
    ),
}


@FIGURES.register("figureS2")
def figure_s2() -> Figure:
    """Losses and validation accuracies of R-FGSM-AT, PGD-AT, TRADES and GAT over epochs."""
    lines = tuple(Line(row, "epochs", "epochs", network=defence(row)) for row in ROWS)
    return Figure("figureS2", lines, "figS2", "Trainings over their epochs", NOTES)
