"""MNIST from its four official files, with the paper's split of the training images."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from gamagat.data.core import DATASETS, Dataset, check_split, from_tensors
from gamagat.data.files import Remote, data_root, download, first_file
from gamagat.data.idx import read_idx

EPS = {"linf": 0.3, "l2": 2.0}
SPLITS = ("test", "train", "val", "all-train")
COUNTS = {"t10k": 10_000, "train": 60_000}  # images in the files of each part
VAL = 10_000
PLACES = ("", "mnist", "MNIST", "MNIST/raw", "mnist/raw", "raw")
MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)
MD5 = {
    "train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
    "t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
    "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
}


@DATASETS.register("mnist")
def mnist(split: str = "test", data_dir: Path | None = None) -> Dataset:
    """Handwritten digits, 28x28 grey; downloaded when absent.

    `test` has 10,000 images, `train` 50,000 and `val` 10,000 of the 60,000 in `all-train`. A test image's id
    is its position in the test file; a training image's is 10,000 plus its position in the training file.
    """
    check_split("mnist", split, SPLITS)
    part = "t10k" if split == "test" else "train"
    images, labels = _files(part, data_root(data_dir))
    offset = 0 if part == "t10k" else COUNTS["t10k"]
    whole = from_tensors(
        torch.from_numpy(read_idx(images, (COUNTS[part], 28, 28)))[:, None],
        name="mnist",
        labels=torch.from_numpy(read_idx(labels, (COUNTS[part],))).long(),
        ids=torch.arange(COUNTS[part]) + offset,
        classes=map(str, range(10)),
        preset="mnist",
        eps=EPS,
    )
    return whole if split in ("test", "all-train") else whole.take(_shuffled(split))


def _shuffled(split: str) -> Tensor:
    """The paper's split: shuffle with seed 0, validate on the last 10,000."""
    order = np.arange(COUNTS["train"])
    np.random.RandomState(0).shuffle(order)
    return torch.from_numpy(order[-VAL:] if split == "val" else order[:-VAL])


def _files(part: str, root: Path) -> tuple[Path, Path]:
    """The image file and the label file of this part; those that are nowhere are downloaded."""
    wanted = [name for name in MD5 if name.startswith(part)]
    found = {name: _find(name, root) for name in wanted}
    missing = [name for name in wanted if found[name] is None]
    remotes = [Remote(name, MD5[name], tuple(mirror + name for mirror in MIRRORS)) for name in missing]
    found.update(zip(missing, download(remotes, root / "mnist"), strict=True))
    images, labels = (path for path in found.values() if path is not None)
    return images, labels


def _find(name: str, root: Path) -> Path | None:
    """The file under any of its usual names: gzipped or not, `-idx` or `.idx`."""
    dashed = (name, name.removesuffix(".gz"))
    return first_file(
        (root / place for place in PLACES), [*dashed, *(n.replace("-idx", ".idx") for n in dashed)]
    )
