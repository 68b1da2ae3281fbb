"""CIFAR-10, from tiny batches in every official form and from a real one."""

import hashlib
import io
import os
import pickle
import runpy
import struct
import sys
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from gamagat.data import cifar10 as splits
from gamagat.data import cifar10_files as module
from gamagat.data.core import load_data
from gamagat.errors import ConfigError, DataError

NAMES = ("test_batch", *splits.TRAIN_BATCHES)
SIZE = 20


def content(name: str) -> tuple[NDArray[np.uint8], list[int]]:
    """Pixels (image, plane, row, column) and labels of a tiny batch."""
    rng = np.random.default_rng(NAMES.index(name))
    return rng.integers(0, 256, (SIZE, 3, 32, 32), np.uint8), rng.integers(0, 10, SIZE).tolist()


def binary(name: str) -> bytes:
    images, labels = content(name)
    rows = [bytes([label]) + image.tobytes() for image, label in zip(images, labels, strict=True)]
    return b"".join(rows)


def pickled(name: str) -> bytes:
    """A batch opcode by opcode as Python 2 and its numpy wrote it: protocol 2, byte strings."""
    images, labels = content(name)
    empty = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
    dtype = b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    shape = b"K" + bytes([SIZE]) + b"M\x00\x0c\x86"
    pixels = b"T" + struct.pack("<I", images.size) + images.tobytes()
    array = empty + b"(K\x01" + shape + dtype + b"\x89" + pixels + b"tb"
    numbers = b"](" + b"".join(b"K" + bytes([label]) for label in labels) + b"e"
    return b"\x80\x02}(U\x04data" + array + b"U\x06labels" + numbers + b"u."


MAKERS: dict[str, Callable[[str], bytes]] = {"": pickled, ".bin": binary}


