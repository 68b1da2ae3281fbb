"""Data sets of the Hugging Face hub, through the optional package `datasets`."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

import torch

from gamagat.data.core import DATASETS, Dataset, numbered_classes
from gamagat.data.files import located
from gamagat.data.photos import Album, stable_ids
from gamagat.errors import ConfigError, DataError
from gamagat.pieces.types import Labels

LABEL_NAMES = (
    "label",
    "labels",
    "fine_label",
    "class",
    "target",
)  # which label to take when there are several


@DATASETS.register("hf")
def hf(source: str, split: str = "test", data_dir: Path | None = None) -> Dataset:
    """hf:NAME or hf:NAME@CONFIG, an image data set of the Hugging Face hub (pip install gamagat[hf]).

    The column of images and that of labels are found by their types. Sizes and ids as for `folder`, an id
    depending on `<split>/<position>`.
    """
    name, _, config = source.partition("@")
    table = _load(name, config or None, split, data_dir)
    image = _only_column(table, "Image", (), source)
    label = _only_column(table, "ClassLabel", LABEL_NAMES, source)
    stored = table.cast_column(image, type(table.features[image])(decode=False))
    labels = _labels(table, label, source)
    read, shape = Album(lambda position: _content(stored[position][image]), len(labels)).survey()
    ids = stable_ids(f"{split}/{position}" for position in range(len(labels)))
    classes = tuple(getattr(table.features[label], "names", None) or numbered_classes(labels))
    return Dataset(f"hf:{source}", read, labels, ids, classes, shape)


def _load(name: str, config: str | None, split: str, data_dir: Path | None) -> Any:
    """The table of one split; code that a data set brings along is never run."""
    try:
        import datasets  # noqa: PLC0415 - an optional dependency
    except ImportError as error:
        raise DataError("data sets of the hub need one more package: pip install gamagat[hf]") from error
    cache = None if data_dir is None else str(located(data_dir) / "huggingface")
    try:
        return datasets.load_dataset(name, config, split=split, cache_dir=cache)
    except (
        ValueError
    ) as error:  # a split or a configuration that does not exist; the message lists those that do
        raise ConfigError(f"hf:{name}, split {split!r}: {error}") from error
    except Exception as error:  # the network, the hub and the builders raise what they like
        raise DataError(f"hf:{name} cannot be loaded: {error}") from error


def _only_column(table: Any, kind: str, preferred: tuple[str, ...], source: str) -> str:
    """The column of this type; by its usual name if there are several, or if labels are bare numbers."""
    features: dict[str, str] = {key: type(feature).__name__ for key, feature in table.features.items()}
    typed = [key for key, found in features.items() if found == kind]
    if len(typed) == 1:
        return typed[0]
    usual = [key for key in preferred if key in (typed or features)]
    if usual:
        return usual[0]
    listed = ", ".join(f"{key} ({found})" for key, found in features.items())
    raise DataError(f"hf:{source} needs one column of type {kind}, its columns are: {listed}")


def _labels(table: Any, column: str, source: str) -> Labels:
    try:
        return torch.tensor(list(table[column]), dtype=torch.long)
    except (TypeError, ValueError, RuntimeError) as error:
        raise DataError(
            f"labels of hf:{source}, column {column!r}, are not whole numbers: {error}"
        ) from error


def _content(cell: dict[str, Any]) -> BytesIO | Path:
    """An undecoded image: its bytes, or the file that has them."""
    return BytesIO(cell["bytes"]) if cell["bytes"] is not None else Path(cell["path"])
