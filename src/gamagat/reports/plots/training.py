"""Plots of a training: losses and validation accuracies over its epochs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gamagat.engine.training.card import selection_told
from gamagat.engine.training.run import METRICS, RUN
from gamagat.errors import RunError
from gamagat.reports.plots.core import PLOTS, Axis, Curve, Mark, Panel, Picture, Plot, percent

CARD = "card.json"
FEW = 12  # epochs that have a tick each: there is no half of one
NAMES = {"ce": "cross-entropy", "loss": "whole loss"}


@PLOTS.register("epochs")
def epochs() -> Plot:
    """TRAINING...: training losses and validation accuracies over epochs (figure S2)."""
    what, makes = "the folder of a training", "gamagat train RECIPE --model MODEL --out DIR"
    return lambda subject: epochs_picture(subject.folders(what, makes))


def epochs_picture(folders: Sequence[Path]) -> Picture:
    """Two panels for each training, one below the other."""
    titles = [_title(folder, _told(folder)) for folder in folders]
    panels = [
        panel
        for folder, title in zip(folders, titles, strict=True)
        for panel in _panels(folder, title if titles.count(title) == 1 else f"{title} ({folder})")
    ]
    names = "-".join(folder.resolve().name for folder in folders)
    note = "Accuracies are of validation images."
    return Picture("epochs", "Training over epochs", tuple(panels), names, note, columns=2)


def _panels(folder: Path, title: str) -> Iterator[Panel]:
    rows, told = read_metrics(folder), _told(folder)
    marks = _marks(rows, told)
    last = max(row["epoch"] + 1 for row in rows)
    axis = Axis("epoch", ticks=tuple(map(float, range(1, last + 1))) if last <= FEW else ())
    losses = [_series(rows, "train", name) for name in _names(rows, "train") if not name.endswith("accuracy")]
    losses += [_series(rows, "val", name) for name in _names(rows, "val") if name.endswith("loss")]
    labels = _labels(told)
    right = [
        replace(_series(rows, "val", name), label=labels.get(name, name))
        for name in _names(rows, "val")
        if not name.endswith("loss")
    ]
    yield Panel(f"{title}: training", axis, Axis("mean loss", low=0.0), tuple(losses), marks)
    yield Panel(f"{title}: validation", axis, percent("validation accuracy (%)", right), tuple(right), marks)


def _labels(told: Mapping[str, Any]) -> dict[str, str]:
    """What accuracies are called: the attack behind `selection` by its name, and which one selects."""
    by, attack = selection_told(told)
    names = {"selection": attack or "unnamed attack"}
    return names | {by: f"{names.get(by, by)}, selects the epoch"}


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """The rows that a training left, an epoch each."""
    path = folder / METRICS
    try:
        rows = [dict(json.loads(line)) for line in path.read_text().splitlines()]
        _ = [(row["epoch"], row["train"].items(), row["val"].items()) for row in rows]
    except FileNotFoundError:
        raise RunError(
            f"{folder} holds no training: there is no {METRICS} in it; give the folder of gamagat train --out"
        ) from None
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise RunError(f"cannot read {path}: {error}; train again, or copy it anew") from None
    if not rows:
        raise RunError(f"{path} holds no epoch yet; let the training go on first")
    return rows


def _names(rows: Sequence[Mapping[str, Any]], part: str) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row[part]))


def _series(rows: Sequence[Mapping[str, Any]], part: str, name: str) -> Curve:
    """One measure over the epochs that have it, counted from 1 as people do."""
    found = [(row["epoch"] + 1, row[part][name]) for row in rows if name in row[part]]
    label = NAMES.get(name, name)
    return Curve(label, tuple(float(x) for x, _ in found), tuple(float(y) for _, y in found))


def _told(folder: Path) -> dict[str, Any]:
    """What the card says, or else the settings; nothing if neither is there."""
    for name in (CARD, RUN):
        try:
            return dict(json.loads((folder / name).read_text()))
        except (OSError, ValueError, TypeError):
            continue
    return {}


def _title(folder: Path, told: Mapping[str, Any]) -> str:
    """Recipe, network and data."""
    if "recipe" not in told:
        return folder.resolve().name
    recipe = str(told["recipe"]).split(":", maxsplit=1)[0]
    return f"{recipe}, {str(told.get('model')).rpartition('/')[2]} on {told.get('data')}"


def _marks(rows: Sequence[Mapping[str, Any]], told: Mapping[str, Any]) -> tuple[Mark, ...]:
    """The epoch that was kept, and the first that had collapsed."""
    kept = told.get("selected_epoch")
    fallen = [row["epoch"] for row in rows if row.get("collapsed")]
    marks = [] if kept is None else [Mark(f"weights kept: {kept + 1}", kept + 1.0)]
    return (*marks, *(Mark(f"collapse: {epoch + 1}", epoch + 1.0) for epoch in fallen[:1]))
