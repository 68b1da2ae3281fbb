"""ImageNet-100 as class folders."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from gamagat.data.core import Dataset, load_data
from gamagat.data.imagenet100 import class_names
from gamagat.errors import ConfigError, DataError

Tree = Callable[..., Path]


@pytest.fixture
def full(tmp_path: Path, tree: Tree) -> Path:
    """One image of each class."""
    tree(
        tmp_path / "imagenet100" / "test", *(f"{name}/{name}_7.JPEG" for name in class_names()), size=(40, 30)
    )
    return tmp_path


def by_resize_only(path: Path, width: int, height: int) -> np.ndarray:
    image = Image.open(path).convert("RGB").resize((width, height), Image.Resampling.BILINEAR)
    left, top = (width - 224) // 2, (height - 224) // 2
    return np.asarray(image)[top : top + 224, left : left + 224]


def test_the_classes_are_those_of_the_paper_in_their_order() -> None:
    names = class_names()
    assert len(set(names)) == 100
    assert names[:3] == ("n02190166", "n04613696", "n03891332")
    assert names[-3:] == ("n04192698", "n02783161", "n11939491")


def test_labels_follow_the_paper_and_not_the_alphabet(full: Path) -> None:
    data = load_data("imagenet100", data_dir=full)
    assert data.labels.tolist() == list(range(100))
    assert data.shape == (3, 224, 224)
    assert data.eps == {"linf": 8 / 255}


def test_images_are_resized_and_cropped(full: Path) -> None:
    data: Dataset = load_data("imagenet100", data_dir=full)
    name = data.classes[5]
    expected = by_resize_only(full / "imagenet100" / "test" / name / f"{name}_7.JPEG", 341, 256)
    assert np.array_equal(data.read(torch.tensor([5]))[0].permute(1, 2, 0).numpy(), expected)


def test_the_split_folders_may_lie_directly_in_the_data_folder(full: Path) -> None:
    assert load_data("imagenet100", data_dir=full / "imagenet100").ids.tolist() == (
        load_data("imagenet100", data_dir=full).ids.tolist()
    )


def test_missing_and_empty_classes_are_named(full: Path) -> None:
    gone, empty = class_names()[3], class_names()[8]
    for name in (gone, empty):
        (full / "imagenet100" / "test" / name / f"{name}_7.JPEG").unlink()
    (full / "imagenet100" / "test" / gone).rmdir()
    with pytest.raises(DataError, match=f"2 of the 100 class folders .* missing or empty: {gone}, {empty}$"):
        load_data("imagenet100", data_dir=full)


def test_of_many_missing_classes_a_few_are_named(tmp_path: Path, tree: Tree) -> None:
    tree(tmp_path / "val", f"{class_names()[0]}/a.png")
    with pytest.raises(DataError, match=r"99 of the 100 class folders .*n04613696(, n\d+){4}, \.\.\.$"):
        load_data("imagenet100", "val", tmp_path)


def test_a_missing_split_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=rf"no folder {tmp_path / 'imagenet100' / 'train'}"):
        load_data("imagenet100", "train", tmp_path)


def test_an_unknown_split_is_refused() -> None:
    with pytest.raises(ConfigError, match="known: test, train, val"):
        load_data("imagenet100", "all-train")


@pytest.mark.data
def test_real_photographs_pass_through(shared: Path, full: Path) -> None:
    real = sorted((shared / "data" / "imagenette-mini" / "val" / "n03028079").iterdir())[:2]
    folder = full / "imagenet100" / "test" / "n03028079"
    for path in real:
        (folder / path.name).symlink_to(path)
    data = load_data("imagenet100", data_dir=full)
    label = data.classes.index("n03028079")
    positions = (data.labels == label).nonzero().flatten()
    assert len(positions) == 3
    images = data.read(positions)
    for image, path in zip(images, real, strict=False):
        assert np.array_equal(image.permute(1, 2, 0).numpy(), by_resize_only(path, 256, 256))
