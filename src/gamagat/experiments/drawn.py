"""What stands in a figure after a run: each line as numbers, or why it was not drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from gamagat.experiments.cells import MEASURED, NOT_RUN, Cell
from gamagat.experiments.figures import Line

Shown = dict[str, Any]  # a panel as `gamagat plot --json` has it: title, axes, and curves or heights


@dataclass(frozen=True, slots=True)
class Drawn:
    """One line of ours beside the paper's."""

    row: str
    column: str
    plot: str
    paper: tuple[float, ...] = ()  # at 1, 2, 3, ...
    status: str = NOT_RUN
    panels: list[Shown] = field(default_factory=list)
    note: str = ""  # what the plot says below itself
    n: int = 0
    seconds: float = 0.0
    reason: str = ""  # why it was not drawn
    about: dict[str, Any] = field(default_factory=dict)  # network, attack, seed, command, date, versions

    @property
    def measured(self) -> bool:
        return self.status == MEASURED

    @property
    def unit(self) -> str:
        return "%" if self.n else ""

    @property
    def form(self) -> str:
        """What its panels are, flat or reliefs."""
        return "surface" if any("heights" in panel for panel in self.panels) else "curves"

    def as_json(self) -> dict[str, Any]:
        content = {
            "row": self.row, "column": self.column, "plot": self.plot, "status": self.status,
            "paper": list(self.paper), "n": self.n, "seconds": round(self.seconds, 3), "note": self.note,
            "panels": self.panels,
        }  # fmt: skip
        return content | ({"reason": self.reason} if self.reason else {}) | self.about

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Drawn:
        rest = dict(content)
        names = ("row", "column", "plot", "status", "panels", "note", "n", "seconds")
        own = {key: rest.pop(key) for key in names}
        paper, reason = tuple(rest.pop("paper")), rest.pop("reason", "")
        return cls(**own, paper=paper, reason=reason, about=rest)


def not_drawn(line: Line, reason: str) -> Drawn:
    """An empty place, and why."""
    return Drawn(line.row, line.column, line.plot, line.paper, reason=reason)


def drawn(line: Line, picture: Shown, n: int, seconds: float, about: dict[str, Any]) -> Drawn:
    """What a plot shows; a curve that is alone in its panel is called as the line is."""
    panels = [_called(panel, line.column) for panel in picture["panels"]]
    note = str(picture["note"])
    return Drawn(
        line.row, line.column, line.plot, line.paper, MEASURED, panels, note, n, seconds, "", about
    )  # fmt: skip


def of_points(line: Line, cells: Sequence[Cell]) -> Shown:
    """A picture of figures that were measured one by one."""
    places = sorted(zip((point.x for point in line.points), cells, strict=True), key=lambda place: place[0])
    curve = {
        "label": line.column,
        "x": [x for x, _ in places],
        "y": [cell.ours for _, cell in places],
        "low": [cell.interval[0] for _, cell in places if cell.interval],
        "high": [cell.interval[1] for _, cell in places if cell.interval],
        "style": "line",
    }
    axis: Shown = {"scale": "linear", "ticks": [], "low": None, "high": None}
    across, up = axis | {"title": line.axis, "ticks": curve["x"]}, axis | {"title": "accuracy (%)"}
    panel = {"title": "", "x": across, "y": up, "curves": [curve], "marks": []}
    return {"panels": [panel], "note": "Bands are 95 % Wilson intervals."}


def _called(panel: Shown, name: str) -> Shown:
    curves = panel.get("curves", [])
    return panel | {"curves": [curves[0] | {"label": name}]} if len(curves) == 1 else panel
