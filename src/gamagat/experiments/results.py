"""Results on disk: one JSON file for each table, in which measured figures stay until better ones come."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gamagat.engine.manifest import write_json
from gamagat.errors import RunError
from gamagat.experiments.cells import Cell, not_run, of_others
from gamagat.experiments.core import Table
from gamagat.experiments.paper import citation

FORMAT = 1


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


def result_of(table: Table, cells: Sequence[Cell]) -> Result:
    """The cells of a table in its order; those that are not given were not run."""
    given = {(cell.row, cell.column): cell for cell in cells}
    whole = [given.get((slot.row, slot.column)) or not_run(table, slot, "") for slot in table.slots]
    # Worked out anew: a mean may be of runs that were measured on different days.
    whole += [of_others(table, place, whole) for place in table.derived]
    cite = citation() if table.paper else ""
    return Result(table.name, table.heading, table.rows, table.columns, whole, cite, dict(table.notes))


def merged(old: Sequence[Cell], new: Sequence[Cell]) -> list[Cell]:
    """The better of each two cells: measured, with the table's own settings, on more images, and later."""
    kept = {(cell.row, cell.column): cell for cell in old}
    for cell in new:
        before = kept.get((cell.row, cell.column))
        if before is None or _worth(cell) >= _worth(before):
            kept[cell.row, cell.column] = cell
    return list(kept.values())


def _worth(cell: Cell) -> tuple[bool, bool, int]:
    return cell.measured, not cell.about.get("changed"), cell.n


def save_result(folder: Path, table: Table, cells: Sequence[Cell]) -> Path:
    """Write the whole table, together with what earlier runs have measured."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"cannot make the folder {folder}: {error.strerror}; give another --results") from None
    path = folder / f"{table.name}.json"
    old = read_result(path).cells if path.is_file() else []
    write_json(path, result_of(table, merged(old, cells)).as_json())
    return path


def read_result(path: Path) -> Result:
    """One file of results."""
    try:
        content = json.loads(path.read_text())
        cells = [Cell.from_json(cell) for cell in content["cells"]]
        return Result(
            content["experiment"], content["title"], content["rows"], content["columns"], cells,
            content["paper"], content["notes"],
        )  # fmt: skip
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise RunError(
            f"{path} holds no results: {error!r}; move it away or give another --results"
        ) from None


def read_results(folder: Path) -> list[Result]:
    """All files of results in a folder, `tableS10` after `tableS9`."""
    paths = sorted(folder.glob("*.json"), key=_natural)
    if not paths:
        raise RunError(
            f"there are no results in {folder}; make some: gamagat reproduce NAME --results {folder}"
        )
    return [read_result(path) for path in paths]


def _natural(path: Path) -> list[tuple[int, str]]:
    """Numbers by their size; names that begin with `table` first."""
    parts = re.split(r"(\d+)", path.stem)
    first = (0 if path.stem.startswith("table") else 1, "")
    return [first, *((int(part), "") if part.isdigit() else (0, part) for part in parts)]
