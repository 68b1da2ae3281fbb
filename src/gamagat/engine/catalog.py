"""What can be named on the command line, with one line about each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from gamagat.attacks.core import ATTACKS
from gamagat.data.core import DATASETS
from gamagat.defenses.core import DEFENSES
from gamagat.engine.places import data_in_short
from gamagat.engine.training.settings import Settings
from gamagat.errors import unknown
from gamagat.models.core import MODELS
from gamagat.models.loading.card import read_card
from gamagat.models.loading.zoo import PREFIX, zoo_missing, zoo_names
from gamagat.registry import Entry, Registry, write_value

SHELVES: dict[str, Registry[Any]] = {
    "attacks": ATTACKS,
    "recipes": DEFENSES,
    "models": MODELS,
    "data": DATASETS,
}
ZOO = "zoo"
MANY = 12  # classes whose names would fill more than a line
__all__ = ["SHELVES", "ZOO", "Item", "catalog", "zoo_missing"]


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that has a name."""

    name: str
    summary: str
    options: dict[str, str]
    presets: dict[str, dict[str, str]]


def catalog(kind: str, shelves: Mapping[str, Registry[Any]] = SHELVES) -> list[Item]:
    """Everything of one kind: attacks, recipes, models, data, or the trained networks of the zoo."""
    if kind == ZOO:
        return [_trained(name) for name in zoo_names()]
    if kind not in shelves:
        raise unknown("kind of thing", kind, [*shelves, ZOO])
    items = [_item(name, shelves[kind][name]) for name in shelves[kind].names()]
    if kind == "recipes":
        common = "Settings that every recipe takes, with --set or behind its name."
        items.append(Item("(all)", common, _written(asdict(Settings())), {}))
    return items


def _trained(name: str) -> Item:
    """A network of the zoo with what its card says of it."""
    card = read_card(PREFIX + name)
    content = {} if card is None else card.content
    recipe = str(content.get("recipe", "")).partition(":")[0]
    figures = dict(content.get("figures", {}).get("selected", {}))
    known = {key: f"{value:.2f}" for key, value in figures.items() if isinstance(value, float)}
    words = f"{content.get('model')} trained with {recipe} on {data_in_short(str(content.get('data')))}"
    threat = f"{content.get('norm')}, eps {float(content.get('eps') or 0.0):.6g}"
    return Item(PREFIX + name, f"{words}, {threat}.{_classes(content)}", known, {})


def _classes(content: Mapping[str, Any]) -> str:
    """The names of the classes, where the card has them: of many, the first and the last."""
    names = [str(name) for name in content.get("classes", [])]
    shown = names if len(names) <= MANY else [*names[:2], "...", names[-1]]
    return f" {len(names)} classes: {', '.join(shown)}." if names else ""


def _item(name: str, entry: Entry[Any]) -> Item:
    presets = {preset: _written(options) for preset, options in entry.presets.items()}
    return Item(name, entry.summary, _written(entry.defaults()), presets)


def _written(options: Mapping[str, Any]) -> dict[str, str]:
    return {key: write_value(value) for key, value in options.items()}
