"""Model cards: a folder that training left knows its network, its weights and what they are for."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gamagat.errors import ModelError
from gamagat.models.loading.zoo import is_zoo, zoo_entry

NAME = "card.json"


@dataclass(frozen=True, slots=True)
class Card:
    """What is needed to use a trained network."""

    folder: Path
    content: dict[str, Any]

    @property
    def model(self) -> str:
        return str(self.content["model"])

    @property
    def weights(self) -> Path:
        return self.folder / str(self.content["weights"])

    def get(self, key: str) -> Any:
        """Anything else that the card says, or None."""
        return self.content.get(key)


def read_card(spec: str) -> Card | None:
    """The card in the folder of this name; None if there is no such folder with a card.

    The name of a model means that model, whatever folders there are; `./resnet18` is the folder, and
    `zoo:NAME` that of a network of the zoo.
    """
    from gamagat.models.core import MODELS  # noqa: PLC0415 - which reads cards itself

    if spec in MODELS:
        return None
    place = zoo_entry(spec) if is_zoo(spec) else spec
    try:
        folder = Path(place).expanduser()
        if not folder.is_dir():
            return None
        if not (folder / NAME).is_file():
            _check_finished(folder)
            return None
        card = Card(folder, json.loads((folder / NAME).read_text()))
        missing = not (card.model and card.weights.is_file())
    except (OSError, RuntimeError):  # no path at all
        return None
    except (ValueError, TypeError, KeyError) as error:
        raise ModelError(f"cannot read {Path(place) / NAME}: {error}; train again") from None
    if missing:
        raise ModelError(f"{card.weights}, named by the card beside it, is not there; copy it back")
    return card


def _check_finished(folder: Path) -> None:
    """Refuse a training that has not come to its card."""
    if (folder / "training.json").is_file():
        raise ModelError(
            f"{folder} holds a training that is not finished; give the same command again to go on; or "
            f"evaluate its weights so far by the network's name and --weights {folder / 'model.safetensors'}"
        )
