"""The charts of a run, each with its numbers as a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import log10

from markupsafe import Markup

from gamagat.engine.budget import curve
from gamagat.engine.results import Evaluation
from gamagat.engine.run import Run
from gamagat.engine.share import Share
from gamagat.errors import RunError
from gamagat.reports.page.classes import ClassRow
from gamagat.reports.page.rows import interval, percent
from gamagat.reports.page.svg import Line, Tick, bar_chart, line_chart, nice_step, swatch

MOST_BARS = 40
Curve = list[tuple[float, Share]]


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture, what its lines are called, and the numbers in it."""

    title: str
    about: str
    svg: Markup
    legend: tuple[tuple[Markup, str], ...]
    headings: tuple[str, ...]
    numbers: tuple[tuple[str, ...], ...]


def charts(run: Run, result: Evaluation) -> list[Chart]:
    """Those that this run has numbers for."""
    made = (_after_runs(run, result), _against_cost(run), _against_eps(result))
    return [chart for chart in made if chart is not None]


def class_chart(found: list[ClassRow]) -> Chart | None:
    """Bars for each class; of very many classes, the weakest and the strongest."""
    bars = [
        (row.name, row.clean.percent, row.worst.percent) for row in found if row.clean.of and row.worst.of
    ]
    if not bars:
        return None
    title, about = "Accuracy by class", "Outline: clean. Filled, with its number: worst case. In percent."
    if len(bars) > MOST_BARS:
        bars.sort(key=lambda bar: bar[2])
        bars = bars[: MOST_BARS // 2] + bars[-MOST_BARS // 2 :]
        about += f" The {MOST_BARS // 2} weakest and the {MOST_BARS // 2} strongest classes are shown."
    return Chart(title, about, bar_chart(title, about, bars), (), (), ())


def _after_runs(run: Run, result: Evaluation) -> Chart | None:
    """What is left after the first, second, ... restart or target."""
    of = {attack.name: attack.standing.of for attack in result.attacks}
    lines = {
        attack.name: [
            (float(number), Share(round(left * of[attack.name] / 100), of[attack.name]))
            for number, left in enumerate(attack.curve, start=1)
        ]
        for attack in result.attacks
        if len(attack.curve) > 1
    }
    if not lines:
        return None
    most = max(len(points) for points in lines.values())
    step = max(1, round(nice_step(most, 8)))
    ticks = [
        (float(number), str(number)) for number in range(1, most + 1) if number == 1 or number % step == 0
    ]
    about = "Accuracy in percent after each run (restart, target or member) of the attacks that make several."
    return _chart("Accuracy after each run", about, "run", lines, ticks)


def _against_cost(run: Run) -> Chart | None:
    """What is left when no image may cost more than so much."""
    lines: dict[str, Curve] = {}
    for name, _ in run.manifest.runs():
        try:
            lines[name] = [(float(cost), share) for cost, share in curve(run, name, "passes")]
        except RunError:  # it has not got through with any image
            continue
    spent = sorted({cost for points in lines.values() for cost, _ in points if cost > 0})
    if not spent:
        return None
    zero = log10(spent[0]) - 0.4  # no logarithm, so it stands a little to the left of the first
    powers = range(round(log10(spent[0])), int(log10(spent[-1])) + 1)
    ticks = [(zero, "0"), *((float(power), _power(power)) for power in powers if power > zero + 0.25)]
    drawn = {
        name: [(log10(cost) if cost else zero, share) for cost, share in points]
        for name, points in lines.items()
    }
    about = (
        "Accuracy in percent when no image may cost more than so many passes through the network, forward "
        "and backward ones together. The axis is logarithmic."
    )
    chart = _chart("Accuracy against cost", about, "passes per image", drawn, ticks, steps=True)
    return replace(chart, numbers=tuple(_numbers(lines)))  # not of the logarithms


def _against_eps(result: Evaluation) -> Chart | None:
    """What is left at other radii, by the distances that minimum-norm attacks found."""
    lines = {attack.name: attack.nearest.curve() for attack in result.attacks if attack.nearest}
    lines = {name: points for name, points in lines.items() if points[0][1].of}
    if not lines or result.eps <= 0:
        return None
    ticks = [(share * result.eps, f"{share * result.eps:.3g}") for share in (0, 0.5, 1, 1.5, 2)]
    about = (
        f"Accuracy in percent at other radii, by the distances of the nearest adversarial images found. "
        f"The dashed upright line is the eps of the run, {result.eps:.6g}."
    )
    return _chart("Accuracy against eps", about, f"eps ({result.norm})", lines, ticks, result.eps)


def _chart(
    title: str,
    about: str,
    across: str,
    lines: dict[str, Curve],
    ticks: list[Tick],
    mark: float | None = None,
    steps: bool = False,
) -> Chart:
    drawn = [
        Line(name, tuple((x, share.percent) for x, share in points), steps) for name, points in lines.items()
    ]
    legend = tuple((swatch(number), name) for number, name in enumerate(lines))
    headings = ("attack", across, "accuracy %", "95 % interval")
    picture = line_chart(title, about, across, drawn, ticks, mark)
    return Chart(title, about, picture, legend, headings, tuple(_numbers(lines)))


def _numbers(lines: dict[str, Curve]) -> Iterator[tuple[str, ...]]:
    for name, points in lines.items():
        for x, share in points:
            yield name, f"{x:.6g}", percent(share), interval(share)


def _power(power: int) -> str:
    return f"{10**power:,}".replace(",", " ") if power >= 0 else f"{10.0**power:g}"
