"""Lines of a figure put together: those of a row share their panels; the paper's have one beside them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any

from gamagat.experiments.drawn import Drawn, Shown

BANDS = 3  # curves in a panel that can have a band each


def plates(lines: Sequence[Drawn]) -> dict[str, list[Shown]]:
    """The panels of all lines that are drawn, flat ones and reliefs apart: no picture can hold both."""
    found: dict[str, list[Shown]] = {}
    for row in dict.fromkeys(line.row for line in lines):
        mine = [line for line in lines if line.row == row and line.measured]
        if mine:
            found.setdefault(mine[0].form, []).extend(_panels(row, mine))
    return found


def _panels(row: str, lines: Sequence[Drawn]) -> Iterator[Shown]:
    for number, together in enumerate(zip_longest(*(line.panels for line in lines))):
        panels = [panel for panel in together if panel is not None]
        words = "; ".join(dict.fromkeys(panel["title"] for panel in panels if panel["title"]))
        merged = panels[0] | {"title": f"{row}: {words}" if words else row}
        if "curves" not in merged:
            yield merged
            continue
        merged |= _together(panels)
        # The paper's line is that of the first panel, where a plot has several.
        published = [_published(line) for line in lines if line.paper and number == 0]
        yield merged | {"beside": published}
        if published:
            across = merged["x"] | {"ticks": max((curve["x"] for curve in published), key=len)}
            theirs = {"title": f"{row}: the paper", "x": across, "curves": published, "marks": []}
            yield merged | theirs | {"beside": merged["curves"]}


def _together(panels: Sequence[Shown]) -> dict[str, Any]:
    """The curves of all, every mark once, and the axis that reaches furthest."""
    marks = [mark for panel in panels for mark in panel["marks"]]
    return {
        "curves": _readable([curve for panel in panels for curve in panel["curves"]]),
        "marks": [mark for number, mark in enumerate(marks) if mark not in marks[:number]],
        "x": max((panel["x"] for panel in panels), key=lambda axis: len(axis["ticks"]))
        | {"title": _title([panel["x"]["title"] for panel in panels])},
    }


def _readable(curves: list[Shown]) -> list[Shown]:
    """Without their bands where there are so many that they would hide the lines; the file has them."""
    return [curve | {"low": [], "high": []} for curve in curves] if len(curves) > BANDS else curves


def _title(titles: Sequence[str]) -> str:
    return " or ".join(dict.fromkeys(titles))


def _published(line: Drawn) -> Shown:
    xs = [float(number) for number in range(1, len(line.paper) + 1)]
    return {"label": line.column, "x": xs, "y": list(line.paper), "low": [], "high": [], "style": "line"}
