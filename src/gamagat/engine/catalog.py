"""What can be named on the command line, with one line about each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gamagat.attacks.core import ATTACKS
from gamagat.data.core import DATASETS
from gamagat.errors import unknown
from gamagat.models.core import MODELS
from gamagat.registry import Registry

SHELVES: dict[str, Registry[Any]] = {"attacks": ATTACKS, "models": MODELS, "data": DATASETS}


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that has a name."""

    name: str
    summary: str
    options: dict[str, Any]
    presets: dict[str, dict[str, Any]]


def catalog(kind: str) -> list[Item]:
    """Everything of one kind: attacks, models or data."""
    if kind not in SHELVES:
        raise unknown("kind of thing", kind, SHELVES)
    shelf = SHELVES[kind]
    return [
        Item(name, shelf[name].summary, shelf[name].defaults(), dict(shelf[name].presets))
        for name in shelf.names()
    ]
