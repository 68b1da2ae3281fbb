"""Where batches come from: a data set that lies on the device, or one that is read ahead from its files."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from gamagat.data.core import Dataset
from gamagat.engine.ranks import Ranks
from gamagat.errors import ConfigError, GamagatError, ModelError
from gamagat.pieces.noise import Noise
from gamagat.pieces.types import Labels

AHEAD = 4  # batches that are read before they are needed


class Part(NamedTuple):
    """One batch of this process: how many images it has, and its share of all processes' images."""

    images: int
    share: float


class Raw(NamedTuple):
    """Images as they are stored, labels, and the keys of each image's random numbers in this epoch."""

    images: Tensor
    labels: Labels
    keys: Labels


class Feed(Protocol):
    """Batches in the order of an epoch. What `read` does may be recorded; what `ready` does may not."""

    def begin(self, order: Tensor, keys: Labels) -> None: ...

    def ready(self, number: int, count: int) -> None: ...

    def read(self, number: Tensor, count: int) -> Raw: ...


def divided(total: int, batch: int, group: Ranks) -> list[Part]:
    """The batches of an epoch, as far as they are this process's; too small a rest is left out."""
    if batch % group.count:
        raise ConfigError(
            f"a batch of {batch} cannot be shared equally by {group.count} processes; use a multiple of it"
        )
    parts = [Part(batch // group.count, 1.0)] * (total // batch)
    rest = total % batch
    if rest >= group.count:
        mine = len(torch.arange(rest).tensor_split(group.count)[group.rank])
        parts.append(Part(mine, mine * group.count / rest))
    if not parts:
        raise ConfigError(
            f"{group.count} processes cannot share {total} images; give at least {group.count} of them, or "
            "start fewer processes"
        )
    return parts


@contextmanager
def told_of_one(images: int, batch: int) -> Iterator[None]:
    """Say why a batch of one image fails where a batch norm has nothing but it to average over."""
    try:
        yield
    except ValueError as error:  # as torch has it
        if images > 1 or isinstance(error, GamagatError):
            raise
        raise ModelError(
            f"the last batch of an epoch has one image, on which the network cannot be trained: {error}; "
            f"give another --n, or another size than --set batch={batch}"
        ) from error


def my_order(order: Tensor, batch: int, group: Ranks) -> Tensor:
    """This process's positions, batch after batch."""
    if group.count == 1:
        return order
    whole = [part.tensor_split(group.count)[group.rank] for part in torch.split(order, batch)]
    return torch.cat(whole)


class Resident:
    """All images on the device as they are stored; a batch is one look-up there."""

    def __init__(self, data: Dataset, size: int, device: torch.device) -> None:
        read = [data.read(part) for part in torch.split(torch.arange(len(data)), 4096)]
        self.images = torch.cat(read).to(device)
        self.labels, self.size = data.labels.to(device), size
        self.order = torch.zeros(len(data), dtype=torch.int64, device=device)
        self.keys = torch.zeros(len(data), dtype=torch.int64, device=device)
        self.lane = torch.arange(size, device=device)

    def begin(self, order: Tensor, keys: Labels) -> None:
        self.order[: len(order)] = order.to(self.order.device)
        self.keys.copy_(keys)

    def ready(self, number: int, count: int) -> None:
        """Nothing to wait for."""

    def read(self, number: Tensor, count: int) -> Raw:
        places = self.order[number * self.size + self.lane[:count]]
        return Raw(self.images[places], self.labels[places], self.keys[places])


class Streamed:
    """Images that are read from their files by threads, a few batches ahead."""

    def __init__(self, data: Dataset, size: int, device: torch.device, readers: int = 4) -> None:
        self.data, self.size, self.device = data, size, device
        sample = data.read(torch.zeros(1, dtype=torch.int64))
        self.images = sample.new_zeros(size, *sample.shape[1:], device=device)
        self.labels = torch.zeros(size, dtype=torch.int64, device=device)
        self.keys = torch.zeros(size, dtype=torch.int64, device=device)
        self.pool = ThreadPoolExecutor(readers)
        self.pending: list[Future[Raw]] = []
        self.coming: Iterator[Tensor] = iter(())

    def begin(self, order: Tensor, keys: Labels) -> None:
        for future in self.pending:
            future.cancel()
        self.epoch_keys = keys
        self.coming = iter(torch.split(order, self.size))
        self.pending = []
        for _ in range(AHEAD):
            self._ask()

    def _ask(self) -> None:
        with suppress(StopIteration):
            self.pending.append(self.pool.submit(self._load, next(self.coming)))

    def _load(self, places: Tensor) -> Raw:
        images = self.data.read(places)
        if self.device.type == "cuda":
            images = images.pin_memory()
        return Raw(images, self.data.labels[places], self.epoch_keys[places])

    def ready(self, number: int, count: int) -> None:
        """Wait for the next batch and put it where a recorded step looks for it."""
        raw = self.pending.pop(0).result()
        self._ask()
        for place, values in zip((self.images, self.labels, self.keys), raw, strict=True):
            place[:count].copy_(values[:count], non_blocking=True)

    def read(self, number: Tensor, count: int) -> Raw:
        return Raw(self.images[:count], self.labels[:count], self.keys[:count])


def make_feed(data: Dataset, size: int, device: torch.device) -> Feed:
    """Resident where the images take at most a third of the device's free memory, else streamed."""
    sample = data.read(torch.zeros(1, dtype=torch.int64))
    needed = len(data) * sample.numel() * sample.element_size()
    free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else 4 << 30
    return (Resident if needed <= free // 3 else Streamed)(data, size, device)


def shuffled(count: int, seed: int, epoch: int) -> Tensor:
    """The order of an epoch; the same on every device and in every process."""
    numbers = Noise.for_images(torch.arange(count), seed).fold(epoch).keys
    return numbers.argsort()
