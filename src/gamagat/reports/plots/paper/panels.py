"""Curves in a panel, their names at the right beside the ends of their lines."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

from gamagat.reports.plots.core import Axis, Curve, Panel
from gamagat.reports.plots.paper.style import GREY, Look, look_of, plain

LINE = 13 / 72  # inches from one line of a name to the next


def room(panel: Panel) -> float:
    """How high a panel must be, in inches, for all names beside it."""
    labels = [curve.label for curve in panel.curves] + [mark.label for mark in panel.marks]
    return LINE * sum(len(wrapped(label)) for label in labels)


def draw_panel(axes: Axes, panel: Panel, order: Mapping[str, int]) -> list[Look]:
    """All but the names; `order` numbers them, so that one name looks alike in every panel."""
    looks = [look_of(order[curve.label], curve) for curve in panel.curves]
    for curve, look in zip(panel.curves, looks, strict=True):
        _line(axes, curve, look)
    for mark in panel.marks:
        rule = axes.axvline if mark.way == "x" else axes.axhline
        rule(mark.at, color=GREY, linewidth=1, linestyle=(0, (3, 2)), zorder=1)
    draw_axis(axes, "x", panel.x)
    draw_axis(axes, "y", panel.y)
    above = sorted((mark for mark in panel.marks if mark.way == "x"), key=lambda mark: mark.at)
    axes.set_title(textwrap.fill(panel.title, 64), pad=18 if above else 8)
    sides = ["center"] if len(above) == 1 else ["right"] + ["left"] * len(above)  # so that two do not meet
    for mark, side in zip(above, sides, strict=False):
        place = axes.get_xaxis_transform()
        axes.text(mark.at, 1.01, mark.label, transform=place, ha=side, va="bottom", color=GREY, size=8)
    return looks


def _line(axes: Axes, curve: Curve, look: Look) -> None:
    drawing = "steps-post" if curve.style == "steps" else "default"
    every = max(1, len(curve.x) // 12)  # a marker on each of many points is a caterpillar
    path = curve.style == "path"
    axes.plot(
        curve.x,
        curve.y,
        color=look.colour,
        linestyle=look.dash,
        linewidth=look.width,
        marker=look.marker,
        markevery=1 if path else every,
        markeredgecolor=look.colour if path else "white",
        markeredgewidth=1.4 if path else 0.6,
        markersize=6 if path else 5.5,
        drawstyle=drawing,
        zorder=4 if path else 3,
    )
    if curve.low:
        axes.fill_between(
            curve.x,
            curve.low,
            curve.high,
            step="post" if curve.style == "steps" else None,
            color=look.colour,
            alpha=0.11,
            linewidth=0,
            zorder=2,
        )


def draw_axis(axes: Axes, which: str, axis: Axis) -> None:
    """The title, the scale, the limits and plain numbers at the ticks."""
    set_ = {name: getattr(axes, f"set_{which}{name}") for name in ("label", "scale", "lim", "ticks")}
    line = axes.xaxis if which == "x" else axes.yaxis
    set_["label"](axis.title)
    if axis.scale == "symlog":
        set_["scale"]("symlog", linthresh=1.0, linscale=0.5)
    elif axis.scale == "log":
        set_["scale"]("log")
    if axis.low is not None:
        low, high = axis.low, axis.high
        most = getattr(axes, f"get_{which}lim")()[1]
        set_["lim"](low, most + 0.03 * (most - low)) if high is None else set_["lim"](*_around(low, high))
    if axis.ticks:
        set_["ticks"](axis.ticks)
    elif axis.scale == "linear":
        line.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
    line.set_major_formatter(FuncFormatter(plain))
    line.set_minor_formatter(NullFormatter())


def _around(low: float, high: float) -> tuple[float, float]:
    """A little more than from low to high, so that a line at the end is seen whole."""
    return low - 0.02 * (high - low), high + 0.02 * (high - low)


def draw_names(axes: Axes, panel: Panel, looks: Sequence[Look]) -> None:
    """The name of each line at the right, as near to the end of the line as the others let it."""
    rows = [
        (_height(axes, curve.x[-1], curve.y[-1]), curve.label, look)
        for curve, look in zip(panel.curves, looks, strict=True)
        if curve.x and curve.label
    ]
    ruler = Look(GREY, (0, (3, 2)), None, 1.0)
    rows += [
        (_height(axes, axes.get_xlim()[0], mark.at), mark.label, ruler)
        for mark in panel.marks
        if mark.way == "y"
    ]
    rows.sort(key=lambda row: -row[0])
    texts = ["\n".join(wrapped(label)) for _, label, _ in rows]
    line = LINE / (axes.get_window_extent().height / axes.figure.dpi)  # as a share of the panel
    sizes = [line * (text.count("\n") + 1) for text in texts]
    for (_, _, look), text, height in zip(rows, texts, _spread([row[0] for row in rows], sizes), strict=True):
        sample = Line2D(
            [1.02, 1.05, 1.08],
            [height] * 3,
            transform=axes.transAxes,
            clip_on=False,
            color=look.colour,
            linestyle=look.dash,
            linewidth=look.width,
            marker=look.marker,
            markevery=[1],
            markersize=5.5,
            markeredgecolor=look.colour if look.marker == "x" else "white",
            markeredgewidth=1.4 if look.marker == "x" else 0.6,
        )
        axes.add_line(sample)
        axes.text(1.095, height, text, transform=axes.transAxes, va="center", size=8.5, linespacing=1.1)


def _height(axes: Axes, x: float, y: float) -> float:
    """Where a point lies in the panel, from 0 at the bottom to 1 at the top."""
    place = axes.transAxes.inverted().transform(axes.transData.transform((x, y)))[1]
    return float(np.clip(place, 0.0, 1.0)) if np.isfinite(place) else 0.0


def wrapped(label: str) -> list[str]:
    """A name in short lines; a spec is broken after a comma, a word without end anywhere."""
    lines = [""]
    for word in re.findall(r"[^, ]{,27}[, ]*", label):
        if len(lines[-1] + word) > 24 and lines[-1]:
            lines.append("")
        lines[-1] += word
    return [line.strip() for line in lines]


def _spread(heights: Sequence[float], sizes: Sequence[float]) -> list[float]:
    """The heights, from the top down, moved apart so that no two names touch."""
    placed: list[float] = []
    for height, size, above in zip(heights, sizes, [0.0, *sizes], strict=False):
        most = placed[-1] - (above + size) / 2 if placed else 1.0
        placed.append(min(height, most))
    for number in range(len(placed) - 1, -1, -1):
        below = (
            placed[number + 1] + (sizes[number] + sizes[number + 1]) / 2 if number + 1 < len(placed) else 0
        )
        placed[number] = max(placed[number], below)
    return placed
