"""Images and labels from a numpy file."""

import zipfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gamagat.data.core import DATASETS, Dataset, check_unit, from_tensors
from gamagat.data.files import listing, located
from gamagat.errors import DataError, SplitError

Array = NDArray[Any]

CHANNELS = (1, 3)
NAMES = {"images": ("images", "x"), "labels": ("labels", "y"), "ids": ("ids",), "classes": ("classes",)}


@DATASETS.register("arrays")
def arrays(source: str, split: str = "test") -> Dataset:
    """arrays:FILE.npz with images and labels (or x and y, or x_<split> and y_<split>).

    Images are uint8, or floats in [0, 1], as (count, height, width), with the channels last or second.
    Optional: `ids`, one whole number per image (else its position), and `classes`, a name per class.
    """
    path = located(source)
    stored = _load(path, split)
    return from_tensors(
        _pixels(channels_second(stored["images"], str(path)), path),
        name=f"arrays:{path.name}",
        labels=_whole_numbers(stored["labels"], f"labels of {path}"),
        ids=_unique(stored["ids"], path) if "ids" in stored else None,
        classes=_text(stored["classes"]) if "classes" in stored else None,
    )


def _load(path: Path, split: str) -> dict[str, Array]:
    """The arrays of this split under their plain names; others are not even unpacked."""
    if not path.is_file():
        raise DataError(f"there is no file {path}; write arrays:FILE.npz")
    _check_archive(path)
    try:
        with np.load(path, allow_pickle=False) as stored:
            return {name: _array(stored, key) for name, key in _keys(stored.files, split, path).items()}
    except DataError:
        raise
    except Exception as error:  # what a damaged archive makes zipfile and numpy raise has no end
        raise DataError(f"{path} is damaged or holds Python objects: {error}") from error


def _check_archive(path: Path) -> None:
    with listing(path), path.open("rb") as stream:
        zipped = zipfile.is_zipfile(stream)
    if not zipped:
        raise DataError(
            f"{path} is not an .npz file; write one with numpy.savez(FILE, images=..., labels=...)"
        )


def _array(stored: Any, key: str) -> Array:
    """One member; numpy hands over the bytes of what is no array."""
    value = stored[key]
    if not isinstance(value, np.ndarray):
        raise ValueError(f"{key} is not an array")
    return value


def _keys(present: Collection[str], split: str, path: Path) -> dict[str, str]:
    """Which of the stored arrays are the images, the labels, the ids and the classes of this split."""
    keys = {}
    for name, aliases in NAMES.items():
        candidates = [f"{alias}_{split}" for alias in aliases] + list(aliases)
        found = next((key for key in candidates if key in present), None)
        if found is not None:
            keys[name] = found
        elif name in ("images", "labels"):
            begun = any(key.endswith(f"_{split}") for key in present)
            raise (DataError if begun else SplitError)(
                f"{path} has no {name} of split {split!r}: looked for {', '.join(candidates)}, "
                f"found {', '.join(present) or 'nothing'}"
            )
    return keys


def channels_second(images: Array, where: str) -> Array:
    """Images as (count, channel, height, width), from any layout that can be told from the sizes alone."""
    if images.ndim == 3:
        return images[:, None]
    shape, want = images.shape, "store (count, channel, height, width) with 1 or 3 channels"
    if images.ndim != 4:
        raise DataError(f"images in {where} have the shape {shape}; {want}")
    second, last = shape[1] in CHANNELS, shape[3] in CHANNELS
    if second == last:
        guess = (
            "either the second or the last axis may be the channels" if second else "no axis is the channels"
        )
        raise DataError(
            f"images in {where} have the shape {shape}: {guess}; {want} and other sizes than 1 or 3"
        )
    return images if second else np.moveaxis(images, 3, 1)


def _pixels(images: Array, path: Path) -> Tensor:
    """uint8 as it is, floats as float32 in [0, 1]."""
    if images.dtype == np.uint8:
        return torch.from_numpy(np.ascontiguousarray(images))
    if images.dtype.kind != "f":
        raise DataError(f"images in {path} are {images.dtype}; store uint8 in 0..255 or floats in [0, 1]")
    pixels = torch.from_numpy(np.ascontiguousarray(images, np.float32))
    check_unit(pixels, str(path))
    return pixels


def _whole_numbers(values: Array, what: str) -> Tensor:
    """One int64 per image; a column of them will do."""
    if values.ndim == 2 and values.shape[1] > 1:
        raise DataError(f"{what} have the shape {values.shape}; if they are one-hot, store labels.argmax(1)")
    if values.dtype.kind not in "iu" or values.ndim == 0 or values.size != len(values):
        raise DataError(
            f"{what} must be one whole number per image, got {values.dtype} of shape {values.shape}"
        )
    return torch.from_numpy(values.reshape(-1).astype(np.int64))


def _unique(values: Array, path: Path) -> Tensor:
    """The stored ids, each of which names one image only."""
    ids = _whole_numbers(values, f"ids of {path}")
    if len(set(ids.tolist())) < len(ids):
        raise DataError(f"ids of {path} are not unique; each image needs its own")
    return ids


def _text(names: Array) -> list[str]:
    return [
        name.decode(errors="backslashreplace") if isinstance(name, bytes) else str(name)
        for name in names.reshape(-1).tolist()
    ]
