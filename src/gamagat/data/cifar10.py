"""CIFAR-10 from its binary or its Python version, with the paper's validation images."""

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gamagat.data.cifar10_files import read_batches
from gamagat.data.core import DATASETS, Dataset, check_split, from_tensors
from gamagat.data.files import data_root

EPS = {"linf": 8 / 255, "l2": 0.5}
SPLITS = ("test", "train", "val", "all-train")
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
TEST_BATCHES = ("test_batch",)
TRAIN_BATCHES = tuple(f"data_batch_{number}" for number in range(1, 6))
TRAIN_IDS_FROM = 10_000  # the test images have the ids below
VAL_PER_CLASS = 100


@DATASETS.register("cifar10")
def cifar10(split: str = "test", data_dir: Path | None = None) -> Dataset:
    """Small photographs of ten classes, 32x32 colour; downloaded when absent.

    `test` has 10,000 images; `val` is the first 100 of each class among the 50,000 of `all-train`, `train`
    the other 49,000. A test image's id is its position in the test batch; a training image's is 10,000 plus
    its position in the five training batches.
    """
    check_split("cifar10", split, SPLITS)
    names = TEST_BATCHES if split == "test" else TRAIN_BATCHES
    images, labels = read_batches(data_root(data_dir), names)
    whole = from_tensors(
        torch.from_numpy(images),
        name="cifar10",
        labels=torch.from_numpy(labels),
        ids=torch.arange(len(labels)) + (0 if split == "test" else TRAIN_IDS_FROM),
        classes=CLASSES,
        preset="cifar10",
        eps=EPS,
    )
    return whole if split in ("test", "all-train") else whole.take(_part(labels, split))


def _part(labels: NDArray[np.int64], split: str) -> Tensor:
    """Which training images belong to `val` or to `train`, as a mask."""
    val = np.zeros(len(labels), bool)
    for label in range(len(CLASSES)):
        val[np.flatnonzero(labels == label)[:VAL_PER_CLASS]] = True
    return torch.from_numpy(val if split == "val" else ~val)
