"""Plots of finished runs: accuracy against restarts, and against cost."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gamagat.engine.budget import RULE, Cost, at_budget, curve
from gamagat.engine.ledger import CLEAN
from gamagat.engine.results import known_runs, summarize
from gamagat.engine.run import NOT_RUN, Run
from gamagat.engine.share import Share
from gamagat.errors import RunError
from gamagat.registry import format_spec, parse_spec
from gamagat.reports.plots.about import About
from gamagat.reports.plots.core import PLOTS, Axis, Curve, Mark, Panel, Picture, Plot, percent
from gamagat.reports.unfinished import missing_words

POINTS = 60  # of a curve against cost


@PLOTS.register("restarts")
def restarts() -> Plot:
    """RUN...: accuracy against restarts, or against targets tried, a line for each attack (figure 3)."""
    return lambda subject: restarts_picture(subject.runs())


@PLOTS.register("cost")
def cost(count: Cost = "passes") -> Plot:
    """RUN...: accuracy against what an image may cost; count=passes or backwards."""
    return lambda subject: cost_picture(subject.runs(), count)


def restarts_picture(runs: Sequence[Run]) -> Picture:
    """Accuracy left after the first, second, ... try of each attack; a panel for each network and threat.

    An attack that makes one try with several targets, as GAMA-MT does, is shown target by target.
    """
    panels = []
    for about, members in grouped(runs):
        curves = named(members, _after_tries, without="restarts", more=_by_target)
        if curves:
            axis = Axis(_counted(members), ticks=_whole(max(max(line.x) for line in curves)))
            panels.append(Panel(about.told(), axis, percent(curves=curves), tuple(curves)))
    if all(len(line.x) < 2 for panel in panels for line in panel.curves):
        folders = ", ".join(str(run.folder) for run in runs)
        raise RunError(f"no attack of {folders} has finished a second try; evaluate with --restarts 10")
    note = "Bands are 95 % Wilson intervals. Each try sees the images that the tries before it left standing."
    title = f"Accuracy against {_counted(runs)}"
    return Picture("restarts", title, tuple(panels), slug(runs), note + caution(runs))


def _counted(runs: Sequence[Run]) -> str:
    """What the tries of these runs are."""
    attacks = [attack for run in runs for attack in run.manifest.attacks]
    targets = any(_by_target(attack) for attack in attacks)
    restarted = any(len(_tries(attack["runs"])) > 1 for attack in attacks if not _by_target(attack))
    if not targets:
        return "restarts"
    return "restarts or targets tried" if restarted else "targets tried"


def _by_target(attack: dict[str, Any]) -> str:
    """What is added to the name of an attack whose tries are targets; nothing for any other."""
    runs = attack["runs"]
    alone = len(runs) > 1 and all(re.fullmatch(r"[^#@>]*@\d+", entry) for entry in runs)
    return " (targets)" if alone else ""


def _whole(most: float) -> tuple[float, ...]:
    """Whole numbers up to this one, not more than a dozen."""
    step = -(-int(most) // 12)
    return tuple(float(number) for number in range(1, int(most) + 1) if (number - 1) % step == 0)


def _after_tries(run: Run, attack: dict[str, Any]) -> Curve:
    known = known_runs(run, attack["runs"])
    tries = _tries(attack["runs"])
    through = [number for number, entries in tries.items() if set(entries) <= set(known)]
    settled = run.settled(known)
    points = []
    for number in through:
        done = [entry for other in through if other <= number for entry in tries[other]]
        points.append((number, Share(int((run.standing(done) & settled).sum()), int(settled.sum()))))
    return Curve.of_shares("", points)


def _tries(entries: Sequence[str]) -> dict[int, list[str]]:
    """The runs of each try: `gama-mt#2@1`, `gama-mt#2@2`, ... are the second; without numbers all are one.

    Where there are targets and no restarts, `gama-mt@2` is the second.
    """
    found: dict[int, list[str]] = {}
    mark = "@" if _by_target({"runs": entries}) else "#"
    for entry in entries:
        number = re.match(rf"[^#@>]*{mark}(\d+)", entry)
        found.setdefault(int(number[1]) if number else 1, []).append(entry)
    return found


def cost_picture(runs: Sequence[Run], count: Cost = "passes") -> Picture:
    """What each attack leaves standing when no image may cost more than so much."""
    panels = []
    for about, members in grouped(runs):
        curves = named(members, lambda run, attack: _against_cost(run, attack["name"], count))
        if curves:
            what = "forward + backward passes" if count == "passes" else "gradient evaluations"
            axis = Axis(f"{what} per image, at the most", "log")
            mark = Mark("clean", clean(members[0]).percent, "y")
            panels.append(Panel(about.told(), axis, percent(curves=curves), tuple(curves), (mark,)))
    if not panels:
        folders = ", ".join(str(run.folder) for run in runs)
        raise RunError(f"no attack of {folders} has finished an image; let the run go on first")
    note = "Bands are 95 % Wilson intervals. Attacks are cut off there; their schedules are of full length."
    note += f" {RULE}" if count == "backwards" else ""
    return Picture("cost", "Accuracy against cost", tuple(panels), slug(runs), note + caution(runs))


def _against_cost(run: Run, attack: str, count: Cost) -> Curve:
    settled = run.settled(dict(run.manifest.runs())[attack])
    last = curve(run, attack, count)[-1][0] if settled.any() else 0
    if last < 1:
        return Curve("", (), ())  # nothing is through, or there was nothing to attack
    budgets = sorted({round(float(budget)) for budget in np.geomspace(1, last, POINTS)} | {1, last})
    return Curve.of_shares(
        "", [(budget, at_budget(run, attack, budget, count)) for budget in budgets], "steps"
    )


def clean(run: Run) -> Share:
    """What the network gets right untouched."""
    return Share(int(run.right().sum()), int((run.fooled(CLEAN) != NOT_RUN).sum()))


def grouped(runs: Sequence[Run], by_eps: bool = True) -> Iterator[tuple[About, list[Run]]]:
    """The runs of each network, data set and threat model (or norm): what may share a panel."""
    groups: dict[tuple[About, str, str], list[Run]] = {}
    for run in runs:
        about = About.run(run.manifest)
        about = about if by_eps else replace(about, eps="")
        # Networks of one name may have different weights, and data sets different images.
        groups.setdefault((about, run.manifest.weights_sha256, run.manifest.data_sha256), []).append(run)
    for (about, _, _), members in groups.items():
        yield about, members


Series = Callable[[Run, dict[str, Any]], Curve]


def named(
    runs: Sequence[Run],
    series: Series,
    without: str = "",
    more: Callable[[dict[str, Any]], str] = lambda attack: "",
) -> list[Curve]:
    """A curve for each attack that has something to show, under its name; twins get that of their folder.

    `more` is what else the name should say of an attack.
    """
    found = [
        (run, _called(run, attack["name"], without) + more(attack), series(run, attack))
        for run in runs
        for attack in run.manifest.attacks
        if known_runs(run, attack["runs"])
    ]
    names = [name for _, name, line in found if line.x]
    return [
        replace(line, label=name if names.count(name) == 1 else f"{name} ({_place(run, runs)})")
        for run, name, line in found
        if line.x
    ]


def _called(run: Run, name: str, without: str) -> str:
    """An attack but for one option, unless that is all that tells it from another one of its run."""
    short = short_name(name, without)
    alike = [attack for attack in run.manifest.attacks if short_name(attack["name"], without) == short]
    return short if len(alike) == 1 else name


def _place(run: Run, runs: Sequence[Run]) -> str:
    """The name of a run's folder, or all of its path where another has the same."""
    names = [other.folder.resolve().name for other in runs]
    name = run.folder.resolve().name
    return name if names.count(name) == 1 else str(run.folder)


def short_name(spec: str, without: str) -> str:
    """An attack as it was asked for, but for one option."""
    name, options = parse_spec(spec)
    options.pop(without, None)
    return format_spec(name, options)


def caution(runs: Sequence[Run]) -> str:
    """What must be said of runs that have not come to their end."""
    found = [(run.folder.name, summarize(run).missing) for run in runs]
    names = ", ".join(f"{name} ({missing_words(missing)} still to do)" for name, missing in found if missing)
    return f" Unfinished: {names}; numbers are of the images that are through." if names else ""


def slug(runs: Sequence[Run]) -> str:
    """What the files of a plot of these runs are called after."""
    return "-".join(dict.fromkeys(About.run(run.manifest).slug for run in runs))
