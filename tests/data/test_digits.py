"""The built-in data set."""

import pytest
import torch

from gamagat.data.core import load_data
from gamagat.errors import ConfigError


def test_splits_are_disjoint_and_complete() -> None:
    ids = {
        split: set(load_data("digits", split).ids.tolist()) for split in ("test", "train", "val", "all-train")
    }
    assert {split: len(found) for split, found in ids.items()} == {
        "test": 450,
        "train": 1234,
        "val": 113,
        "all-train": 1347,
    }
    assert ids["train"] | ids["val"] == ids["all-train"]
    assert ids["test"] | ids["all-train"] == set(range(1797))


def test_pixels_use_the_whole_range() -> None:
    from sklearn.datasets import load_digits  # noqa: PLC0415 - slow to import, and needed here only

    data = load_data("digits")
    images, labels = data.batch(torch.arange(len(data)))
    assert data.shape == (1, 8, 8)
    assert data.read(torch.tensor([0])).dtype == torch.uint8
    assert (float(images.min()), float(images.max())) == (0.0, 1.0)
    original = torch.from_numpy(load_digits().images[::4]).float()[:, None] / 16
    assert (images - original).abs().max() <= 0.5 / 255 + 1e-6
    assert labels.bincount().min() > 30


def test_settings_for_attacks_come_along() -> None:
    data = load_data("digits")
    assert data.preset is None
    assert data.eps == {"linf": 0.2, "l2": 0.5}


def test_an_unknown_split_is_refused() -> None:
    with pytest.raises(ConfigError, match="all-train, test, train, val"):
        load_data("digits", "validation")
