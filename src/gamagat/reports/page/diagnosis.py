"""What another command left in the run folder about gradient masking, as a table, whatever its form."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NAME, MOST = "diagnosis.json", 400
Line = tuple[str, str]


def read_diagnosis(folder: Path) -> list[Line]:
    """Names and values in the order of the file; empty if there is no such file."""
    try:
        content = json.loads((folder / NAME).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        return [(NAME, f"cannot be read: {error}")]
    lines = list(_lines("", content))
    more = [("…", f"{len(lines) - MOST} more in {folder / NAME}")] if len(lines) > MOST else []
    return lines[:MOST] + more


def _lines(name: str, value: Any) -> Iterator[Line]:
    """Nested names are joined; a short list stays on one line."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _lines(f"{name} / {key}" if name else str(key), inner)
    elif isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        for number, inner in enumerate(value, start=1):
            yield from _lines(f"{name} {_called(inner, number)}".strip(), _rest(inner))
    elif isinstance(value, list):
        yield name, ", ".join(map(_text, value))
    else:
        yield name, _text(value)


def _called(value: Any, number: int) -> str:
    """The name that an item gives itself, else its number."""
    return str(value["name"]) if isinstance(value, dict) and "name" in value else str(number)


def _rest(value: Any) -> Any:
    return {key: inner for key, inner in value.items() if key != "name"} if isinstance(value, dict) else value


def _text(value: Any) -> str:
    known = {True: "yes", False: "no", None: "-"}
    if value is None or isinstance(value, bool):
        return known[value]
    return f"{value:.6g}" if isinstance(value, float) else str(value)