@pytest.fixture(autouse=True)
def small(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The checksums are those of the tiny batches, except where real ones are read."""
    if request.node.get_closest_marker("data") is None:
        for version in ("BINARY", "PYTHON"):
            monkeypatch.setattr(module, version, tiny(getattr(module, version)))
        monkeypatch.setattr(module, "VERSIONS", (module.BINARY, module.PYTHON))


def tiny(version: module.Version) -> module.Version:
    make = MAKERS[version.suffix]
    return replace(version, digests={n: hashlib.new(version.algorithm, make(n)).hexdigest() for n in NAMES})


def unpack(root: Path, version: module.Version, names: tuple[str, ...] = NAMES) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    for name in names:
        (root / f"{name}{version.suffix}").write_bytes(MAKERS[version.suffix](name))
    return root


def pack(path: Path, version: module.Version, names: tuple[str, ...] = NAMES) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as tar:
        for name in names:
            member = tarfile.TarInfo(f"{version.folder}/{name}{version.suffix}")
            raw = MAKERS[version.suffix](name)
            member.size = len(raw)
            tar.addfile(member, io.BytesIO(raw))
    return path


def assert_test_batch(root: Path) -> None:
    data = load_data("cifar10", data_dir=root)
    images, labels = content("test_batch")
    assert np.array_equal(data.read(torch.arange(SIZE)).numpy(), images)
    assert data.labels.tolist() == labels
    assert data.ids.tolist() == list(range(SIZE))


@pytest.mark.parametrize("place", module.PLACES)
@pytest.mark.parametrize("version", ["BINARY", "PYTHON"])
def test_both_versions_are_found_unpacked(tmp_path: Path, version: str, place: str) -> None:
    form: module.Version = getattr(module, version)
    unpack(tmp_path / "in folder" / place / form.folder, form, ("test_batch",))
    unpack(tmp_path / "directly" / place, form, ("test_batch",))
    assert_test_batch(tmp_path / "in folder")
    assert_test_batch(tmp_path / "directly")


@pytest.mark.parametrize("version", ["BINARY", "PYTHON"])
def test_both_versions_are_read_inside_their_archives(tmp_path: Path, version: str) -> None:
    form: module.Version = getattr(module, version)
    pack(tmp_path / form.archive.name, form)
    assert_test_batch(tmp_path)
    assert len(load_data("cifar10", "all-train", tmp_path)) == 5 * SIZE


def test_the_test_batch_is_enough_for_the_test_split(tmp_path: Path, downloads: list[str]) -> None:
    unpack(tmp_path, module.BINARY, ("test_batch",))
    assert_test_batch(tmp_path)
    assert downloads == []


def test_training_batches_are_joined_in_their_order(tmp_path: Path) -> None:
    unpack(tmp_path, module.BINARY)
    data = load_data("cifar10", "all-train", tmp_path)
    expected = np.concatenate([content(name)[0] for name in splits.TRAIN_BATCHES])
    assert np.array_equal(data.read(torch.arange(len(data))).numpy(), expected)
    assert data.ids.tolist() == list(range(10_000, 10_000 + 5 * SIZE))


def test_validation_is_the_first_images_of_each_class(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(splits, "VAL_PER_CLASS", 2)
    unpack(tmp_path, module.BINARY)
    whole, train, val = (load_data("cifar10", split, tmp_path) for split in ("all-train", "train", "val"))
    assert sorted(train.ids.tolist() + val.ids.tolist()) == whole.ids.tolist()
    assert val.labels.bincount().tolist() == [2] * 10
    for label in range(10):
        of_class = whole.ids[whole.labels == label]
        assert val.ids[val.labels == label].tolist() == of_class[:2].tolist()
    assert torch.equal(val.read(torch.arange(20)), whole.read(val.ids - 10_000))


@pytest.mark.parametrize("version", ["BINARY", "PYTHON"])
def test_a_changed_batch_is_named(tmp_path: Path, version: str) -> None:
    form: module.Version = getattr(module, version)
    path = unpack(tmp_path, form, ("test_batch",)) / f"test_batch{form.suffix}"
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    with pytest.raises(DataError, match=rf"{path} is damaged or not the official file"):
        load_data("cifar10", data_dir=tmp_path)


class _Malicious:
    def __reduce__(self) -> tuple[Callable[..., object], tuple[str]]:
        return os.mkdir, ("executed",)


def test_a_strange_pickle_is_not_even_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "test_batch").write_bytes(pickle.dumps(_Malicious()))
    with pytest.raises(DataError, match="not the official file"):
        load_data("cifar10", data_dir=tmp_path)
    assert not (tmp_path / "executed").exists()


def test_a_strange_pickle_cannot_call_anything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=r"asks for \w+\.mkdir"):
        module.read_pickle(pickle.dumps(_Malicious()))
    assert not (tmp_path / "executed").exists()


def test_a_truncated_archive_is_named(tmp_path: Path) -> None:
    path = pack(tmp_path / module.BINARY.archive.name, module.BINARY)
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(DataError, match=rf"{path} is damaged"):
        load_data("cifar10", data_dir=tmp_path)


def test_an_archive_of_something_else_is_named(tmp_path: Path) -> None:
    path = pack(tmp_path / module.BINARY.archive.name, module.BINARY, ("data_batch_1",))
    with pytest.raises(DataError, match=rf"{path} has no cifar-10-batches-bin/test_batch\.bin"):
        load_data("cifar10", data_dir=tmp_path)


def test_without_a_network_the_archive_and_its_folder_are_named(tmp_path: Path, downloads: list[str]) -> None:
    with pytest.raises(DataError, match=rf"cifar-10-binary\.tar\.gz: not found.*{tmp_path / 'cifar10'}"):
        load_data("cifar10", data_dir=tmp_path)
    assert len(downloads) == 1


def test_a_download_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(remotes: list[module.Remote], folder: Path) -> list[Path]:
        return [pack(folder / remote.name, module.BINARY) for remote in remotes]

    monkeypatch.setattr(module, "download", fetch)
    assert_test_batch(tmp_path)
    monkeypatch.undo()
    assert (tmp_path / "cifar10" / "cifar-10-binary.tar.gz").is_file()


def test_an_unknown_split_is_refused() -> None:
    with pytest.raises(ConfigError, match="all-train, test, train, val"):
        load_data("cifar10", "dev")


@pytest.mark.data
def test_the_real_test_batch_is_accepted(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = shared / "data" / "unpack_cifar10.py"
    monkeypatch.setattr(sys, "argv", [str(script), str(tmp_path), "test_batch"])
    runpy.run_path(str(script), run_name="__main__")
    data = load_data("cifar10", data_dir=tmp_path)
    assert data.shape == (3, 32, 32)
    assert data.labels.bincount().tolist() == [1000] * 10
    assert [data.classes[label] for label in data.labels[:4].tolist()] == ["cat", "ship", "ship", "airplane"]
    images, _ = data.batch(torch.arange(10_000))
    means = images.mean((0, 2, 3)).tolist()
    assert means == pytest.approx([0.4942, 0.4851, 0.4504], abs=2e-4)
    assert "test_batch ready" in capsys.readouterr().out
