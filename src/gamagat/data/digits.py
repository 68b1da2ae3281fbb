"""Small handwritten digits that come with scikit-learn: nothing to download."""

import numpy as np
import torch

from gamagat.data.core import DATASETS, Dataset, check_split, from_tensors

EPS = {"linf": 0.2, "l2": 0.5}
SPLITS = ("test", "train", "val", "all-train")


@DATASETS.register("digits")
def digits(split: str = "test") -> Dataset:
    """Handwritten digits, 8x8 grey, built in: the set for first tries and tests.

    An image's id is its position in scikit-learn's order. Every fourth image is `test` (450); of the other
    1,347 (`all-train`), those with id % 16 == 1 are `val` (113), the rest is `train` (1,234).
    """
    check_split("digits", split, SPLITS)
    from sklearn.datasets import load_digits  # noqa: PLC0415 - takes a second, and only this data set needs it

    bunch = load_digits()
    pixels = np.rint(bunch.images * (255 / 16)).astype(np.uint8)
    whole = from_tensors(
        torch.from_numpy(pixels)[:, None],
        name="digits",
        labels=torch.from_numpy(bunch.target).long(),
        classes=map(str, range(10)),
        eps=EPS,
    )
    return whole.take(_in_split(whole.ids, split))


def _in_split(ids: torch.Tensor, split: str) -> torch.Tensor:
    """Which images belong to the split, as a mask."""
    test, val = ids % 4 == 0, ids % 16 == 1
    return {"test": test, "val": val, "train": ~test & ~val, "all-train": ~test}[split]
