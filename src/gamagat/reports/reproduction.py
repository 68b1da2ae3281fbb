"""Our figures beside the paper's: in the terminal, what would run, and what is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

from gamagat.engine.request import EvaluationRequest
from gamagat.engine.watch import Onlooker
from gamagat.experiments.cells import Cell, places
from gamagat.experiments.forecast import Forecast
from gamagat.experiments.results import Drawn, FigureResult, Result, Shown
from gamagat.registry import parse_spec
from gamagat.reports.plots.core import (
    PLOTS,
    Axis,
    Curve,
    Mark,
    Panel,
    Picture,
    Relief,
    Subject,
    percent,
    save,
    spanned,
)

BANDS = "Bands are 95 % Wilson intervals."  # as plots say it


def figure(value: float | None, unit: str = "%") -> str:
    """A figure with as many places as the paper gives."""
    return "-" if value is None else f"{value:.{places(unit)}f}"


def interval(cell: Cell) -> str:
    """The 95 % interval."""
    if cell.interval is None:
        return "-"
    return " to ".join(figure(end, cell.unit) for end in cell.interval)


def side_by_side(result: Result) -> Table:
    """Every place of the table in a line of its own."""
    table = Table(title=escape(f"{result.name}: {result.title}"), title_justify="left")
    for heading in ("row", "column"):
        table.add_column(heading, overflow="fold")
    for heading in ("paper", "ours", "95 % interval", "apart", "images", "seconds"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in result.rows:
        for cell in (cell for cell in result.cells if cell.row == row):
            table.add_row(escape(row), escape(cell.column), figure(cell.paper, cell.unit), *_ours(cell))
        table.add_section()
    return table


def _ours(cell: Cell) -> tuple[str, ...]:
    if not cell.measured:
        return cell.status, "", "", "", ""
    apart = "" if cell.apart is None else signed(cell.apart, cell.unit)
    return figure(cell.ours, cell.unit), interval(cell), apart, str(cell.n), f"{cell.seconds:.1f}"


def signed(value: float, unit: str) -> str:
    return ("+" if value > 0 else "-") + figure(abs(value), unit)


def forecast_table(plan: Forecast) -> Table:
    """What would run, and for how long."""
    table = Table(title="what will run", title_justify="left")
    for heading in ("", "what", "state"):
        table.add_column(heading, overflow="fold")
    table.add_column("about", justify="right", no_wrap=True)
    kind = ""
    for item in plan.items:
        if kind and item.kind != kind:
            table.add_section()
        kind = item.kind
        table.add_row(
            kind, escape(item.name), escape(item.state), spoken(item.seconds) if item.seconds else ""
        )
    table.add_section()
    whole = "all" if plan.complete else "all that can be had"
    table.add_row("", whole, "", spoken(plan.seconds), style="bold")
    return table


def spoken(seconds: float) -> str:
    """A time that people can read."""
    if seconds >= 5400:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 60:.1f} min" if seconds >= 90 else f"{seconds:.1f} s"


def lines_table(result: FigureResult) -> Table:
    """Every line of a figure from its first point to its last."""
    table = Table(title=escape(f"{result.name}: {result.title}"), title_justify="left")
    for heading in ("row", "line"):
        table.add_column(heading, overflow="fold")
    for heading in ("x", "paper", "ours", "images", "seconds"):
        table.add_column(heading, justify="right", no_wrap=True)
    for line in result.lines:
        rest = (str(line.n or ""), f"{line.seconds:.1f}") if line.measured else ("", "")
        table.add_row(escape(line.row), escape(line.column), *ends(line), *rest)
    return table


def ends(line: Drawn) -> tuple[str, str, str]:
    """Where a line begins and ends: x, the paper's y there, ours."""
    if not line.measured:
        return "", _from_to(line.paper), line.status
    curves = line.panels[0].get("curves", [])
    if len(curves) != 1:
        return "", "-", f"{len(curves)} curves" if curves else "surface"
    x, y = curves[0]["x"], curves[0]["y"]
    return f"{x[0]:g} to {x[-1]:g}", _from_to(line.paper[: len(x)]), _from_to(y)


def _from_to(values: Sequence[float]) -> str:
    return f"{values[0]:.2f} to {values[-1]:.2f}" if values else "-"


def draw(plot: str, sources: tuple[str, ...], request: EvaluationRequest, onlooker: Onlooker) -> Shown:
    """What a plot shows, in numbers."""
    name, options = parse_spec(plot)
    return PLOTS.make(name, **options)(Subject(sources, request, onlooker)).as_json()


def paint(result: FigureResult, folder: Path) -> list[Path]:
    """Write the pictures of a figure as PNG and SVG; reliefs beside curves are files of their own."""
    files: list[Path] = []
    for form, panels in result.plates().items():
        name = f"{result.name}-{form}" if files else result.name
        title, note = f"{result.name}: {result.title}", _note(result, form, panels)
        picture = Picture(name, title, tuple(map(_panel, panels)), note=note)
        files += save(picture, folder / f"{name}.png")
    return files


def _note(result: FigureResult, form: str, panels: Sequence[Shown]) -> str:
    """What the plots say below themselves; where lines are too many for bands, where their intervals are."""
    notes = " ".join(dict.fromkeys(line.note for line in result.lines if line.measured and line.form == form))
    banded = any(curve["low"] for panel in panels for curve in panel.get("curves", []))
    return notes if banded else notes.replace(BANDS, f"Our 95 % intervals are in {result.name}.json.")


def _panel(content: Shown) -> Panel | Relief:
    """A panel out of its numbers; accuracies are shown in the range that all of its curves need."""
    axes = {way: Axis(**content[way] | {"ticks": tuple(content[way]["ticks"])}) for way in ("x", "y")}
    if "heights" in content:
        return Relief(**{key: _tuples(value) for key, value in content.items()} | axes)
    curves = tuple(map(_curve, content["curves"]))
    y, every = axes["y"], [*curves, *map(_curve, content.get("beside", []))]
    whole = (y.low, y.high) == (0.0, 100.0)
    if "accuracy" in y.title and not whole:
        axes["y"] = percent(y.title, every, y.after)
    elif y.after is not None:
        axes["y"] = spanned(y.title, every, y.after)
    marks = tuple(Mark(**mark) for mark in content["marks"])
    return Panel(content["title"], axes["x"], axes["y"], curves, marks)


def _curve(content: Shown) -> Curve:
    return Curve(**{key: _tuples(value) for key, value in content.items()})


def _tuples(value: Any) -> Any:
    """Lists as plots have them; what is not a number is null in a file."""
    if isinstance(value, list):
        return tuple(_tuples(item) for item in value)
    return nan if value is None else value


def reasons(cells: Sequence[Cell] | Sequence[Drawn]) -> list[str]:
    """Why places are empty, each reason once."""
    found: dict[str, int] = {}
    for cell in cells:
        if not cell.measured and cell.reason:
            found[cell.reason] = found.get(cell.reason, 0) + 1
    return [f"{count} not run: {reason}" for reason, count in found.items()]
