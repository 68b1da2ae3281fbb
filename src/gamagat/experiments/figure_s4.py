"""Figure S4: loss surfaces of three defences."""

from gamagat.experiments.defences import defence
from gamagat.experiments.figures import FIGURES, Figure, Line
from gamagat.experiments.table2 import FGSM_AT

ROWS = ("FGSM-AT", "PGD-AT", "GAT")
IMAGE = "Which image the paper took is not stated; ours is the first of the test set."
NOTES = {
    "": IMAGE,
    "FGSM-AT": FGSM_AT,
}


@FIGURES.register("figureS4")
def figure_s4() -> Figure:
    """Cross-entropy and GAMA loss (lambda 25) around an image, for FGSM-AT, PGD-AT and GAT."""
    plot = "surface:losses=ce+gama,weight=25"
    lines = tuple(Line(row, "surface", plot, network=defence(row), n=1) for row in ROWS)
    return Figure("figureS4", lines, "figS4", "Loss surfaces of three defences", NOTES)
