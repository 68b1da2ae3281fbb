"""Results on disk: one JSON file for each table or figure; what is measured stays until better comes."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import sleep
from typing import Any, TypeVar

from gamagat.engine.alone import alone_in
from gamagat.engine.manifest import write_json
from gamagat.errors import RunError
from gamagat.experiments.cells import Cell, not_run, of_others
from gamagat.experiments.core import Network, Slot, Table
from gamagat.experiments.drawn import Drawn, Shown, not_drawn
from gamagat.experiments.figures import Figure, all_names
from gamagat.experiments.paper import citation
from gamagat.experiments.plates import plates

__all__ = ["Cell", "Drawn", "FigureResult", "Result", "Shown", "figure_result", "merged", "read_figure"]
__all__ += ["read_result", "read_results", "result_of", "save_figure", "save_result"]
FORMAT = 1
# What somebody wrote beside a figure: of the training that it is of, and of the figure alone.
OF_TRAINING, OF_FIGURE = ("remark", "rounded_from"), ("converted",)
Part = TypeVar("Part", Cell, Drawn)


@dataclass(frozen=True, slots=True)
class Result:
    """A table as it is kept, and as it is shown."""

    name: str
    title: str
    rows: list[str]
    columns: list[str]
    cells: list[Cell]
    cite: str = ""
    notes: dict[str, str] = field(default_factory=dict)

    def cell(self, row: str, column: str) -> Cell | None:
        return next((cell for cell in self.cells if (cell.row, cell.column) == (row, column)), None)

    def as_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "experiment": self.name,
            "title": self.title,
            "paper": self.cite,
            "rows": self.rows,
            "columns": self.columns,
            "notes": self.notes,
            "cells": [cell.as_json() for cell in self.cells],
        }


@dataclass(frozen=True, slots=True)
class FigureResult:
    """A figure as it is kept, and as it is shown."""

    name: str
    title: str
    lines: list[Drawn]
    cite: str = ""
    notes: dict[str, str] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)  # its pictures, beside the file of results

    def plates(self) -> dict[str, list[Shown]]:
        """Its panels, flat ones and reliefs apart."""
        return plates(self.lines)

    def as_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "experiment": self.name,
            "title": self.title,
            "paper": self.cite,
            "notes": self.notes,
            "files": self.files,
            "lines": [line.as_json() for line in self.lines],
        }


def figure_result(figure: Figure, lines: Sequence[Drawn], files: Sequence[str] = ()) -> FigureResult:
    """The lines of a figure in its order; those that are not given were not drawn."""
    given = {(line.row, line.column): line for line in lines}
    whole = [given.get((line.row, line.column)) or not_drawn(line, "") for line in figure.lines]
    return FigureResult(figure.name, figure.title, whole, citation(), dict(figure.notes), list(files))


def result_of(table: Table, cells: Sequence[Cell]) -> Result:
    """The cells of a table in its order; those that are not given were not run."""
    given = {(cell.row, cell.column): cell for cell in cells}
    whole = [given.get((slot.row, slot.column)) or not_run(table, slot, "") for slot in table.slots]
    # Worked out anew: a mean may be of runs that were measured on different days.
    whole += [of_others(table, place, whole) for place in table.derived]
    cite = citation() if table.paper else ""
    return Result(table.name, table.heading, table.rows, table.columns, whole, cite, dict(table.notes))


def merged(old: Sequence[Part], new: Sequence[Part]) -> list[Part]:
    """The better of each two: measured, with the experiment's own settings, on more images, and later."""
    kept = {(part.row, part.column): part for part in old}
    for part in new:
        before = kept.get((part.row, part.column))
        if before is None:
            kept[part.row, part.column] = part
        elif _worth(part) >= _worth(before):
            kept[part.row, part.column] = _with_words(part, before)
    return list(kept.values())


def _with_words(part: Part, before: Part) -> Part:
    """What was said of a figure goes on with it: if it was only read again, or is of the same weights."""
    old, new = before.about, part.about
    read_again, alike = (
        all(key in new and old.get(key) == new[key] for key in ("network", key))
        for key in ("made", "weights")
    )
    words = (OF_TRAINING if read_again or alike else ()) + (OF_FIGURE if read_again else ())
    return replace(part, about={key: old[key] for key in words if key in old} | new)


def _asked_for(table: Table, cells: Sequence[Cell], new: Sequence[Cell]) -> list[Cell]:
    """Without what is left of an earlier recipe of a row, once it has figures of today's."""
    slots = {(slot.row, slot.column): slot for slot in table.slots}
    today = dict(_of_today(slots, cells, new))

    def stays(cell: Cell) -> bool:
        slot, own = slots.get((cell.row, cell.column)), _recipe(cell)
        return own is None or slot is None or today.get(slot.network, own) == own

    return [cell for cell in cells if stays(cell)]


