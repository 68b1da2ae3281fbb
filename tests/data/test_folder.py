"""Trees of images: any folder, and the parts that ImageNet-100 shares."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from gamagat.data import photos
from gamagat.data.core import load_data
from gamagat.data.photos import resize_and_crop, stable_ids
from gamagat.errors import ConfigError, DataError

Tree = Callable[..., Path]


def test_the_first_images_are_of_all_classes_and_keep_their_ids(tmp_path: Path, tree: Tree) -> None:
    tree(tmp_path, *(f"{name}/{number}.png" for name in ("ant", "bee", "cat") for number in range(4)))
    tree(tmp_path, *(f"bee/more{number}.png" for number in range(9)))
    data = load_data(f"folder:{tmp_path}")
    assert sorted(data.head(3).labels.tolist()) == [0, 1, 2]
    assert data.head(7).labels.bincount().tolist() == [3, 2, 2]
    assert data.head(20).labels.bincount().tolist() == [4, 12, 4]  # where others have run out, one goes on
    before = dict(zip(data.ids.tolist(), data.labels.tolist(), strict=True))
    shutil.rmtree(tmp_path / "ant")
    tree(tmp_path, "zoo/first.png")
    after = load_data(f"folder:{tmp_path}")
    old = [id_ for id_, label in zip(after.ids.tolist(), after.labels.tolist(), strict=True) if label < 2]
    assert {id_ for id_, label in before.items() if label > 0} == set(old)


def test_classes_are_numbered_by_name_and_images_are_the_files(tmp_path: Path, tree: Tree) -> None:
    tree(tmp_path, "dog/b.png", "cat/a.bmp", "cat/c.PPM", "dog/a.webp")
    data = load_data(f"folder:{tmp_path}")
    assert data.classes == ("cat", "dog")
    assert data.labels.tolist() == [0, 1, 0, 1]  # the classes take turns
    assert data.shape == (3, 6, 8)
    images = data.read(torch.tensor([3, 0]))
    for image, name in zip(images, ("dog/b.png", "cat/a.bmp"), strict=True):
        assert np.array_equal(image.permute(1, 2, 0).numpy(), np.asarray(Image.open(tmp_path / name)))


def test_other_files_and_hidden_ones_are_passed_over(tmp_path: Path, tree: Tree) -> None:
    tree(tmp_path, "cat/a.JPG", "cat/.b.png", ".git/c.png", "top.png")
    (tmp_path / "cat" / "notes.txt").write_text("not an image")
    (tmp_path / "cat" / "folder.png").mkdir()
    data = load_data(f"folder:{tmp_path}")
    assert len(data) == 1
    assert data.classes == ("cat",)


def test_the_folder_of_the_split_is_used_where_there_is_one(tmp_path: Path, tree: Tree) -> None:
    tree(tmp_path, "train/cat/a.png", "val/cat/a.png", "val/dog/b.png")
    assert len(load_data(f"folder:{tmp_path}", "train")) == 1
    assert load_data(f"folder:{tmp_path}", "val").classes == ("cat", "dog")
    assert len(load_data(f"folder:{tmp_path / 'val'}")) == 2
    with pytest.raises(ConfigError, match="no split 'test'; it has: train, val"):
        load_data(f"folder:{tmp_path}")


def test_a_class_may_be_called_like_a_split(tmp_path: Path, tree: Tree) -> None:
    tree(tmp_path, "other/a.png", "test/b.png")
    assert load_data(f"folder:{tmp_path}").classes == ("other", "test")


def test_a_class_without_images_keeps_its_number(tmp_path: Path, tree: Tree) -> None:
    tree(tmp_path, "a/1.png", "c/1.png")
    (tmp_path / "b").mkdir()
    assert load_data(f"folder:{tmp_path}").labels.tolist() == [0, 2]


def test_ids_know_split_class_and_file_and_nothing_else(tmp_path: Path, tree: Tree) -> None:
    names = ["train/cat/a.png", "val/cat/a.png", "val/cat/b.png", "val/dog/a.png"]
    tree(tmp_path / "one", *names)
    tree(tmp_path / "moved" / "two", *random.Random(0).sample(names, 4), "val/ant/z.png")
    first, second = (load_data(f"folder:{tmp_path / root}", "val") for root in ("one", "moved/two"))
    assert first.ids.tolist() == second.ids[1:].tolist()
    train = load_data(f"folder:{tmp_path / 'one'}", "train")
    assert len({*first.ids.tolist(), *train.ids.tolist()}) == 4
    assert int(first.ids.min()) >= 0


def test_grey_folders_stay_grey(tmp_path: Path, tree: Tree) -> None:
    tree(tmp_path, "cat/a.png", "cat/b.png", mode="L")
    data = load_data(f"folder:{tmp_path}")
    assert data.shape == (1, 6, 8)
    assert data.read(torch.arange(2)).shape == (2, 1, 6, 8)


@pytest.mark.parametrize("mode", ["P", "RGBA", "RGB", "CMYK"])
def test_one_colour_image_makes_a_folder_colourful(tmp_path: Path, tree: Tree, mode: str) -> None:
    tree(tmp_path, "cat/a.png", mode="L")
    tree(tmp_path, "cat/b.tif", mode=mode)
    data = load_data(f"folder:{tmp_path}")
    assert data.shape == (3, 6, 8)
    grey = data.read(torch.tensor([0]))[0]
    assert torch.equal(grey[0], grey[2])


def test_a_palette_with_transparency_is_read_without_a_warning(tmp_path: Path) -> None:
    (tmp_path / "cat").mkdir()
    image = Image.fromarray(np.arange(48, dtype=np.uint8).reshape(6, 8), "L").convert("P")
    image.save(tmp_path / "cat" / "a.png", transparency=bytes(range(48)))
    assert load_data(f"folder:{tmp_path}").read(torch.tensor([0])).shape == (1, 3, 6, 8)


def test_different_sizes_are_resized_and_cropped(tmp_path: Path, tree: Tree) -> None:
    tree(tmp_path, "cat/a.png", size=(300, 400))
    tree(tmp_path, "cat/b.png", size=(90, 50))
    data = load_data(f"folder:{tmp_path}")
    assert data.shape == (3, 224, 224)
    expected = np.asarray(resize_and_crop(Image.open(tmp_path / "cat" / "b.png")))
    assert np.array_equal(data.read(torch.tensor([1]))[0].permute(1, 2, 0).numpy(), expected)


def test_only_what_is_asked_for_is_decoded(tmp_path: Path, tree: Tree) -> None:
    tree(tmp_path, "cat/a.png", "cat/b.png", "cat/c.png")
    data = load_data(f"folder:{tmp_path}")
    shutil.rmtree(tmp_path / "cat")
    tree(tmp_path, "cat/b.png")
    assert data.read(torch.tensor([1])).shape == (1, 3, 6, 8)
    assert data.read(torch.arange(0)).shape == (0, 3, 6, 8)
    with pytest.raises(DataError, match=r"c\.png cannot be read"):
        data.read(torch.tensor([1, 2]))


def test_a_file_that_is_no_image_is_named_at_once(tmp_path: Path, tree: Tree) -> None:
    tree(tmp_path, "cat/a.png")
    (tmp_path / "cat" / "b.jpg").write_bytes(b"not an image")
    with pytest.raises(DataError, match=r"b\.jpg cannot be read"):
        load_data(f"folder:{tmp_path}")


def test_a_truncated_image_is_named_when_it_is_read(tmp_path: Path, tree: Tree) -> None:
    path = tree(tmp_path, "cat/a.png", size=(64, 64)) / "cat" / "a.png"
    path.write_bytes(path.read_bytes()[:2000])
    data = load_data(f"folder:{tmp_path}")
    with pytest.raises(DataError, match=r"a\.png cannot be read as an 8-bit image: .*truncated"):
        data.read(torch.tensor([0]))


def test_more_than_eight_bits_are_refused(tmp_path: Path) -> None:
    (tmp_path / "cat").mkdir()
    Image.fromarray(np.full((4, 4), 40_000, np.uint16)).save(tmp_path / "cat" / "a.png")
    with pytest.raises(DataError, match=r"a\.png .* more than 8 bits"):
        load_data(f"folder:{tmp_path}")


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nowhere' is not a folder"):
        load_data(f"folder:{tmp_path / 'nowhere'}")


@pytest.mark.parametrize("inside", [(), ("top.png",)])
def test_a_folder_without_classes_is_refused(tmp_path: Path, tree: Tree, inside: tuple[str, ...]) -> None:
    tree(tmp_path, *inside)
    with pytest.raises(DataError, match="no images in the sub-folders"):
        load_data(f"folder:{tmp_path}")


@given(st.lists(st.text(max_size=8), unique=True, min_size=1, max_size=20))
def test_ids_are_hashes_of_the_key_alone(keys: list[str]) -> None:
    keys = [key for key in keys if key.isascii()] or ["a"]
    together = stable_ids(keys).tolist()
    assert together == [int(stable_ids([key])) for key in keys]
    assert all(0 <= found < 2**63 for found in together)


def test_ids_are_the_same_today_and_tomorrow() -> None:
    assert stable_ids(["val/cat/a.png"]).tolist() == [8120733108886983485]


def test_two_files_with_one_id_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(photos, "_hash", len)
    with pytest.raises(DataError, match="'ab' and 'cd' have the same id"):
        stable_ids(["a", "ab", "cd"])


@pytest.mark.parametrize("size", [(500, 375), (375, 500), (256, 256), (341, 257), (100, 30), (224, 224)])
def test_resize_and_crop_agree_with_a_resampling_of_the_box(size: tuple[int, int]) -> None:
    """Pillow can take the crop out of the source directly; both ways must show the same square."""
    rng = np.random.default_rng(1)
    pixels = rng.integers(0, 256, (size[1] // 8 + 1, size[0] // 8 + 1, 3), np.uint8)
    image = Image.fromarray(pixels).resize(size, Image.Resampling.BICUBIC)
    short = min(size)
    wide, high = (int(256 * side / short) for side in size)
    left, top = round((wide - 224) / 2), round((high - 224) / 2)
    scale = (size[0] / wide, size[1] / high)
    box = (left * scale[0], top * scale[1], (left + 224) * scale[0], (top + 224) * scale[1])
    direct = image.resize((224, 224), Image.Resampling.BILINEAR, box=box)
    ours = resize_and_crop(image)
    assert ours.size == (224, 224)
    gap = np.abs(np.asarray(ours, np.int16) - np.asarray(direct, np.int16))
    inner = gap[2:-2, 2:-2]  # at the rim the box filter sees less of the source
    assert inner.max() <= 2


@pytest.mark.data
def test_a_real_tree_of_photographs(shared: Path) -> None:
    root = shared / "data" / "imagenette-mini"
    data = load_data(f"folder:{root}", "val")
    assert (len(data), len(data.classes), data.shape) == (400, 10, (3, 224, 224))
    assert data.labels.bincount().tolist() == [40] * 10
    images, labels = data.batch(torch.tensor([0, 399]))
    first = sorted((root / "val" / data.classes[0]).iterdir())[0]
    expected = np.asarray(Image.open(first).convert("RGB"), np.float32) / 255
    assert np.array_equal(images[0].permute(1, 2, 0).numpy(), expected)
    assert labels.tolist() == [0, 9]
