"""Plots of the loss: against eps, and step by step along an attack."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gamagat.engine.request import prepare
from gamagat.engine.traces import LossCurve, Mean, Trace, loss_curves, traces
from gamagat.registry import read_number
from gamagat.reports.plots.about import About
from gamagat.reports.plots.core import (
    EPS_AXIS,
    PLOTS,
    Axis,
    Curve,
    Mark,
    Panel,
    Picture,
    Plot,
    Subject,
    percent,
    spanned,
)

LOSS = "mean cross-entropy (nats)"
SETTLED = 0.05  # the share of an attack's steps after which attacks are compared: the first hide the others


@PLOTS.register("loss-eps")
def loss_eps(radii: tuple[float, ...] = ()) -> Plot:
    """MODEL: mean cross-entropy of FGSM images, or another attack's, against eps (figure S6)."""

    def plot(subject: Subject) -> Picture:
        prepared = prepare(subject.model("fgsm"))
        return loss_picture(About.prepared(prepared), loss_curves(prepared, radii, subject.onlooker))

    return plot


@PLOTS.register("iterations")
def iterations(so_far: bool = False) -> Plot:
    """MODEL: accuracy and cross-entropy after each step of an attack, guided or not (figure S3)."""

    def plot(subject: Subject) -> Picture:
        prepared = prepare(subject.model("gama-pgd", "gama-pgd:weight=0"))
        return iterations_picture(About.prepared(prepared), traces(prepared, subject.onlooker), so_far)

    return plot


def loss_picture(about: About, found: Sequence[LossCurve]) -> Picture:
    """A rising line is as it should be; one that falls tells of masked gradients."""
    curves = tuple(_means(one.attack, one.points) for one in found)
    usual = (Mark(f"ε = {about.eps}", read_number(about.eps, "eps")),)
    panel = Panel(about.told(eps=False), Axis(EPS_AXIS, low=0.0), Axis(LOSS, low=0.0), curves, usual)
    note = "Bands are 95 % intervals of the mean. Without masked gradients the loss rises with ε."
    return Picture("loss-eps", "Loss of adversarial images against ε", (panel,), about.slug, note)


def iterations_picture(about: About, found: Sequence[Trace], so_far: bool = False) -> Picture:
    """Accuracy on the left, cross-entropy on the right."""
    right = tuple(
        Curve.of_shares(one.attack, [(m.step, m.standing if so_far else m.right) for m in one.moments])
        for one in found
    )
    loss = tuple(_means(one.attack, [(m.step, m.loss) for m in one.moments]) for one in found)
    words = "accuracy at the worst step so far (%)" if so_far else "accuracy at this step (%)"
    steps, after = Axis("attack iteration"), SETTLED * max(len(one.moments) - 1 for one in found)
    panels = (
        Panel("Accuracy", steps, percent(words, right, after), right),
        Panel("Loss", steps, spanned(LOSS, loss, after), loss),
    )
    note = (
        "Bands are 95 % intervals. No image leaves early: all of them take every step. "
        "The first twentieth of the steps may lie off the scale."
    )
    title = f"Along the attack: {about.told()}"
    return Picture("iterations", title, panels, about.slug, note)


def _means(label: str, points: Iterable[tuple[float, Mean]]) -> Curve:
    found = list(points)
    return Curve(
        label,
        tuple(float(x) for x, _ in found),
        tuple(mean.value for _, mean in found),
        tuple(mean.ci95[0] for _, mean in found),
        tuple(mean.ci95[1] for _, mean in found),
    )
