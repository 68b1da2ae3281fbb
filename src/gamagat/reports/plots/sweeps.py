"""Plots of sweeps: accuracy against the weight lambda, and against eps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gamagat.engine.distances import BOUND, distances
from gamagat.engine.results import known_runs
from gamagat.engine.run import Run
from gamagat.engine.share import Share
from gamagat.engine.sweeps import WEIGHTS, sweep_eps, sweep_weights
from gamagat.errors import RunError
from gamagat.registry import format_spec, parse_spec
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
)
from gamagat.reports.plots.runs import caution, clean, grouped, named, short_name, slug

WILSON = "Bands are 95 % Wilson intervals."
POINTS = 121  # of a curve from distances


@PLOTS.register("lambda")
def weight(weights: tuple[float, ...] = WEIGHTS) -> Plot:
    """MODEL or RUN...: accuracy against the weight lambda of guided attacks (figure S1)."""

    def plot(subject: Subject) -> Picture:
        if subject.holds_runs:
            return weight_picture(subject.runs())
        return weight_picture(
            [sweep_weights(subject.model("gama-pgd", "gama-fw", keeps=True), weights, subject.onlooker)]
        )

    return plot


@PLOTS.register("eps")
def eps(radii: tuple[float, ...] = ()) -> Plot:
    """MODEL or RUN...: accuracy against eps (figure S5); of a minimum-norm attack one run suffices."""

    def plot(subject: Subject) -> Picture:
        if subject.holds_runs:
            return eps_picture(subject.runs())
        request = subject.model("pgd:steps=7,rate=0.25", keeps=True)  # of any preset: steps that get there
        return eps_picture(sweep_eps(request, radii, subject.onlooker))

    return plot


def weight_picture(runs: Sequence[Run]) -> Picture:
    """A line for each guided attack whose weight differs among these runs, all else being equal."""
    panels = []
    for about, members in grouped(runs):
        curves = _over_weights(members)
        if curves:
            values = sorted({value for line in curves for value in line.x})
            axis = Axis("weight λ of the relaxation term at the first step", "symlog", tuple(values))
            panels.append(Panel(about.told(), axis, percent(curves=curves), tuple(curves)))
    if not panels:
        raise RunError(
            f"no guided attack of {_folders(runs)} comes with two weights; evaluate with --attack "
            "gama-pgd:weight=0 --attack gama-pgd:weight=50, or give a model"
        )
    return Picture(
        "lambda", "Accuracy against the weight λ", tuple(panels), slug(runs), WILSON + caution(runs)
    )


def _over_weights(runs: Sequence[Run]) -> list[Curve]:
    points: dict[tuple[str, str], dict[float, Share]] = {}
    for run in runs:
        for attack in run.manifest.attacks:
            name, settings = parse_spec(attack["spec"])
            if "weight" in settings and known_runs(run, attack["runs"]):
                value = float(settings.pop("weight"))
                key = format_spec(name, settings), short_name(attack["name"], "weight")
                points.setdefault(key, {})[value] = _standing(run, attack)
    return [
        Curve.of_shares(label, sorted(found.items()))
        for (_, label), found in points.items()
        if len(found) > 1
    ]


def eps_picture(runs: Sequence[Run]) -> Picture:
    """From the distances of minimum-norm attacks, and from other attacks that ran at several eps."""
    panels = []
    for about, members in grouped(runs, by_eps=False):
        curves = [*named(members, _from_distances), *_over_eps(members)]
        if curves:
            marks = _eps_marks(members)
            axes = Axis(EPS_AXIS, low=0.0), Axis("accuracy (%)", low=0.0, high=100.0)
            panels.append(Panel(about.told(eps=False), *axes, tuple(curves), marks))
    if not panels:
        raise RunError(
            f"{_folders(runs)} holds no attack at several eps with the same settings and no minimum-norm "
            "attack; give runs at several eps, one of fab, cw or ddn, or a model"
        )
    return Picture(
        "eps", "Accuracy against ε", tuple(panels), slug(runs), WILSON + _bound(runs) + caution(runs)
    )


def _bound(runs: Sequence[Run]) -> str:
    """What must be said of minimum-norm attacks that made several runs."""
    attacks = [attack for run in runs for attack in run.manifest.attacks]
    names = dict.fromkeys(item["name"] for item in attacks if item.get("nearest") and len(item["runs"]) > 1)
    return f" Of {', '.join(names)}, {BOUND}." if names else ""


def _eps_marks(runs: Sequence[Run]) -> tuple[Mark, ...]:
    """The eps of the run, where there is one."""
    told = {run.manifest.eps: About.run(run.manifest).eps for run in runs}
    return tuple(Mark(f"ε = {text}", value) for value, text in told.items()) if len(told) == 1 else ()


def _from_distances(run: Run, attack: dict[str, Any]) -> Curve:
    """Accuracy at every eps at once; nothing if the attack does not look for the nearest image."""
    if not attack.get("nearest"):
        return Curve("", (), ())
    known = known_runs(run, attack["runs"])
    found = distances(run, known, run.settled(known))
    eps = run.manifest.eps
    near = found.found[found.found < 8 * eps]  # a few images far away must not squeeze the others
    most = max(2 * eps, 1.02 * float(near.max(initial=0.0)))
    steps = [float(value) for value in np.linspace(0.0, most, POINTS)]
    return Curve.of_shares("", [(step, found.accuracy(step)) for step in steps], "steps")


def _over_eps(runs: Sequence[Run]) -> list[Curve]:
    """Attacks that ran at several eps; at 0 there is nothing to attack."""
    points: dict[tuple[str, str], dict[float, Share]] = {}
    for run in runs:
        for attack in run.manifest.attacks:
            if not attack.get("nearest") and known_runs(run, attack["runs"]):
                key = attack["name"], attack["spec"]  # --restarts is in its settings, but not in its name
                points.setdefault(key, {0.0: clean(run)})[run.manifest.eps] = _standing(run, attack)
    lines = {key: sorted(found.items()) for key, found in points.items() if len(found) > 2}
    names = [name for name, _ in lines]
    return [
        Curve.of_shares(name if names.count(name) == 1 else spec, found)
        for (name, spec), found in lines.items()
    ]


def _standing(run: Run, attack: dict[str, Any]) -> Share:
    """What an attack left, of the images it is through with."""
    known = known_runs(run, attack["runs"])
    settled = run.settled(known)
    return Share(int((run.standing(known) & settled).sum()), int(settled.sum()))


def _folders(runs: Sequence[Run]) -> str:
    return ", ".join(str(run.folder) for run in runs)
