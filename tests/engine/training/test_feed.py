"""Batches come in the same order wherever they come from and however many processes share them."""

import time

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gamagat.data.core import Dataset, from_tensors
from gamagat.engine.ranks import Ranks
from gamagat.engine.training import feed as feeds
from gamagat.engine.training.feed import Resident, Streamed, divided, make_feed, my_order, shuffled
from gamagat.errors import ConfigError, DataError
from gamagat.pieces.noise import Noise

CPU = torch.device("cpu")


def some_images(count: int = 53) -> Dataset:
    generator = torch.Generator().manual_seed(1)
    images = torch.randint(0, 256, (count, 3, 4, 4), dtype=torch.uint8, generator=generator)
    labels = torch.randint(0, 5, (count,), generator=generator)
    return from_tensors(images, name="some", labels=labels, ids=torch.arange(count) * 31 + 7)


def slow_images(count: int = 53) -> Dataset:
    """The same images from a disk whose first answers take longest."""
    data, calls = some_images(count), []

    def read(positions):
        calls.append(len(positions))
        time.sleep(0.03 / len(calls))
        return data.read(positions)

    return Dataset("slow", read, data.labels, data.ids, data.classes, data.shape)


def taken(feed, data: Dataset, batch: int, group: Ranks, epochs: int) -> list[list[torch.Tensor]]:
    """All batches of all epochs, copied."""
    found = []
    for epoch in range(epochs):
        order, keys = shuffled(len(data), 5, epoch), Noise.for_images(data.ids, 5).fold(epoch).keys
        feed.begin(my_order(order, batch, group), keys)
        for number, part in enumerate(divided(len(data), batch, group)):
            feed.ready(number, part.images)
            found.append([value.clone() for value in feed.read(torch.tensor(number), part.images)])
            assert len(found[-1][1]) == part.images
    return found


@pytest.mark.parametrize("kind", [some_images, slow_images])
@pytest.mark.parametrize(("batch", "count"), [(8, 1), (12, 3), (100, 1), (52, 2), (1, 1)])
def test_streamed_and_resident_images_come_in_the_same_batches(kind, batch, count):
    for rank in range(count):
        data, group, size = kind(), Ranks(rank, count), batch // count
        resident = taken(Resident(data, size, CPU), data, batch, group, 3)
        streamed = taken(Streamed(data, size, CPU), data, batch, group, 3)
        assert len(resident) == len(streamed)
        for ours, theirs in zip(resident, streamed, strict=True):
            assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


def test_images_labels_and_keys_belong_together():
    data = some_images()
    order, keys = shuffled(len(data), 0, 0), Noise.for_images(data.ids).keys
    feed = Resident(data, 8, CPU)
    feed.begin(order, keys)
    raw = feed.read(torch.tensor(2), 8)
    places = order[16:24]
    assert torch.equal(raw.images, data.read(places))
    assert torch.equal(raw.labels, data.labels[places])
    assert torch.equal(raw.keys, keys[places])


def test_streamed_images_are_read_a_few_batches_ahead_and_no_more():
    data, seen = some_images(), []

    def read(positions):
        seen.append(positions)
        return data.read(positions)

    feed = Streamed(Dataset("seen", read, data.labels, data.ids, data.classes, data.shape), 4, CPU, readers=1)
    seen.clear()
    feed.begin(torch.arange(53), data.ids)
    feed.ready(0, 4)
    feed.pool.shutdown()
    assert len(seen) <= 1 + feeds.AHEAD


def test_an_epoch_left_half_way_does_not_reach_into_the_next():
    data, group = slow_images(), Ranks()
    feed = Streamed(data, 8, CPU)
    feed.begin(torch.arange(53), data.ids)
    feed.ready(0, 8)
    expected = taken(Resident(data, 8, CPU), data, 8, group, 1)
    for ours, theirs in zip(taken(feed, data, 8, group, 1), expected, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


def test_an_error_while_reading_ahead_is_told_when_the_batch_is_due():
    data = some_images()

    def read(positions):
        if 20 in positions:
            raise DataError("photo 20 is damaged")
        return data.read(positions)

    feed = Streamed(Dataset("odd", read, data.labels, data.ids, data.classes, data.shape), 8, CPU)
    feed.begin(torch.arange(53), data.ids)
    feed.ready(0, 8)
    feed.ready(1, 8)
    with pytest.raises(DataError, match="photo 20 is damaged"):
        feed.ready(2, 8)


def test_small_data_is_resident_and_large_is_streamed(monkeypatch):
    assert isinstance(make_feed(some_images(), 8, CPU), Resident)
    data = some_images()
    # A view of one image that claims to be a hundred thousand large ones.
    large = torch.zeros(1, 3, 256, 256, dtype=torch.uint8).expand(100_000, -1, -1, -1)
    many = torch.zeros(100_000, dtype=torch.int64)
    huge = Dataset(
        "huge", lambda places: large[places], many, torch.arange(100_000), data.classes, (3, 256, 256)
    )
    assert isinstance(make_feed(huge, 8, CPU), Streamed)


SIZES = st.tuples(st.integers(1, 120), st.integers(1, 12), st.integers(1, 5))


@settings(deadline=None)
@given(SIZES, st.integers(0, 3))
def test_all_processes_together_take_every_image_once(sizes, epoch):
    total, each, count = sizes
    batch, order = each * count, shuffled(total, 1, epoch)
    rest = total % batch
    left_out = rest if rest < count else 0
    assume(total > left_out)
    found, shares, images = [], [], []
    for rank in range(count):
        group = Ranks(rank, count)
        parts, mine = divided(total, batch, group), my_order(order, batch, group)
        images.append([part.images for part in parts])
        shares.append([part.share for part in parts])
        found.append(torch.split(mine[: sum(images[-1])], images[-1]))
    assert len({len(parts) for parts in images}) == 1  # as many steps on each, or they wait for ever
    assert all(size <= each for sizes in images for size in sizes)
    for number, whole in enumerate(torch.split(order[: total - left_out], batch)):
        assert torch.equal(torch.cat([parts[number] for parts in found]), whole)
        weights = [part[number] for part in shares]
        assert sum(weights) / count == pytest.approx(1.0)
        # Each image has the same weight in the mean over all processes.
        assert all(
            weight / size == pytest.approx(count / len(whole))
            for weight, size in zip(weights, [part[number] for part in images], strict=True)
        )


def test_fewer_images_than_processes_are_one_sentence():
    with pytest.raises(ConfigError, match="3 processes cannot share 2 images"):
        divided(2, 9, Ranks(0, 3))


def test_a_batch_that_cannot_be_shared_equally_is_one_sentence():
    with pytest.raises(ConfigError, match="a batch of 10 cannot be shared equally by 3 processes"):
        divided(100, 10, Ranks(0, 3))


@settings(deadline=None)
@given(st.integers(1, 300), st.integers(0, 10**9), st.integers(0, 100))
def test_an_order_is_a_permutation_that_depends_on_seed_and_epoch_alone(count, seed, epoch):
    order = shuffled(count, seed, epoch)
    assert torch.equal(order.sort().values, torch.arange(count))
    assert torch.equal(order, shuffled(count, seed, epoch))


def test_every_epoch_and_every_seed_has_an_order_of_its_own():
    orders = {tuple(shuffled(40, seed, epoch).tolist()) for seed in range(5) for epoch in range(5)}
    assert len(orders) == 25
