"""From the folder of a training to an entry of the zoo: half the size, and as good on the images at hand."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from gamagat.data.core import Dataset
from gamagat.engine.judge import winners
from gamagat.engine.manifest import weights_hash, write_json
from gamagat.engine.places import data_in_short
from gamagat.engine.runtime import borrowed, choose_device, fitted, full_precision
from gamagat.engine.training.splits import split_data
from gamagat.errors import ConfigError, DataError, RunError
from gamagat.models.core import load_model
from gamagat.models.loading.card import NAME as CARD
from gamagat.models.loading.card import Card, read_card
from gamagat.models.loading.checkpoint import read_state
from gamagat.models.loading.origin import WORD
from gamagat.models.loading.zoo import PREFIX, VARIABLE, zoo_folder, zoo_missing

WEIGHTS, PAGE = "model.safetensors", "README.md"
MOST = 26_000_000  # bytes of the whole zoo: people clone it with the repository
ALLOWED = 0.1  # points of accuracy that half precision may cost
BATCH = 500


@dataclass(frozen=True, slots=True)
class Check:
    """Accuracies in percent before and after; without images, why there are none, and which are not here."""

    images: int = 0
    before: float = 0.0
    after: float = 0.0
    missing: str = ""
    lacked: str = ""  # for a page that is read on other machines: no way to anything on this one

    def as_json(self) -> dict[str, Any]:
        if self.missing:
            return {"images": 0, "missing": self.lacked}
        return {"images": self.images, "single": self.before, "half": self.after}


def add_to_zoo(
    source: str, name: str, data_dir: Path | None = None, n: int | None = None, device: str = "auto"
) -> tuple[Path, Check]:
    """Put the network of a training into the zoo; nothing is left behind where it does not hold."""
    if n is not None and n < 1:
        raise ConfigError(f"the number of images must be positive, got {n}")
    card, zoo = _card(source), _place(name)
    home, partial = zoo / name, zoo / f".{name}.{os.getpid()}.part"
    try:
        partial.mkdir(parents=True)
        save_file(halved(read_state(card.weights)), partial / WEIGHTS, {WORD: card.model})
        _check_size(zoo, partial, name, source)
        check = _checked(card, partial / WEIGHTS, data_dir, n, device)
        _describe(card, name, partial, check)
        partial.replace(home)
    except OSError as error:
        raise RunError(f"cannot write {home}: {error.strerror or error}") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return home, check


def _card(source: str) -> Card:
    card = read_card(source)
    if card is None:
        raise ConfigError(f"{source} holds no finished training; give a folder with a {CARD} in it")
    return card


def _place(name: str) -> Path:
    """The zoo, if this name is free in it."""
    zoo = zoo_folder()
    if zoo is None:
        raise ConfigError(f"there is no zoo to add to: {zoo_missing()}")
    if not re.fullmatch(r"[a-z0-9][a-z0-9.-]*", name):
        raise ConfigError(f"a name in the zoo is of small letters, digits, dots and dashes, got {name!r}")
    if (zoo / name).exists():
        raise ConfigError(f"{zoo / name} is there already; remove it first, or choose another name")
    return zoo


def halved(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Floats as fp16, but for tensors with numbers that are too large for it; whole numbers stay."""
    return {key: _half(value).contiguous().clone() for key, value in state.items()}


def _half(value: Tensor) -> Tensor:
    if not value.is_floating_point():
        return value
    half = value.half()
    return half if bool(half.isfinite().all()) else value.float()


def _check_size(zoo: Path, new: Path, name: str, source: str) -> None:
    """Refuse what the zoo has no room for, and say how there could be some."""
    if _size(zoo) <= MOST:
        return
    most, plain = f"it may be {MOST / 1e6:g} MB", f"gamagat evaluate {source} needs no zoo"
    if _size(new) > MOST:
        raise ConfigError(f"the zoo would be {_told(new)} with {name} alone, and {most}; {plain}")
    there = sorted(zoo.glob("[!.]*/"), key=_size, reverse=True)
    raise ConfigError(
        f"the zoo would be {_told(zoo)} with {name}, and {most}; take another out first, which is to "
        f"delete its folder in {zoo}: {', '.join(f'{entry.name} ({_told(entry)})' for entry in there)}; or "
        f"set {VARIABLE} to another folder, here and wherever {PREFIX}{name} is used; {plain}"
    )


def _size(folder: Path) -> int:
    """The bytes of all weights in it."""
    return sum(file.stat().st_size for file in folder.rglob("*.safetensors"))


def _told(folder: Path) -> str:
    return f"{_size(folder) / 1e6:.1f} MB"


def _checked(card: Card, weights: Path, data_dir: Path | None, n: int | None, device: str) -> Check:
    """Compare both on the test images of the card."""
    try:
        data = split_data(str(card.get("data")), "test", data_dir).head(n)
    except (ConfigError, DataError) as error:  # data of another machine
        return Check(missing=str(error), lacked=f"{data_in_short(str(card.get('data')))} could not be had")
    before, after = (_accuracy(card.model, file, data, device) for file in (card.weights, weights))
    if abs(after - before) > ALLOWED:
        raise RunError(
            f"in half precision {card.folder} gets {after:.2f} % of {len(data)} test images right instead of "
            f"{before:.2f} %, and {ALLOWED} points are allowed; it is not added"
        )
    return Check(len(data), before, after)


def _accuracy(model: str, weights: Path, data: Dataset, device: str) -> float:
    place = choose_device(device)
    network = load_model(model, weights, classes=len(data.classes), channels=data.shape[0]).to(place)
    ask, right = fitted(network), 0
    with borrowed(network), full_precision(), torch.no_grad():
        for part in torch.split(torch.arange(len(data)), BATCH):
            x, y = data.batch(part, place)
            right += int((winners(ask(x)) == y).sum())
    return 100 * right / len(data)


def _describe(card: Card, name: str, folder: Path, check: Check) -> None:
    """The card and the page of the training with the new hashes."""
    file = hashlib.sha256((folder / WEIGHTS).read_bytes()).hexdigest()
    # As the manifest of a run has it: of the network in single precision.
    tensors = weights_hash(_network(card, folder / WEIGHTS))
    new = {"weights": WEIGHTS, "file_sha256": file, "weights_sha256": tensors}
    content = card.content | new | {"name": name, "precision": "float16", "accuracy": check.as_json()}
    write_json(folder / CARD, content)
    (folder / PAGE).write_text(_page(card, name, new, check))


def _network(card: Card, weights: Path) -> nn.Module:
    return load_model(card.model, weights)


def _page(card: Card, name: str, new: dict[str, str], check: Check) -> str:
    """The page of the training, if there is one, under the new name."""
    path = card.folder / PAGE
    words = path.read_text() if path.is_file() else f"# {card.model}\n"
    for key in ("file_sha256", "weights_sha256"):
        if key in card.content:
            words = words.replace(str(card.get(key)), new[key])
    words = words.replace("`gamagat evaluate DIR", f"`gamagat evaluate {PREFIX}{name}")
    words = words.replace(", DIR being this folder.", ".")
    told = (
        f"not compared with the training's: {check.lacked}"
        if check.missing
        else f"{check.after:.2f} % right of {check.images} untouched test images, {check.before:.2f} before"
    )
    return f"{words.rstrip()}\n- kept in half precision, used in single: {told}\n"