def _of_today(
    slots: Mapping[tuple[str, str], Slot], cells: Sequence[Cell], new: Sequence[Cell]
) -> Iterator[tuple[Network, str]]:
    """Networks that were measured just now, with their recipes; what was not taken does not count."""
    known = {(cell.row, cell.column): cell for cell in cells}
    for cell in new:
        slot, recipe = slots.get((cell.row, cell.column)), _recipe(cell)
        if slot is not None and recipe is not None and recipe == _recipe(known[cell.row, cell.column]):
            yield slot.network, recipe


def _recipe(cell: Cell) -> str | None:
    """The recipe of the network that it is a figure of, where that has the recipe's own settings."""
    return cell.about.get("recipe") if cell.measured and not cell.about.get("changed") else None


def _worth(part: Cell | Drawn) -> tuple[bool, bool, int]:
    return part.measured, not part.about.get("changed"), images_of(part)


def images_of(part: Cell | Drawn) -> int:
    """How many images were looked at; a mean distance is of those that it was found for."""
    return int(part.about.get("images", part.n))


def save_result(folder: Path, table: Table, cells: Sequence[Cell], trial: bool = False) -> Path:
    """Write the whole table, together with what earlier runs have measured.

    A trial, on a part of the images, adds to it or betters it, and takes nothing away.
    """
    path = place_of(_made(folder), table.name)
    with alone_in(folder, _a_moment):
        old = read_result(path).cells if path.is_file() else []
        found = merged(old, cells)
        write_json(path, result_of(table, found if trial else _asked_for(table, found, cells)).as_json())
    return path


def save_figure(
    folder: Path,
    figure: Figure,
    lines: Sequence[Drawn],
    paint: Callable[[FigureResult, Path], list[Path]] | None = None,
) -> FigureResult:
    """Write the whole figure, together with what earlier runs have drawn: its numbers, and its pictures."""
    path = place_of(_made(folder), figure.name)
    with alone_in(folder, _a_moment):
        old = read_figure(path) if path.is_file() else figure_result(figure, [])
        result = figure_result(figure, merged(old.lines, lines), old.files)
        if paint is not None:
            result = replace(result, files=[file.name for file in paint(result, folder)])
        write_json(path, result.as_json())
    return result


def _a_moment() -> None:
    """Another process adds to these results; it takes milliseconds."""
    sleep(0.01)


def check_folder(folder: Path) -> None:
    """Refuse a file in place of a folder, before anything is measured."""
    if folder.exists() and not folder.is_dir():
        raise RunError(f"{folder} is a file and no results can be kept in it; give another --results")
    if folder.exists() and not os.access(folder, os.W_OK):
        raise RunError(f"nothing can be written into {folder}; give another --results")


def check_result(folder: Path, whole: Table | Figure) -> None:
    """Refuse results that cannot be added to, before anything is measured."""
    path = place_of(folder, whole.name)
    if path.exists():
        read_figure(path) if isinstance(whole, Figure) else read_result(path)


def place_of(folder: Path, name: str) -> Path:
    """The file of a table or a figure."""
    return folder / f"{name}.json"


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"cannot make the folder {folder}: {error.strerror}; give another --results") from None
    return folder


def read_result(path: Path) -> Result:
    """One file of results of a table."""
    found = _read(path)
    if isinstance(found, FigureResult):
        raise RunError(f"{path} holds a figure, not a table; move it away or give another --results")
    return found


def read_figure(path: Path) -> FigureResult:
    """One file of results of a figure."""
    found = _read(path)
    if isinstance(found, Result):
        raise RunError(f"{path} holds a table, not a figure; move it away or give another --results")
    return found


def _read(path: Path) -> Result | FigureResult:
    try:
        content = json.loads(path.read_text())
        if "lines" in content:
            lines = [Drawn.from_json(line) for line in content["lines"]]
            return FigureResult(
                content["experiment"], content["title"], lines, content["paper"], content["notes"],
                content["files"],
            )  # fmt: skip
        cells = [Cell.from_json(cell) for cell in content["cells"]]
        return Result(
            content["experiment"], content["title"], content["rows"], content["columns"], cells,
            content["paper"], content["notes"],
        )  # fmt: skip
    except (OSError, ValueError, TypeError, KeyError, IndexError) as error:
        raise RunError(
            f"{path} holds no results: {error!r}; move it away or give another --results"
        ) from None


def read_results(folder: Path) -> list[Result | FigureResult]:
    """All files of results in a folder, `tableS10` after `tableS9`."""
    paths = sorted(folder.glob("*.json"), key=_natural)
    if not paths:
        raise RunError(
            f"there are no results in {folder}; make some: gamagat reproduce NAME --results {folder}"
        )
    return [_read(path) for path in paths if path.stem in all_names() or _is_result(path)]


def _is_result(path: Path) -> bool:
    """Whether a file of another name holds results; any other may lie beside them."""
    try:
        return "experiment" in json.loads(path.read_text())
    except (OSError, ValueError, TypeError):
        return False


def _natural(path: Path) -> list[tuple[int, str]]:
    """Numbers by their size; names that begin with `table` first."""
    parts = re.split(r"(\d+)", path.stem)
    first = (0 if path.stem.startswith("table") else 1, "")
    return [first, *((int(part), "") if part.isdigit() else (0, part) for part in parts)]
