"""Any tree of images with one sub-folder per class."""

from pathlib import Path

import torch

from gamagat.data.core import DATASETS, Dataset
from gamagat.data.files import listing, located
from gamagat.data.photos import Album, labelled_files, stable_ids, visible_folders
from gamagat.errors import ConfigError, DataError


@DATASETS.register("folder")
def folder(source: str, split: str = "test") -> Dataset:
    """folder:PATH, a sub-folder of images for each class, in PATH/<split> or in PATH itself.

    Classes are numbered in the order of their names. They take turns, an image each, so that the first N
    images (--n N) are of all classes as far as N goes; within a class files go by name. Images of one size
    stay as they are; otherwise the shorter side becomes 256 and the middle 224x224 is kept. All are grey if
    each is. An id depends on `<split>/class/file` (on `class/file` if PATH has no split), never on PATH.
    """
    path = located(source)
    if not path.is_dir():
        raise DataError(
            f"{source!r} is not a folder; write folder:PATH with one sub-folder of images per class"
        )
    with listing(path):
        has_split = (path / split).is_dir() and bool(visible_folders(path / split))
        root, prefix = (path / split, f"{split}/") if has_split else (path, "")
        classes = visible_folders(root)
        labels, files = labelled_files(root, classes)
        if not files:
            raise _nothing_found(root, split, classes)
    read, shape = Album(lambda position: root / files[position], len(files)).survey()
    ids = stable_ids(prefix + file for file in files)
    return Dataset(f"folder:{path.name}", read, torch.tensor(labels), ids, tuple(classes), shape)


def _nothing_found(root: Path, split: str, names: list[str]) -> ConfigError | DataError:
    """Why there is no image: another split was meant, or there are no class folders."""
    splits = [name for name in names if visible_folders(root / name)]
    if splits:
        return ConfigError(f"{root} has no split {split!r}; it has: {', '.join(splits)}")
    return DataError(f"no images in the sub-folders of {root}; it needs one sub-folder of images per class")
