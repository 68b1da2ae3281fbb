"""A toy figure on the built-in digits with a line of every kind."""

from dataclasses import replace

from experiments.toy import GAT, NORMAL
from gamagat.experiments.core import Measure
from gamagat.experiments.figures import POINTS, Figure, Line, Point

PGD = "pgd:steps=3,as_published=true"


def toy_figure(*rows: str) -> Figure:
    """Of these rows, or of all."""
    weights = {weight: replace(GAT, recipe=f"gat:weight={weight}") for weight in (5, 20)}
    lines = (
        Line("restarts", "PGD", "restarts", (Point(GAT, Measure(f"{PGD},restarts=3")),), paper=(93.0, 92.0)),
        Line("restarts", "targets", "restarts", (Point(GAT, Measure("gama-mt:steps=2,top=2")),)),
        Line(
            "weights",
            "GAMA",
            "lambda",
            tuple(Point(GAT, Measure(f"gama-pgd:steps=3,weight={w}")) for w in (0, 5)),
        ),
        Line("radii", "PGD", "eps", tuple(Point(GAT, Measure(PGD, eps=eps)) for eps in ("0.05", "0.3"))),
        Line(
            "trained",
            "Clean",
            POINTS,
            tuple(Point(one, Measure(), x) for x, one in weights.items()),
            axis="λ",
        ),
        Line("steps", "GAMA", "iterations", network=GAT, attack="gama-pgd:steps=4"),
        Line("steps", "margin", "iterations", network=GAT, attack="gama-pgd:steps=4,weight=0"),
        Line("losses", "FGSM", "loss-eps", network=GAT, attack="fgsm"),
        Line("surface", "surface", "surface:losses=ce+gama,points=5", network=GAT, n=1),
        Line("epochs", "epochs", "epochs", network=NORMAL),
        Line("one dimension", "toy", "toy"),
    )
    figure = Figure("figure-toy", lines, "fig3", "A toy", {"PGD": "A reason."})
    return figure.only(rows) if rows else figure
