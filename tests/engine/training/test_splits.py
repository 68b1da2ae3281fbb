"""Which images train, select and judge, whatever parts a data set has."""

import numpy as np
import pytest
import torch
from PIL import Image

from gamagat.data.core import load_data
from gamagat.engine.training.card import evaluated
from gamagat.engine.training.run import TrainingRequest, train
from gamagat.engine.training.splits import judging_split, load_split, split_data
from gamagat.errors import DataError


def ids(data):
    return set(data.ids.tolist())


def test_a_data_set_with_its_own_parts_keeps_them():
    for name in ("train", "val", "test"):
        assert torch.equal(split_data("digits", name).ids, load_data("digits", name).ids)


def test_data_without_parts_are_divided(tmp_path):
    file = tmp_path / "all.npz"
    np.savez(
        file, images=np.random.default_rng(0).random((40, 3, 8, 8), np.float32), labels=np.arange(40) % 4
    )
    train_, val, test = (split_data(f"arrays:{file}", name) for name in ("train", "val", "test"))
    assert [len(train_), len(val), len(test)] == [32, 4, 4]
    assert not ids(train_) & ids(val)
    assert not ids(train_) & ids(test)
    assert not ids(val) & ids(test)


def photographs(root, splits):
    generator = np.random.default_rng(1)
    for split in splits:
        for name in ("cat", "dog"):
            folder = root / split / name
            folder.mkdir(parents=True)
            for number in range(10):
                pixels = generator.integers(0, 256, (8, 8, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / f"{number}.png")
    return f"folder:{root}"


def test_folders_with_two_parts_are_judged_by_the_one_that_selects(tmp_path):
    spec = photographs(tmp_path / "two", ["train", "val"])
    assert torch.equal(split_data(spec, "test").ids, load_data(spec, "val").ids)
    assert torch.equal(split_data(spec, "train").ids, load_data(spec, "train").ids)


def test_folders_with_training_images_alone_lose_some_to_the_others(tmp_path):
    spec = photographs(tmp_path / "one", ["train"])
    parts = [split_data(spec, name) for name in ("train", "val", "test")]
    assert [len(part) for part in parts] == [16, 2, 2]
    assert len(set().union(*map(ids, parts))) == 20


def test_classes_that_take_turns_are_held_out_alike(tmp_path):
    """Every tenth image of ten classes in turn is of one class, which would never be trained."""
    file = tmp_path / "turns.npz"
    np.savez(file, images=np.zeros((200, 3, 8, 8), np.uint8), labels=np.arange(200) % 10)
    for name, each in (("train", 16), ("val", 2), ("test", 2)):
        assert torch.bincount(split_data(f"arrays:{file}", name).labels).tolist() == [each] * 10


def arrays(file, **changed):
    dice = np.random.default_rng(2)
    stored = {f"x_{name}": dice.random((20, 3, 8, 8), np.float32) for name in ("train", "val", "test")}
    stored |= {f"y_{name}": np.arange(20) % 2 for name in ("train", "val", "test")} | changed
    np.savez(file, **{key: value for key, value in stored.items() if value is not None})
    return f"arrays:{file}", stored


@pytest.mark.parametrize("name", ["train", "val", "test"])
def test_parts_of_the_same_length_are_parts(tmp_path, name):
    """Their ids, which are positions, and here their labels are those of the training images."""
    spec, stored = arrays(tmp_path / "three.npz")
    part = split_data(spec, name)
    assert torch.equal(part.read(torch.arange(20)), torch.from_numpy(stored[f"x_{name}"]))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"y_val": None}, "no labels of split 'val'"),
        ({"y_val": np.zeros(19, int)}, "20 images but 19 labels"),
        ({"x_test": np.full((20, 3, 8, 8), 7.0)}, "must lie in"),
        ({"y_val": np.arange(20) % 3}, "split 'val' of .* has 3 classes, and split 'train' the first 2"),
        ({"x_val": np.zeros((20, 3, 9, 9), np.uint8)}, r"\(3, 8, 8\) .* in split 'train' and \(3, 9, 9\)"),
    ],
)
def test_a_part_that_does_not_fit_is_refused_not_replaced(tmp_path, changed, words):
    with pytest.raises(DataError, match=words):
        split_data(arrays(tmp_path / "odd.npz", **changed)[0], "train")


def test_a_class_that_one_part_lacks_does_not_shift_the_others(tmp_path):
    spec = photographs(tmp_path, ["train", "val"])
    (tmp_path / "val" / "cat").rename(tmp_path / "val" / "ant")
    with pytest.raises(DataError, match=r"class 0 of .* is 'cat' in split 'train' and 'ant' in split 'val'"):
        split_data(spec, "val")


def test_a_damaged_photograph_is_no_missing_part(tmp_path):
    spec = photographs(tmp_path, ["train", "val"])
    (tmp_path / "val" / "cat" / "0.png").write_text("no image")
    with pytest.raises(DataError, match=r"val.cat.0\.png cannot be read"):
        split_data(spec, "train")


@pytest.mark.parametrize(
    ("splits", "judge"), [(["train", "val", "test"], "test"), (["train", "val"], "val"), ([""], "held-out")]
)
def test_what_judges_a_training_has_a_name(tmp_path, splits, judge):
    spec = photographs(tmp_path, splits)
    assert judging_split(spec) == judge
    assert torch.equal(load_split(spec, judge).ids, split_data(spec, "test").ids)


def test_the_imagenet_recipe_runs_end_to_end_on_photographs(shared, tmp_path):
    request = TrainingRequest(
        "gat",
        data=f"folder:{shared / 'data' / 'imagenette-mini'}",
        model="resnet18-imagenet",
        out=tmp_path / "run",
        options={"epochs": "1", "batch": "4", "probe": "2"},
        eps="8/255",
        n=8,
        preset="imagenet",
    )
    trained = train(request)
    assert trained.plan.own["weight"] == 20.0
    assert trained.plan.settings.drops == (0.5, 0.75)
    (row,) = trained.story.rows
    assert 0 < row["train"]["loss"] < 100
    result = evaluated(trained, "selected", ["fgsm"], n=2)
    assert result.n == 2


def test_the_first_photographs_are_of_all_classes(shared):
    data = load_data(f"folder:{shared / 'data' / 'imagenette-mini'}", "train")
    assert data.labels[:10].tolist() == list(range(10))
