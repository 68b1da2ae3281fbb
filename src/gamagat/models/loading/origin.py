"""What a file of weights was trained as, where it or a card says so: no other network may answer for it.

Names and shapes do not tell all of a network. One more ReLU, another shortcut or another input normalisation
leaves them as they are; the wrong network then takes the weights without a word and answers worse.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from safetensors import SafetensorError, safe_open
from torch import nn

from gamagat.models.loading.card import NAME as CARD

WORD = "gamagat.model"  # among the words that a safetensors file carries
LONGEST = 500  # letters of a model with all its settings

PLAIN = (bool, int, float, str, tuple, type(None))  # what settings are
# Settings that only training heeds: dropout's share, and how fast a batch norm follows its batches.
ONLY_TRAINING = {"training", "p", "momentum"}


class Origin(NamedTuple):
    """The model that weights were trained as, and who says so."""

    model: str
    teller: str


def origin_of(file: Path) -> Origin | None:
    """What the file says of itself, or else a card beside it; None of a file that nobody speaks for."""
    if (model := _in_the_file(file)) is not None:
        return Origin(model, "the file itself")
    cards = (_on_the_card(place) for place in (file, file.resolve()))
    model = next((model for model in cards if model is not None), None)
    return None if model is None else Origin(model, f"the {CARD} beside it")


def _in_the_file(file: Path) -> str | None:
    try:
        with safe_open(file, "pt") as stream:
            words = stream.metadata() or {}
    except (OSError, SafetensorError):  # a file of another kind
        return None
    return _name(words.get(WORD))


def _on_the_card(file: Path) -> str | None:
    """The model on the card, if it is the card of these weights; folders of others may have a card.json."""
    try:
        card = json.loads((file.parent / CARD).read_text())
        return _name(card["model"]) if card["weights"] == file.name else None
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _name(word: Any) -> str | None:
    """The word, if it can be a model's name: it comes from a file of anybody's, and is to be printed."""
    return word if isinstance(word, str) and word.isprintable() and 0 < len(word) <= LONGEST else None


def same_parts(one: nn.Module, other: nn.Module) -> bool:
    """Whether two networks are made of the same parts with the same settings, whatever their weights."""
    return _parts(one) == _parts(other)


def _parts(net: nn.Module) -> list[tuple[str, type, dict[str, Any]]]:
    return [(name, type(part), _settings(part)) for name, part in net.named_modules()]


def _settings(part: nn.Module) -> dict[str, Any]:
    return {
        key: value
        for key, value in vars(part).items()
        if isinstance(value, PLAIN) and key not in ONLY_TRAINING
    }
