"""Figure S6: the loss of FGSM images of growing eps, which rises where gradients are not masked."""

from gamagat.experiments.defences import SHORT, defence
from gamagat.experiments.figures import FIGURES, Figure, Line


@FIGURES.register("figureS6")
def figure_s6() -> Figure:
    """Mean cross-entropy of FGSM images against eps for GAT, on three data sets."""
    lines = tuple(
        Line(f"GAT {short}", "FGSM", "loss-eps", network=defence("GAT", data), attack="fgsm")
        for short, data in SHORT.items()
    )
    return Figure("figureS6", lines, "figS6", "Loss of FGSM images of GAT against ε")
