"""The charts of a run, each with its numbers as a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import log10

from markupsafe import Markup

from gamagat.engine.budget import curve
from gamagat.engine.distances import BOUND
from gamagat.engine.results import Evaluation
from gamagat.engine.run import Run
from gamagat.engine.share import Share
from gamagat.errors import RunError
from gamagat.reports.page.classes import ClassRow
from gamagat.reports.page.svg import Line, Tick, bar_chart, box, line_chart, nice_step, swatch
from gamagat.reports.page.words import eps_words, interval, percent

MOST_BARS = 40
POINTS = 100  # of a line against cost
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
    """Those that this run has numbers for; an attack has the same colour in all of them."""
    looks = {name: number for number, (name, _) in enumerate(run.manifest.runs())}
    looks |= {attack.name: number for number, attack in enumerate(result.attacks)}
    made = (_after_runs(run, result, looks), _against_cost(run, looks), _against_eps(result, looks))
    return [chart for chart in made if chart is not None]


def class_chart(found: list[ClassRow]) -> Chart | None:
    """Bars for each class; of very many classes, the weakest and the strongest."""
    bars = [
        (row.name, row.clean.percent, row.worst.percent) for row in found if row.clean.of and row.worst.of
    ]
    if not bars:
        return None
    title, about = "Accuracy by class", "Numbers in percent: clean \u2192 worst case."
    if len(bars) > MOST_BARS:
        bars.sort(key=lambda bar: bar[2])
        bars = bars[: MOST_BARS // 2] + bars[-MOST_BARS // 2 :]
        about += f" The {MOST_BARS // 2} weakest and the {MOST_BARS // 2} strongest classes are shown."
    legend = ((box("outline"), "clean"), (box("filled"), "worst case"))
    return Chart(title, about, bar_chart(title, about, bars), legend, (), ())


def _after_runs(run: Run, result: Evaluation, looks: dict[str, int]) -> Chart | None:
    """What is left after the first, second, ... restart or target."""
    several = [
        (attack, runs)
        for attack, (_, runs) in zip(result.attacks, run.manifest.runs(), strict=True)
        if len(attack.curve) > 1
    ]
    if not several:
        return None
    lines = {
        attack.name: [
            (float(number), Share(round(left * attack.standing.of / 100), attack.standing.of))
            for number, left in enumerate(attack.curve, start=1)
        ]
        for attack, _ in several
    }
    kinds = {_kind(runs) for _, runs in several}
    kind = kinds.pop() if len(kinds) == 1 else "run"
    what = "run (restart, target or member of a suite)" if kind == "run" else kind
    about = f"What is left after the first {what}, the second, and so on."
    ticks = _whole(max(len(points) for points in lines.values()))
    return _chart(f"Accuracy after each {kind}", about, f"{kind}s made", lines, ticks, looks)


def _kind(runs: list[str]) -> str:
    """What the runs of an attack are: `pgd#2` is a restart, `gama-mt@3` a target, `suite>pgd` a member."""
    marks = {mark for mark in "#@>" for entry in runs if mark in entry}
    return {"#": "restart", "@": "target"}.get("".join(marks), "run")


def _whole(most: int) -> list[Tick]:
    """Ticks at whole numbers from 1 on."""
    step = max(1, round(nice_step(most, 8)))
    return [
        (float(number), str(number)) for number in range(1, most + 1) if number == 1 or number % step == 0
    ]


def _against_cost(run: Run, looks: dict[str, int]) -> Chart | None:
    """What is left when no image may cost more than so much: drawn at every fall, told at round costs."""
    lines, told = _cost_lines(run, POINTS), _cost_lines(run, None)
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
        "What is left when no image may cost more than so many passes through the network, forward and "
        "backward ones together. The axis is logarithmic; a mark is where an attack ends."
    )
    chart = _chart("Accuracy against cost", about, "passes per image", drawn, ticks, looks, steps=True)
    return replace(chart, numbers=tuple(_numbers(told)))


def _cost_lines(run: Run, points: int | None) -> dict[str, Curve]:
    lines: dict[str, Curve] = {}
    for name, _ in run.manifest.runs():
        try:
            found = curve(run, name, "passes", points)
        except RunError:  # it has not got through with any image
            continue
        lines[name] = [(float(cost), share) for cost, share in found]
    return lines


def _against_eps(result: Evaluation, looks: dict[str, int]) -> Chart | None:
    """What is left at other radii, by the distances that minimum-norm attacks found."""
    lines = {attack.name: attack.nearest.curve() for attack in result.attacks if attack.nearest}
    lines = {name: points for name, points in lines.items() if points[0][1].of}
    if not lines or result.eps <= 0:
        return None
    ticks = [(share * result.eps, eps_words(share * result.eps)) for share in (0, 0.5, 1, 1.5, 2)]
    about = (
        "What is left at other radii, by the distances of the nearest adversarial images found. "
        f"The dashed upright line is the eps of the run, {eps_words(result.eps)}."
    )
    if several := [
        attack.name for attack in result.attacks if attack.name in lines and len(attack.curve) > 1
    ]:
        about += f" Of {', '.join(several)}, {BOUND}."
    return _chart("Accuracy against eps", about, f"eps ({result.norm})", lines, ticks, looks, result.eps)


def _chart(
    title: str,
    about: str,
    across: str,
    lines: dict[str, Curve],
    ticks: list[Tick],
    looks: dict[str, int],
    mark: float | None = None,
    steps: bool = False,
) -> Chart:
    """A legend names the lines from the highest end to the lowest; a single line is named by the title."""
    drawn = [
        Line(looks[name], tuple((x, share.percent) for x, share in points), steps)
        for name, points in lines.items()
    ]
    ends = sorted(((points[-1][1], name) for name, points in lines.items()), key=lambda end: -end[0].percent)
    legend = tuple((swatch(looks[name]), f"{name} \u00b7 {percent(share)} %") for share, name in ends)
    if len(lines) == 1:
        title, legend = f"{title}: {ends[0][1]}", ()
    headings = ("attack", across, "accuracy %", "95 % interval")
    picture = line_chart(title, about, across, drawn, ticks, mark)
    return Chart(title, about, picture, legend, headings, tuple(_numbers(lines)))


def _numbers(lines: dict[str, Curve]) -> Iterator[tuple[str, ...]]:
    for name, points in lines.items():
        for x, share in points:
            yield name, f"{x:,.6g}", percent(share), interval(share)


def _power(power: int) -> str:
    return f"{10**power:,}" if power >= 0 else f"{10.0**power:g}"
