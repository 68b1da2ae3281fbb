"""The paper's own numbers, typed in as data (`paper.json`, which cites it)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from gamagat.errors import unknown


@cache
def _content() -> Mapping[str, Any]:
    content: dict[str, Any] = json.loads(
        files("gamagat.experiments").joinpath("paper.json").read_text("utf-8")
    )
    return content


def citation() -> str:
    """Where all these numbers are from."""
    return str(_content()["cite"])


def figure(key: str) -> Mapping[str, Any]:
    """What is known of a figure: its title, its model, and its curves where they could be read."""
    figures: Mapping[str, Mapping[str, Any]] = _content()["figures"]
    if key not in figures:
        raise unknown("figure of the paper", key, figures)
    return figures[key]


def _table(key: str) -> Mapping[str, Any]:
    tables: Mapping[str, Mapping[str, Any]] = _content()["tables"]
    if key not in tables:
        raise unknown("table of the paper", key, tables)
    return tables[key]


def title(key: str) -> str:
    """What the paper's table shows, in a sentence."""
    return str(_table(key)["title"])


def columns(key: str) -> list[str]:
    """The columns that hold figures, in the paper's order."""
    return list(_table(key)["columns"])


def rows(key: str) -> list[str]:
    """The rows, in the paper's order; names are short, and no two are the same."""
    return [row["name"] for row in _table(key)["rows"]]


def value(key: str, row: str, column: str) -> float | None:
    """One figure; None if the paper does not have it."""
    for known in _table(key)["rows"]:
        if known["name"] == row and isinstance(known["values"].get(column), int | float):
            return float(known["values"][column])
    return None
