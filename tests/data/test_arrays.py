"""Images and labels from a numpy file."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gamagat.data.arrays import channels_second
from gamagat.data.core import Dataset, load_data
from gamagat.errors import DataError

RNG = np.random.default_rng(0)
BYTES = RNG.integers(0, 256, (4, 3, 6, 5), np.uint8)
LABELS = np.array([0, 2, 1, 2])


def load(tmp_path: Path, split: str = "test", **stored: Any) -> Dataset:
    np.savez(tmp_path / "set.npz", **stored)
    return load_data(f"arrays:{tmp_path / 'set.npz'}", split)


@pytest.mark.parametrize(
    ("images", "labels"),
    [("images", "labels"), ("x", "y"), ("x_test", "y_test"), ("images", "y"), ("images_test", "labels_test")],
)
def test_the_usual_names_are_understood(tmp_path: Path, images: str, labels: str) -> None:
    data = load(tmp_path, **{images: BYTES, labels: LABELS})
    assert np.array_equal(data.read(torch.arange(4)).numpy(), BYTES)
    assert data.labels.tolist() == LABELS.tolist()
    assert data.labels.dtype == torch.int64
    assert data.ids.tolist() == [0, 1, 2, 3]
    assert data.classes == ("0", "1", "2")


def test_the_split_chooses_among_names(tmp_path: Path) -> None:
    stored = {"x_train": BYTES[:3], "y_train": LABELS[:3], "x_test": BYTES[3:], "y_test": LABELS[3:]}
    assert len(load(tmp_path, "train", **stored)) == 3
    assert len(load(tmp_path, "test", **stored)) == 1
    with pytest.raises(DataError, match=r"no images of split 'val': looked for images_val.*found x_train"):
        load(tmp_path, "val", **stored)


def test_ids_and_classes_are_taken_along(tmp_path: Path) -> None:
    names = np.array(["cat", "dog", "owl", "bee"])
    data = load(tmp_path, images=BYTES, labels=LABELS, ids=np.array([9, 7, 5, 3]), classes=names)
    assert data.ids.tolist() == [9, 7, 5, 3]
    assert data.classes == ("cat", "dog", "owl", "bee")
    assert load(tmp_path, images=BYTES, labels=LABELS, classes=names.astype("S")).classes == data.classes


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_floats_become_float32(tmp_path: Path, dtype: Any) -> None:
    images, _ = load(tmp_path, x=RNG.random((4, 6, 5)).astype(dtype), y=LABELS).batch(torch.arange(4))
    assert images.dtype == torch.float32
    assert images.shape == (4, 1, 6, 5)


def test_a_column_of_labels_will_do(tmp_path: Path) -> None:
    assert load(tmp_path, x=BYTES, y=LABELS[:, None].astype(np.uint8)).labels.tolist() == LABELS.tolist()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -0.1, 1.5])
def test_pixels_out_of_range_are_refused_at_load(tmp_path: Path, bad: float) -> None:
    images = RNG.random((4, 6, 5))
    images[2, 3, 4] = bad
    with pytest.raises(DataError, match=r"set.npz' must lie in \[0, 1\]"):
        load(tmp_path, x=images, y=LABELS)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x": BYTES.astype(np.int32)}, "are int32; store uint8"),
        ({"x": BYTES.reshape(4, -1)}, r"shape \(4, 90\); store"),
        ({"x": BYTES[:0], "y": LABELS[:0]}, "is empty"),
        ({"y": LABELS[:3]}, "4 images but 3 labels"),
        ({"y": np.eye(3)[LABELS]}, r"one-hot, store labels\.argmax"),
        ({"y": LABELS.astype(float)}, "one whole number per image, got float64"),
        ({"y": np.int64(3)}, "one whole number per image"),
        ({"y": LABELS - 1}, "run from -1 to 1"),
        ({"classes": np.array(["a", "b"])}, "run from 0 to 2, but its 2 classes"),
        ({"ids": np.array([1, 2, 3, 1])}, "not unique"),
        ({"ids": np.array([1, 2])}, "4 labels but 2 ids"),
        ({"x": np.array([None, object()])}, "holds Python objects"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        load(tmp_path, **({"x": BYTES, "y": LABELS} | changes))


def test_missing_labels_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no labels of split 'test'"):
        load(tmp_path, x=BYTES)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no file .*none\.npz"):
        load_data(f"arrays:{tmp_path / 'none.npz'}")


def test_another_kind_of_file_is_named(tmp_path: Path) -> None:
    np.save(tmp_path / "one.npy", BYTES)
    with pytest.raises(DataError, match=r"one\.npy is not an \.npz file"):
        load_data(f"arrays:{tmp_path / 'one.npy'}")


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "set.npz"
    np.savez_compressed(path, x=BYTES, y=LABELS)
    raw = bytearray(path.read_bytes())
    raw[60:120] = bytes(60)
    path.write_bytes(raw)
    with pytest.raises(DataError, match=r"set\.npz is damaged"):
        load_data(f"arrays:{path}")


sizes = st.integers(1, 9)


@given(sizes, st.sampled_from([1, 3]), sizes, sizes)
def test_every_layout_comes_out_with_the_channels_second(
    count: int, channels: int, height: int, width: int
) -> None:
    expected = np.arange(count * channels * height * width).reshape(count, channels, height, width)
    for given_layout, other in ((expected, width), (np.moveaxis(expected, 1, 3), height)):
        if other in (1, 3):
            with pytest.raises(DataError, match="may be the channels"):
                channels_second(given_layout, "x")
        else:
            assert np.array_equal(channels_second(given_layout, "x"), expected)
    if channels == 1:
        assert np.array_equal(channels_second(expected[:, 0], "x"), expected)


@given(st.lists(st.integers(0, 9), max_size=5))
def test_other_shapes_are_refused_with_a_recipe(shape: list[int]) -> None:
    try:
        found = channels_second(np.zeros(shape), "x").shape
    except DataError as error:
        assert "store (count, channel, height, width)" in str(error)  # noqa: PT017 - either outcome is right
    else:
        assert len(found) == 4
        assert found[1] in (1, 3)
