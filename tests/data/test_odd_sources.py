"""Sources that no reader can read: each is refused in one sentence, and nothing is left behind."""

import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pooch
import pytest
import torch
from PIL import Image

from gamagat.data import core
from gamagat.data.core import load_data, numbered_classes
from gamagat.data.files import located
from gamagat.errors import DataError

Change = Callable[[bytes], bytes]

IMAGES, LABELS = np.zeros((4, 3, 6, 5), np.uint8), np.arange(4)
LONG = "x" * 5000


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    np.savez(tmp_path / "set.npz", images=IMAGES, labels=LABELS)
    return tmp_path / "set.npz"


def with_header(text: str) -> Change:
    """A member whose header is this text."""
    header = text.encode() + b"\n"
    return lambda _: b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header


def with_shape(shape: str) -> Change:
    return with_header(f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}}}")


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content[:8] + b"\xff" * 20,
        lambda _: b"no array",
        with_header("{'descr': (((("),
        with_header("(" * 9000),
        with_shape("(10000000000000, 3, 6, 5)"),
        with_shape(f"(1{'0' * 30},)"),
        with_shape("(-4, 3, 6, 5)"),
    ],
    ids=["length", "text", "open brackets", "many brackets", "petabytes", "overflow", "negative"],
)
def test_a_member_with_a_bad_header_is_called_damaged(archive: Path, change: Change) -> None:
    with zipfile.ZipFile(archive) as whole:
        members = {name: whole.read(name) for name in whole.namelist()}
    with zipfile.ZipFile(archive, "w") as damaged:
        for name, content in members.items():
            damaged.writestr(name, change(content) if name == "images.npy" else content)
    with pytest.raises(DataError, match=r"set\.npz is damaged"):
        load_data(f"arrays:{archive}")


@pytest.mark.parametrize(
    ("offset", "value", "words"), [(0, 1, "encrypted"), (2, 99, "compression method is not supported")]
)
def test_an_archive_that_cannot_be_unpacked_says_why(
    archive: Path, offset: int, value: int, words: str
) -> None:
    content = bytearray(archive.read_bytes())
    for mark, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):  # of a member, and in the directory
        place = content.find(mark)
        while place >= 0:
            content[place + flags + offset] = value
            place = content.find(mark, place + 4)
    archive.write_bytes(content)
    with pytest.raises(DataError, match=rf"set\.npz is damaged.*{words}"):
        load_data(f"arrays:{archive}")


def test_what_is_no_archive_is_not_taken_for_one(archive: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "plain.npy", IMAGES)
    (tmp_path / "plain.npy").rename(archive)
    for _ in range(2):
        with pytest.raises(DataError, match=r"is not an \.npz file"):
            load_data(f"arrays:{archive}")
        archive.write_bytes(b"")
    with pytest.raises(DataError, match="there is no file"):
        load_data(f"arrays:{tmp_path}")


def test_an_archive_that_may_not_be_read_says_so(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(*_: object) -> None:
        raise PermissionError(13, "Permission denied", str(archive))

    monkeypatch.setattr(Path, "open", closed)
    with pytest.raises(DataError, match=r"cannot read .*set\.npz: Permission denied"):
        load_data(f"arrays:{archive}")


def test_a_label_that_is_no_class_number_is_refused_at_once(archive: Path) -> None:
    np.savez(archive, images=IMAGES, labels=np.array([0, 1, 2, 10**10]))
    with pytest.raises(DataError, match=r"largest label is 10000000000, .*1,000,000 classes.*renumber"):
        load_data(f"arrays:{archive}")


def test_the_most_classes_are_still_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "MOST_CLASSES", 4)
    labels = torch.tensor([0, 3])
    assert numbered_classes(labels) == ("0", "1", "2", "3")
    with pytest.raises(DataError, match="at most 4 classes"):
        numbered_classes(labels + 1)


def test_images_without_pixels_are_refused(archive: Path) -> None:
    np.savez(archive, images=IMAGES[:, :, :0], labels=LABELS)
    with pytest.raises(DataError, match=r"have no pixels: their shape is \(4, 3, 0, 5\)"):
        load_data(f"arrays:{archive}")


def test_class_names_in_any_encoding_are_read(archive: Path) -> None:
    np.savez(archive, images=IMAGES, labels=LABELS, classes=np.array([b"\xff", b"b", b"c", b"d"]))
    assert load_data(f"arrays:{archive}").classes == ("\\xff", "b", "c", "d")


@pytest.mark.parametrize("spec", ["arrays:{}", "folder:{}"])
@pytest.mark.parametrize(
    ("path", "words"),
    [
        (LONG, r"\(5000 characters\)|there is no file|is not a folder"),
        ("~nobody-of-this-name/set", "cannot look for ~nobody-of-this-name/set: .*; give another path"),
        ("no\0thing", "there is no file|is not a folder"),
    ],
    ids=["long", "home", "null"],
)
def test_a_path_that_cannot_be_looked_up_is_refused(spec: str, path: str, words: str) -> None:
    with pytest.raises(DataError, match=words) as caught:
        load_data(spec.format(path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["mnist", "cifar10", "imagenet100"])
def test_a_data_folder_that_cannot_be_looked_up_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    for folder in (LONG, "~nobody-of-this-name", tmp_path / "loop"):
        with pytest.raises(DataError):
            load_data(name, data_dir=folder)


def test_the_home_folder_is_spelled_out_everywhere(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "tree" / "cat").mkdir(parents=True)
    Image.new("L", (4, 4)).save(tmp_path / "tree" / "cat" / "a.png")
    assert len(load_data(f"arrays:~/{archive.name}")) == 4
    assert len(load_data("folder:~/tree")) == 1
    assert located("~/tree") == tmp_path / "tree"
    with pytest.raises(DataError, match=str(tmp_path / "data")):
        load_data("mnist", data_dir="~/data")


def test_a_file_is_no_folder(archive: Path) -> None:
    with pytest.raises(DataError, match="is not a folder"):
        load_data(f"folder:{archive}")


@pytest.mark.parametrize("place", ["loop", "cat/loop.png"])
def test_an_entry_that_cannot_be_looked_at_is_named(place: str, tmp_path: Path) -> None:
    (tmp_path / "cat").mkdir()
    (tmp_path / place).symlink_to(Path(place).name)
    with pytest.raises(DataError, match=rf"cannot read .*{place}: .*; give another path"):
        load_data(f"folder:{tmp_path}")


def test_a_folder_that_may_not_be_listed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "scandir", closed)
    with pytest.raises(DataError, match=rf"cannot read {tmp_path}: Permission denied"):
        load_data(f"folder:{tmp_path}")


def test_a_split_of_any_length_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(DataError):
        load_data(f"folder:{tmp_path}", LONG)


@pytest.mark.parametrize("name", ["mnist", "cifar10"])
def test_a_failed_download_leaves_no_new_folder(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def halfway(*_: object, path: Path, **__: object) -> str:
        path.mkdir(parents=True, exist_ok=True)
        raise OSError("the network is down")

    monkeypatch.setattr(pooch, "retrieve", halfway)
    (tmp_path / "mine").mkdir()
    with pytest.raises(DataError, match="download failed"):
        load_data(name, data_dir=tmp_path / "mine" / "new" / "deep")
    assert list(tmp_path.rglob("*")) == [tmp_path / "mine"]
