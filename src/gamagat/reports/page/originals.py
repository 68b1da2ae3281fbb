"""The untouched images of a run with their labels, if the data is still to be had."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from gamagat.engine.codec import Pixels
from gamagat.engine.ledger import CLEAN
from gamagat.engine.run import NOT_RUN, Run

# Reports reach data through the engine only; with this function it reads the data of a run again.
from gamagat.engine.source import data_of
from gamagat.errors import DataError, GamagatError


@dataclass(frozen=True, slots=True)
class Originals:
    """Labels in the order of the run's ids, the names of the classes, and the images by id."""

    labels: NDArray[np.int64]
    classes: tuple[str, ...]
    images: Callable[[list[int]], dict[int, Pixels]]


def find_originals(run: Run, data_dir: Path | None = None) -> Originals | str:
    """The data that the manifest names, or in a sentence why it is not to be had."""
    manifest = run.manifest
    try:
        data = data_of(manifest, data_dir)
        places = _places(run, data.ids.numpy())
        labels = data.labels.numpy()[places]
        _check(run, labels, tuple(data.shape))
    except (GamagatError, OSError) as error:
        return str(error)
    position = dict(zip(run.ids.tolist(), places.tolist(), strict=True))

    def images(ids: list[int]) -> dict[int, Pixels]:
        if not ids:
            return {}
        pixels, _ = data.batch(torch.tensor([position[id_] for id_ in ids]))
        return dict(zip(ids, pixels.numpy(), strict=True))

    return Originals(labels, tuple(data.classes), images)


def _places(run: Run, ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where each image of the run lies in the data."""
    order = np.argsort(ids)
    places = order[np.searchsorted(ids, run.ids, sorter=order).clip(0, len(ids) - 1)]
    if not np.array_equal(ids[places], run.ids):
        raise DataError(f"{run.manifest.data} now lacks images of the run; give the data with --data-dir")
    return np.asarray(places)


def _check(run: Run, labels: NDArray[np.int64], shape: tuple[int, ...]) -> None:
    """Refuse other data under the same name: it would not have the labels that the verdicts speak of."""
    clean = run.table(CLEAN)
    known = clean["fooled"] != NOT_RUN
    wrong = (labels != clean["prediction"]) != (clean["fooled"] == 1)
    if shape != tuple(run.manifest.shape) or bool((wrong & known).any()):
        raise DataError(
            f"{run.manifest.data} is not the data of the run any more; give the data with --data-dir"
        )
