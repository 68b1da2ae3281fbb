"""Figure 2: why a term that fades away helps to climb, in one dimension and on a network."""

from gamagat.experiments.defences import defence
from gamagat.experiments.figure_s4 import IMAGE
from gamagat.experiments.figures import FIGURES, Figure, Line

NOTES = {
    "one dimension": (
        "The paper climbs 1 - x(x-2)(x+1)(x+1) from -2; ours climbs two hills of the same kind, which do not "
        "fall without end at both sides."
    ),
    "FGSM-AT": IMAGE,
}


@FIGURES.register("figure2")
def figure2() -> Figure:
    """Ascent in one dimension, without and with relaxation; margin and GAMA loss around an image."""
    lines = (
        Line("one dimension", "toy", "toy"),
        Line("FGSM-AT", "surface", "surface:losses=margin+gama,weight=25", network=defence("FGSM-AT"), n=1),
    )
    return Figure("figure2", lines, "fig2", "A term that fades away helps to climb", NOTES)
