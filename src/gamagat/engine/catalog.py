"""What can be named on the command line, with one line about each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from gamagat.attacks.core import ATTACKS
from gamagat.data.core import DATASETS
from gamagat.defenses.core import DEFENSES
from gamagat.engine.training.settings import Settings
from gamagat.errors import unknown
from gamagat.models.core import MODELS
from gamagat.registry import Entry, Registry, write_value

SHELVES: dict[str, Registry[Any]] = {
    "attacks": ATTACKS,
    "recipes": DEFENSES,
    "models": MODELS,
    "data": DATASETS,
}


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that has a name."""

    name: str
    summary: str
    options: dict[str, str]
    presets: dict[str, dict[str, str]]


def catalog(kind: str, shelves: Mapping[str, Registry[Any]] = SHELVES) -> list[Item]:
    """Everything of one kind: attacks, recipes, models or data."""
    if kind not in shelves:
        raise unknown("kind of thing", kind, shelves)
    items = [_item(name, shelves[kind][name]) for name in shelves[kind].names()]
    if kind == "recipes":
        common = "Settings that every recipe takes, with --set or behind its name."
        items.append(Item("(all)", common, _written(asdict(Settings())), {}))
    return items


def _item(name: str, entry: Entry[Any]) -> Item:
    presets = {preset: _written(options) for preset, options in entry.presets.items()}
    return Item(name, entry.summary, _written(entry.defaults()), presets)


def _written(options: Mapping[str, Any]) -> dict[str, str]:
    return {key: write_value(value) for key, value in options.items()}
