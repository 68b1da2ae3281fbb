"""The official files of CIFAR-10: where they may lie, and proof that they are whole before they are read."""

import io
import pickle
import tarfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gamagat.data.files import Remote, check_digest, download, first_file, read_bytes
from gamagat.errors import DataError

Batch = tuple[NDArray[np.uint8], NDArray[np.int64]]  # images, labels

PIXELS = 3 * 32 * 32
PLACES = ("", "cifar10", "cifar-10", "CIFAR10", "CIFAR-10")
HOME = "https://www.cs.toronto.edu/~kriz/"


def read_binary(content: bytes) -> Batch:
    """A batch of the binary version: for each image a label byte, then its red, green and blue plane."""
    rows = np.frombuffer(content, np.uint8).reshape(-1, 1 + PIXELS)
    return rows[:, 1:].reshape(-1, 3, 32, 32), rows[:, 0].astype(np.int64)


def read_pickle(content: bytes) -> Batch:
    """A batch of the Python version: a dictionary with `data` and `labels`."""
    batch = _OnlyArrays(io.BytesIO(content), encoding="bytes").load()
    return batch[b"data"].reshape(-1, 3, 32, 32), np.array(batch[b"labels"], np.int64)


class _OnlyArrays(pickle.Unpickler):
    """Builds numpy arrays and nothing else: a pickle could otherwise call any function."""

    allowed = frozenset(
        {
            ("numpy.core.multiarray", "_reconstruct"),
            ("numpy._core.multiarray", "_reconstruct"),
            ("numpy", "ndarray"),
            ("numpy", "dtype"),
        }
    )

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self.allowed:
            raise DataError(
                f"a CIFAR-10 batch asks for {module}.{name}, which no batch needs; it is not loaded"
            )
        return super().find_class(module, name)


@dataclass(frozen=True, slots=True)
class Version:
    """One of the forms in which CIFAR-10 is published."""

    archive: Remote
    folder: str  # in the archive, and where people unpack it
    suffix: str
    algorithm: str
    digests: Mapping[str, str]
    read: Callable[[bytes], Batch]

    def load(self, name: str, content: bytes, where: str) -> Batch:
        """The batch called `name`; nothing is read, let alone unpickled, before its checksum has matched."""
        check_digest(content, self.digests[name], self.algorithm, where)
        return self.read(content)


BINARY = Version(
    archive=Remote(
        "cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530", (f"{HOME}cifar-10-binary.tar.gz",)
    ),
    folder="cifar-10-batches-bin",
    suffix=".bin",
    algorithm="sha1",
    digests={
        "data_batch_1": "aadd24acce27caa71bf4b10992e9e7b2d74c2540",
        "data_batch_2": "c0ba65cce70568cd57b4e03e9ac8d2a5367c1795",
        "data_batch_3": "1dd00a74ab1d17a6e7d73e185b69dbf31242f295",
        "data_batch_4": "aab85764eb3584312d3c7f65fd2fd016e36a258e",
        "data_batch_5": "26e2849e66a845b7f1e4614ae70f4889ae604628",
        "test_batch": "67eb016db431130d61cd03c7ad570b013799c88c",
    },
    read=read_binary,
)
PYTHON = Version(
    archive=Remote(
        "cifar-10-python.tar.gz", "c58f30108f718f92721af3b95e74349a", (f"{HOME}cifar-10-python.tar.gz",)
    ),
    folder="cifar-10-batches-py",
    suffix="",
    algorithm="md5",
    digests={
        "data_batch_1": "c99cafc152244af753f735de768cd75f",
        "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
        "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
        "data_batch_4": "634d18415352ddfa80567beed471001a",
        "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
        "test_batch": "40351d587109b95175f43aff81a1287e",
    },
    read=read_pickle,
)
VERSIONS = (BINARY, PYTHON)  # the binary one first: it has nothing to unpickle


def read_batches(root: Path, names: Sequence[str]) -> Batch:
    """These batches, joined: unpacked or in an archive below `root`, else downloaded."""
    folders = [root / place for place in PLACES]
    for version in VERSIONS:
        files = _unpacked(version, folders, names)
        if files:
            return _join([version.load(name, read_bytes(path), str(path)) for name, path in files.items()])
    for version in VERSIONS:
        archive = first_file(folders, [version.archive.name])
        if archive:
            return _join(_from_archive(version, archive, names))
    (archive,) = download([BINARY.archive], root / "cifar10")
    return _join(_from_archive(BINARY, archive, names))


def _join(batches: Sequence[Batch]) -> Batch:
    images, labels = zip(*batches, strict=True)
    return np.concatenate(images), np.concatenate(labels)


def _unpacked(version: Version, folders: Sequence[Path], names: Sequence[str]) -> dict[str, Path] | None:
    """The file of each batch, or None where one of them is missing."""
    places = [place for folder in folders for place in (folder / version.folder, folder)]
    found = {name: first_file(places, [name + version.suffix]) for name in names}
    files = {name: path for name, path in found.items() if path is not None}
    return files if len(files) == len(names) else None


def _from_archive(version: Version, archive: Path, names: Sequence[str]) -> list[Batch]:
    """The batches inside an archive, read in one pass without unpacking it to disk."""
    members = {f"{version.folder}/{name}{version.suffix}": name for name in names}
    batches: dict[str, Batch] = {}
    try:
        with tarfile.open(archive) as tar:
            for member in tar:
                content = tar.extractfile(member)
                if content is not None and member.name in members:
                    name = members[member.name]
                    batches[name] = version.load(name, content.read(), f"{member.name} in {archive}")
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise DataError(f"{archive} is damaged: {error}; delete it and fetch it again") from error
    missing = [member for member, name in members.items() if name not in batches]
    if missing:
        raise DataError(f"{archive} has no {', '.join(missing)}; it is not the official archive")
    return [batches[name] for name in names]
