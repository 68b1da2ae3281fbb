"""ImageNet-100: a hundred classes of ImageNet in the paper's order, as class folders."""

from importlib.resources import files
from pathlib import Path

import torch

from gamagat.data.core import DATASETS, Dataset, check_split
from gamagat.data.files import data_root, listing
from gamagat.data.photos import CROPPED, Album, labelled_files, resize_and_crop, stable_ids
from gamagat.errors import DataError, SplitError

EPS = {"linf": 8 / 255}
SPLITS = ("test", "train", "val")
PLACES = ("imagenet100", "imagenet-100", "ImageNet100", "")


@DATASETS.register("imagenet100")
def imagenet100(split: str = "test", data_dir: Path | None = None) -> Dataset:
    """Photographs of 100 ImageNet classes, 224x224 colour; you provide imagenet100/<split>/<synset>/*.

    The shorter side becomes 256 and the middle 224x224 is kept. An id depends on `<split>/<synset>/<file>`.
    """
    check_split("imagenet100", split, SPLITS)
    home, classes = data_root(data_dir), class_names()
    with listing(home):
        root = _split_folder(home, split)
        labels, paths = labelled_files(root, classes)
    present = set(labels)
    missing = [name for label, name in enumerate(classes) if label not in present]
    if missing:
        shown = ", ".join(missing[:5]) + (", ..." if len(missing) > 5 else "")
        raise DataError(f"{len(missing)} of the 100 class folders in {root} are missing or empty: {shown}")
    shape = (3, CROPPED, CROPPED)
    read = Album(lambda position: root / paths[position], len(paths)).reader("RGB", shape, resize_and_crop)
    ids = stable_ids(f"{split}/{path}" for path in paths)
    return Dataset("imagenet100", read, torch.tensor(labels), ids, classes, shape, "imagenet", EPS)


def class_names() -> tuple[str, ...]:
    """The synsets in the order of their class numbers."""
    return tuple(files("gamagat.data").joinpath("imagenet100_classes.txt").read_text("utf-8").split())


def _split_folder(root: Path, split: str) -> Path:
    for place in PLACES:
        if (root / place / split).is_dir():
            return root / place / split
    raise SplitError(
        f"no folder {root / PLACES[0] / split}, and ImageNet cannot be downloaded freely: put a folder of "
        f"images for each of its 100 synsets there, or choose another with --data-dir or GAMAGAT_DATA"
    )
