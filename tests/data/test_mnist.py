"""MNIST, from tiny files in every official form and from the real ones."""

import gzip
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from numpy.typing import NDArray

from gamagat.data import mnist as module
from gamagat.data.core import load_data
from gamagat.data.idx import parse_idx
from gamagat.errors import ConfigError, DataError

COUNTS = {"t10k": 3, "train": 7}
FORMS = ("{}-images-idx3-ubyte", "{}-images.idx3-ubyte", "{}-images-idx3-ubyte.gz", "{}-images.idx3-ubyte.gz")


def to_idx(array: NDArray[np.uint8]) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def images(part: str) -> NDArray[np.uint8]:
    """Images whose pixels all equal their position."""
    return np.arange(COUNTS[part], dtype=np.uint8).repeat(784).reshape(-1, 28, 28)


def write(folder: Path, part: str, form: str = FORMS[0]) -> Path:
    """The two files of a part; returns the file of images."""
    folder.mkdir(parents=True, exist_ok=True)
    pack: Callable[[bytes], bytes] = gzip.compress if form.endswith(".gz") else bytes
    path = folder / form.format(part)
    path.write_bytes(pack(to_idx(images(part))))
    labels = folder / form.format(part).replace("images", "labels").replace("idx3", "idx1")
    labels.write_bytes(pack(to_idx(np.arange(COUNTS[part], dtype=np.uint8))))
    return path


@pytest.fixture(autouse=True)
def small(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.node.get_closest_marker("data") is None:
        monkeypatch.setattr(module, "COUNTS", COUNTS)
        monkeypatch.setattr(module, "VAL", 2)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("place", module.PLACES)
def test_every_official_form_is_found(tmp_path: Path, form: str, place: str) -> None:
    write(tmp_path / place, "t10k", form)
    data = load_data("mnist", data_dir=tmp_path)
    assert data.labels.tolist() == [0, 1, 2]
    assert np.array_equal(data.read(torch.arange(3)).numpy()[:, 0], images("t10k"))


def test_the_test_files_are_enough_for_the_test_split(tmp_path: Path, downloads: list[str]) -> None:
    write(tmp_path, "t10k")
    assert len(load_data("mnist", "test", tmp_path)) == 3
    assert downloads == []


def test_content_decides_what_is_gzipped(tmp_path: Path) -> None:
    path = write(tmp_path, "t10k", FORMS[2])
    path.write_bytes(gzip.decompress(path.read_bytes()))
    assert len(load_data("mnist", data_dir=tmp_path)) == 3


def test_ids_are_unique_over_all_splits(tmp_path: Path) -> None:
    write(tmp_path, "t10k")
    write(tmp_path, "train")
    ids = {split: load_data("mnist", split, tmp_path).ids.tolist() for split in module.SPLITS}
    assert ids["test"] == [0, 1, 2]
    assert ids["all-train"] == [3, 4, 5, 6, 7, 8, 9]
    assert sorted(ids["train"] + ids["val"]) == ids["all-train"]
    assert len(ids["val"]) == 2


def test_the_split_leaves_the_global_random_state_alone(tmp_path: Path) -> None:
    write(tmp_path, "train")
    before = np.random.get_state()[1].copy()  # type: ignore[index]
    load_data("mnist", "train", tmp_path)
    assert np.array_equal(before, np.random.get_state()[1])  # type: ignore[index]


def test_missing_files_are_named_with_their_folder(tmp_path: Path, downloads: list[str]) -> None:
    with pytest.raises(DataError) as caught:
        load_data("mnist", data_dir=tmp_path)
    assert "t10k-images-idx3-ubyte.gz, t10k-labels-idx1-ubyte.gz" in str(caught.value)
    assert str(tmp_path / "mnist") in str(caught.value)
    assert len(downloads) == len(module.MIRRORS)


def test_only_what_is_missing_is_downloaded(tmp_path: Path, downloads: list[str]) -> None:
    write(tmp_path, "t10k")
    (tmp_path / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(DataError, match=r"^t10k-labels-idx1-ubyte\.gz: not found"):
        load_data("mnist", data_dir=tmp_path)
    assert all("labels" in url for url in downloads)


def test_a_download_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(remotes: list[module.Remote], folder: Path) -> list[Path]:
        write(folder, "t10k", FORMS[2])
        return [folder / remote.name for remote in remotes]

    monkeypatch.setattr(module, "download", fetch)
    data = load_data("mnist", data_dir=tmp_path)
    assert np.array_equal(data.read(torch.arange(3)).numpy()[:, 0], images("t10k"))
    assert (tmp_path / "mnist" / "t10k-images-idx3-ubyte.gz").is_file()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda good: b"", "starts with ,"),
        (lambda good: b"<html>" + good, "starts with 3c68746d"),
        (lambda good: good[:10], "inside its header"),
        (lambda good: good[:-1], "promises 2352 bytes, 2351 follow"),
        (lambda good: good + b"x", "promises 2352 bytes, 2353 follow"),
        (lambda good: to_idx(images("train")), r"size \(7, 28, 28\), expected \(3, 28, 28\)"),
        (lambda good: to_idx(np.zeros(3, np.uint8)), "starts with 00000801"),
        (lambda good: gzip.compress(good)[:-9], "damaged"),
        (lambda good: gzip.compress(good)[:30] + b"\xff" * 40, "damaged"),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, damage: Callable[[bytes], bytes], message: str) -> None:
    path = write(tmp_path, "t10k")
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DataError, match=message) as caught:
        load_data("mnist", data_dir=tmp_path)
    assert str(path) in str(caught.value)


