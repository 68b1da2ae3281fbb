"""Figure S1: accuracy against lambda of the attack, lambda of GAT, and the factor that GAT steps it up by."""

from collections.abc import Sequence
from dataclasses import replace

from gamagat.experiments.core import Measure
from gamagat.experiments.defences import at, defence, published
from gamagat.experiments.figures import FIGURES, POINTS, Figure, Line, Point

WEIGHTS = (0, 1, 5, 10, 25, 50, 100)  # of the attack
TRAINED = (2, 5, 10, 15, 20)  # of GAT, whose own is 10
UPS = (1, 2, 4, 6, 8)  # GAT's own is 4
MEASURES = {"Clean": Measure(), "GAMA-PGD": published("gama-pgd")}
NOTES = {
    "": "The text of the paper does not state at which values it measured; ours lie around its settings."
}


def of_attack(name: str, attack: str) -> Line:
    """One guided attack with every weight."""
    network = at(defence("TRADES", model="wrn-34-10"), "0.031")
    points = (Point(network, published(f"{attack}:weight={weight}"), weight) for weight in WEIGHTS)
    return Line("lambda of the attack", name, "lambda", tuple(points))


def of_training(row: str, axis: str, setting: str, values: Sequence[float]) -> list[Line]:
    """GAT trained with each of these values, untouched and under attack."""
    networks = {value: replace(defence("GAT"), recipe=f"gat:{setting}={value}") for value in values}
    points = {
        name: tuple(Point(network, measure, x) for x, network in networks.items())
        for name, measure in MEASURES.items()
    }
    return [Line(row, name, POINTS, found, axis=axis) for name, found in points.items()]


@FIGURES.register("figureS1")
def figure_s1() -> Figure:
    """Accuracy against lambda of GAMA, and against lambda and its step-up factor of GAT."""
    lines = (
        of_attack("GAMA-PGD", "gama-pgd"),
        of_attack("GAMA-FW", "gama-fw"),
        *of_training("lambda of GAT", "weight λ of GAT at its first epoch", "weight", TRAINED),
        *of_training("step-up of GAT", "factor by which GAT steps λ up", "up", UPS),
    )
    return Figure("figureS1", lines, "figS1", "Accuracy against λ of attack and defence", NOTES)
