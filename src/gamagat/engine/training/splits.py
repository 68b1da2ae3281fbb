"""Which images train, which select, and which judge."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import torch

from gamagat.data.core import Dataset, load_data
from gamagat.errors import ConfigError, DataError

Split = Literal["train", "val", "test"]

HELD = "held-out"  # the split of images that are held out of others to judge by
LOOKED_AT = 32  # images by which two parts of the same ids and labels are told apart


def split_data(spec: str, which: Split, data_dir: Path | None = None) -> Dataset:
    """One part of a data set; where it has no such part, some of the others' images are held out for it.

    Data without any parts are divided class by class: every tenth image judges, the one after it selects.
    Data with training images alone lose every tenth of them to the part that is missing; where there is a
    part to select by and none to judge by, it judges, too.
    """
    train, val, test = _parts(spec, data_dir)
    if which == "test" and test is None and val is not None:
        return val
    held = [name for name, part in (("test", test), ("val", val)) if part is None]
    if which in held:
        return train.take(_every_tenth(train, held.index(which)))
    if which == "train":
        mine = torch.ones(len(train), dtype=torch.bool)
        for place, name in enumerate(held):
            if not (name == "test" and val is not None):
                mine &= ~_every_tenth(train, place)
        return train.take(mine) if not bool(mine.all()) else train
    found = val if which == "val" else test
    assert found is not None  # it is not among the held
    return found


def judging_split(spec: str, data_dir: Path | None = None) -> str:
    """The name of the split that judges a training, as `load_split` takes it."""
    _, val, test = _parts(spec, data_dir)
    return "test" if test is not None else "val" if val is not None else HELD


def load_split(spec: str, split: str, data_dir: str | Path | None = None) -> Dataset:
    """A split of a data set, or the images that trainings on it hold out to judge by."""
    if split == HELD:
        return split_data(spec, "test", None if data_dir is None else Path(data_dir))
    return load_data(spec, split, data_dir)


def _parts(spec: str, data_dir: Path | None) -> tuple[Dataset, Dataset | None, Dataset | None]:
    """The training images, and those to select and to judge by where there are some."""
    train = load_data(spec, "train", data_dir)
    val, test = (_part(spec, name, data_dir, train) for name in ("val", "test"))
    return train, val, test


def _part(spec: str, name: str, data_dir: Path | None, train: Dataset) -> Dataset | None:
    """The part of that name; None if there is none, or if it is the training images once more."""
    try:
        part = load_data(spec, name, data_dir)
    except ConfigError:  # a part that is there and damaged is no part that is missing
        return None
    if _same(part, train):
        return None
    _check_alike(part, train, name)
    return part


def _same(part: Dataset, train: Dataset) -> bool:
    """Whether both have the same images; ids may be mere positions, which other images have as well."""
    if not (torch.equal(part.ids, train.ids) and torch.equal(part.labels, train.labels)):
        return False
    first = torch.arange(min(LOOKED_AT, len(train)))
    return part.shape == train.shape and torch.equal(part.read(first), train.read(first))


def _check_alike(part: Dataset, train: Dataset, name: str) -> None:
    """Refuse a part whose labels mean other classes, or whose images have another form."""
    both = list(zip(part.classes, train.classes, strict=False))
    if odd := next(((theirs, ours) for theirs, ours in both if theirs != ours), None):
        raise DataError(
            f"class {part.classes.index(odd[0])} of {train.name!r} is {odd[1]!r} in split 'train' and "
            f"{odd[0]!r} in split {name!r}; give both the same classes (an empty folder will do)"
        )
    if int(part.labels.max()) >= len(train.classes):
        raise DataError(
            f"split {name!r} of {train.name!r} has {len(part.classes)} classes, and split 'train' the first "
            f"{len(train.classes)} of them; leave out what is not trained on"
        )
    if part.shape != train.shape:
        raise DataError(
            f"images of {train.name!r} are {train.shape} (channel, height, width) in split 'train' and "
            f"{part.shape} in split {name!r}; bring all to one size, and all to grey or to colour"
        )


def _every_tenth(data: Dataset, first: int) -> torch.Tensor:
    """Every tenth, counted class by class: where ten classes take turns, every tenth of all is of one."""
    chosen = torch.zeros(len(data), dtype=torch.bool)
    chosen[data.labels.argsort(stable=True)[first::10]] = True
    return chosen
