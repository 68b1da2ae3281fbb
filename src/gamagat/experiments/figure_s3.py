"""Figure S3: accuracy and cross-entropy after each step, GAMA beside the margin alone."""

from gamagat.experiments.defences import defence
from gamagat.experiments.figures import FIGURES, Figure, Line

ATTACKS = {"GAMA": "gama-pgd", "maximum margin": "gama-pgd:weight=0"}
NOTES = {"": "At step 0 the images are at the attack's random start, which is not the untouched image."}


@FIGURES.register("figureS3")
def figure_s3() -> Figure:
    """TRADES along 100 steps of GAMA-PGD, with and without the relaxation term."""
    lines = tuple(
        Line("TRADES", name, "iterations", network=defence("TRADES"), attack=attack)
        for name, attack in ATTACKS.items()
    )
    return Figure("figureS3", lines, "figS3", "Along the attack: GAMA and the margin alone", NOTES)
