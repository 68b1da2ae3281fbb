"""Which images train, which select, and which judge."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import torch

from gamagat.data.core import Dataset, load_data
from gamagat.errors import ConfigError, DataError

Split = Literal["train", "val", "test"]


def split_data(spec: str, which: Split, data_dir: Path | None = None) -> Dataset:
    """One part of a data set; where it has no such part, some of the others' images are held out for it.

    Data without any parts are divided by position: every tenth image judges, the one after it selects. Data
    with training images alone lose every tenth of them to the part that is missing; where there is a part to
    select by and none to judge by, it judges, too.
    """
    train = load_data(spec, "train", data_dir)
    val, test = (_part(spec, name, data_dir, train) for name in ("val", "test"))
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


def _part(spec: str, name: str, data_dir: Path | None, train: Dataset) -> Dataset | None:
    """The part of that name; None if there is none, or if it is the training images once more."""
    try:
        part = load_data(spec, name, data_dir)
    except (ConfigError, DataError):
        return None
    return None if torch.equal(part.ids, train.ids) else part


def _every_tenth(data: Dataset, first: int) -> torch.Tensor:
    return torch.arange(len(data)) % 10 == first
