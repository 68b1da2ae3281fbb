"""Many processes on one run: the only file that knows torchrun."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist

from gamagat.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Ranks:
    """This process among those that torchrun started; one of one where it did not."""

    rank: int = 0
    count: int = 1

    @classmethod
    def here(cls) -> Ranks:
        """This process, as torchrun tells it."""
        try:
            return cls(int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1")))
        except ValueError:
            raise ConfigError(
                "RANK and WORLD_SIZE must be numbers, as torchrun sets them; unset them"
            ) from None

    @property
    def first(self) -> bool:
        """Whether this process speaks for all."""
        return self.rank == 0

    def wait(self) -> None:
        """Go on when all have come here."""
        if self.count > 1:
            dist.barrier()

    def heard(self, words: str | None) -> str | None:
        """What the first process has to say, in all of them."""
        told = [words]
        if self.count > 1:
            dist.broadcast_object_list(told, src=0)
        return told[0]

    def device(self, device: torch.device) -> torch.device:
        """The GPU of this process, where each has one of its own."""
        if self.count > 1 and device.type == "cuda" and device.index is None:
            return torch.device("cuda", int(os.environ.get("LOCAL_RANK", self.rank)))
        return device


@contextmanager
def ranks() -> Iterator[Ranks]:
    """Join the other processes for as long as this lasts."""
    here = Ranks.here()
    if here.count == 1:
        yield here
        return
    # Ranks wait for the slowest, and a slow evaluation takes days. Only words are exchanged: gloo will do.
    dist.init_process_group("gloo", timeout=timedelta(days=30))
    try:
        yield here
    finally:
        dist.destroy_process_group()
