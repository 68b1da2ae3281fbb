"""The contract that every data set keeps."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from gamagat.data.core import DATASETS, Dataset, check_split, from_tensors, load_data, to_unit
from gamagat.errors import ConfigError, DataError


def grey_levels(count: int = 6) -> Dataset:
    """`count` images, the pixels of each equal to its position."""
    images = torch.arange(count, dtype=torch.uint8).repeat_interleave(4).reshape(count, 1, 2, 2)
    return from_tensors(images, name="levels", labels=torch.arange(count) % 3, ids=100 + torch.arange(count))


def levels(images: Tensor) -> list[int]:
    return (images[:, 0, 0, 0] * 255).round().int().tolist()


def test_every_promised_data_set_is_registered_and_explains_itself() -> None:
    promised = {"arrays", "cifar10", "digits", "folder", "hf", "imagenet100", "mnist"}
    assert promised <= set(DATASETS.names())
    assert all(DATASETS[name].summary for name in promised)


def test_head_keeps_the_first_images() -> None:
    few = grey_levels().head(2)
    assert len(few) == 2
    assert few.ids.tolist() == [100, 101]
    assert levels(few.batch(torch.tensor([1]))[0]) == [1]


@pytest.mark.parametrize("count", [None, 6, 7])
def test_head_of_all_is_the_whole(count: int | None) -> None:
    whole = grey_levels()
    assert whole.head(count) is whole


@pytest.mark.parametrize("count", [0, -1])
def test_head_of_nothing_is_refused(count: int) -> None:
    with pytest.raises(ConfigError, match=f"positive, got {count}"):
        grey_levels().head(count)


def test_take_composes_and_keeps_labels_and_ids_with_their_images() -> None:
    taken = grey_levels().take(torch.tensor([5, 3, 1])).take(torch.tensor([2, 0]))
    images, labels = taken.batch(torch.tensor([0, 1]))
    assert levels(images) == [1, 5]
    assert labels.tolist() == [1, 2]
    assert taken.ids.tolist() == [101, 105]


def test_take_accepts_a_mask() -> None:
    taken = grey_levels().take(torch.tensor([False, True, False, False, True, False]))
    assert taken.ids.tolist() == [101, 104]
    assert levels(taken.batch(torch.tensor([0, 1]))[0]) == [1, 4]


def test_batch_makes_floats_and_read_keeps_bytes() -> None:
    whole = grey_levels()
    images, labels = whole.batch(torch.tensor([0, 5]))
    assert whole.read(torch.tensor([0])).dtype == torch.uint8
    assert images.dtype == torch.float32
    assert images.shape == (2, *whole.shape)
    assert labels.dtype == torch.int64
    assert images[1].unique().tolist() == [(torch.tensor(5.0) / 255).item()]


def test_an_empty_batch_is_fine() -> None:
    assert grey_levels().batch(torch.arange(0))[0].shape == (0, 1, 2, 2)


def test_bytes_become_the_nearest_float() -> None:
    exact = torch.arange(256, dtype=torch.float64) / 255
    assert torch.equal(to_unit(torch.arange(256, dtype=torch.uint8)), exact.float())


@pytest.mark.parametrize("bad", [float("nan"), -0.01, 1.01, 255.0])
def test_float_pixels_outside_the_unit_range_are_refused(bad: float) -> None:
    images = torch.full((2, 1, 2, 2), 0.5)
    images[1, 0, 1, 1] = bad
    data = from_tensors(images, name="floats", labels=torch.zeros(2, dtype=torch.long))
    assert data.batch(torch.tensor([0]))[0].dtype == torch.float32
    with pytest.raises(DataError, match=r"'floats' must lie in \[0, 1\]"):
        data.batch(torch.tensor([0, 1]))


def test_ids_and_classes_have_defaults() -> None:
    data = from_tensors(torch.zeros(3, 1, 2, 2), name="plain", labels=torch.tensor([0, 2, 1]))
    assert data.ids.tolist() == [0, 1, 2]
    assert data.classes == ("0", "1", "2")


@pytest.mark.parametrize(
    ("labels", "ids", "message"),
    [
        ([], [], "empty"),
        ([0, 9], [0, 1], "run from 0 to 9"),
        ([-1], [0], "run from -1"),
        ([0], [0, 1], "2 ids"),
    ],
)
def test_labels_that_do_not_fit_are_refused(labels: list[int], ids: list[int], message: str) -> None:
    images = torch.zeros(len(labels), 1, 2, 2)
    given = torch.tensor(labels, dtype=torch.long)
    with pytest.raises(DataError, match=message):
        from_tensors(images, name="bad", labels=given, ids=torch.tensor(ids), classes=("a", "b"))


def test_images_and_labels_must_be_as_many() -> None:
    with pytest.raises(DataError, match="3 images but 2 labels"):
        from_tensors(torch.zeros(3, 1, 2, 2), name="short", labels=torch.zeros(2, dtype=torch.long))


def test_images_must_have_four_axes() -> None:
    with pytest.raises(DataError, match=r"channel, height, width\), got \(2, 4\)"):
        from_tensors(torch.zeros(2, 4), name="flat", labels=torch.zeros(2, dtype=torch.long))


def test_an_unknown_split_is_answered_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"split of data set 'x' 'tset'; did you mean 'test'.*test, train"):
        check_split("x", "tset", ("test", "train"))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("digits:here", "takes nothing after the colon"),
        ("folder", "needs a source after a colon"),
        ("arrays:", "needs a source after a colon"),
        ("cifar", "did you mean 'cifar10'"),
    ],
)
def test_a_wrong_name_or_source_is_refused(spec: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_data(spec)


def test_a_source_may_contain_colons(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="a:b"):
        load_data(f"folder:{tmp_path}/a:b")


@pytest.mark.parametrize("kind", [torch.uint8, torch.float32])
@pytest.mark.parametrize("positions", [[0, 1, 2], [3, 4], [], [2, 1], [1, 3], [4], [-2, -1], [1, 1]])
def test_images_are_those_at_the_positions_and_never_the_stored_ones(kind, positions):
    images = torch.arange(5, dtype=torch.uint8).view(5, 1, 1, 1).to(kind)
    images = images / 8 if kind == torch.float32 else images
    data = from_tensors(images.clone(), name="some", labels=torch.arange(5))
    chosen = torch.tensor(positions, dtype=torch.int64)
    batch, labels = data.batch(chosen)
    assert batch.equal(to_unit(images[chosen]))
    assert labels.equal(chosen % 5)
    batch.fill_(0.5)
    assert data.batch(torch.arange(5))[0].equal(to_unit(images))
    with pytest.raises(IndexError):
        data.batch(torch.arange(3, 6))


def test_images_may_be_read_by_a_mask():
    images = torch.arange(2, dtype=torch.uint8).view(2, 1, 1, 1)
    data = from_tensors(images, name="two", labels=torch.arange(2))
    assert data.read(torch.tensor([False, True])).flatten().tolist() == [1]
