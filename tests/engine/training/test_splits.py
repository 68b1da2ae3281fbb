"""Which images train, select and judge, whatever parts a data set has."""

import numpy as np
import torch
from PIL import Image

from gamagat.data.core import load_data
from gamagat.engine.training.card import evaluated
from gamagat.engine.training.run import TrainingRequest, train
from gamagat.engine.training.splits import split_data


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