def test_an_unknown_split_is_refused_before_anything_is_read(downloads: list[str]) -> None:
    with pytest.raises(ConfigError, match="all-train, test, train, val"):
        load_data("mnist", "dev")
    assert downloads == []


@given(arrays(np.uint8, array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=6)))
def test_idx_is_read_back_as_it_was_written(array: NDArray[np.uint8]) -> None:
    assert np.array_equal(parse_idx(to_idx(array), "x", array.ndim), array)


@given(st.binary(max_size=64), st.sampled_from([1, 3]))
def test_any_other_bytes_are_refused_politely(content: bytes, dimensions: int) -> None:
    header = bytes([0, 0, 8, dimensions])
    for candidate in (content, header + content):
        try:
            parse_idx(candidate, "x", dimensions)
        except DataError as error:
            assert "x is damaged" in str(error)  # noqa: PT017 - reading without an error is right as well


@pytest.mark.data
def test_the_real_files_have_the_official_counts(shared: Path) -> None:
    folder = shared / "data" / "mnist"
    data = {split: load_data("mnist", split, folder) for split in module.SPLITS}
    assert {split: len(part) for split, part in data.items()} == {
        "test": 10_000,
        "train": 50_000,
        "val": 10_000,
        "all-train": 60_000,
    }
    train, val = set(data["train"].ids.tolist()), set(data["val"].ids.tolist())
    assert not train & val
    assert train | val == set(data["all-train"].ids.tolist()) == set(range(10_000, 70_000))
    assert data["test"].labels[:8].tolist() == [7, 2, 1, 0, 4, 1, 4, 9]
    assert data["test"].ids[:3].tolist() == [0, 1, 2]


@pytest.mark.data
def test_the_split_is_that_of_a_seeded_shuffle(shared: Path) -> None:
    folder = shared / "data"  # the files lie one folder down
    order = np.random.RandomState(0).permutation(60_000)
    val, whole = load_data("mnist", "val", folder), load_data("mnist", "all-train", folder)
    assert val.ids.tolist() == (order[50_000:] + 10_000).tolist()
    some = torch.arange(0, 10_000, 997)
    assert torch.equal(val.read(some), whole.read(val.ids[some] - 10_000))
