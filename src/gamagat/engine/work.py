"""The work of an evaluation: chunk after chunk of images through one run after another, into the ledger."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gamagat.attacks.combine import passes
from gamagat.attacks.core import Attack
from gamagat.engine.again import until_it_works
from gamagat.engine.arena import Arena, Chunk, attacked
from gamagat.engine.ledger import CLEAN, Ledger
from gamagat.engine.manifest import Manifest
from gamagat.engine.ranks import Ranks
from gamagat.engine.run import NOT_RUN, Run
from gamagat.engine.scribe import Scribe
from gamagat.engine.watch import Watch


class Book(NamedTuple):
    """The ledger and who writes into it while the next images are attacked."""

    ledger: Ledger
    scribe: Scribe

    def record(self, name: str, number: int, chunk: Chunk | None, seconds: float) -> None:
        """Write down a finished chunk; None if no image of it was left."""

        def write() -> None:
            verdicts, images = ([], {}) if chunk is None else (chunk.verdicts(), chunk.encoded())
            self.ledger.record(name, number, verdicts, images, seconds)

        self.scribe.write(write)


@dataclass(slots=True)
class Work:
    """What is known of every image so far, by position, and which chunks are this process's."""

    arena: Arena
    fooled: dict[str, NDArray[np.int8]]
    finished: set[tuple[str, int]]
    chunks: list[tuple[int, Tensor]]

    @classmethod
    def resume(cls, arena: Arena, run: Run, manifest: Manifest, group: Ranks) -> Work:
        """Take over what the ledgers hold."""
        count, ids = len(arena.data), arena.data.ids.numpy()
        known: dict[str, NDArray[np.int8]] = {}
        for entry in [CLEAN, *manifest.entries()]:
            known[entry] = np.full(count, NOT_RUN, np.int8)
            if len(run.ids):
                place = np.searchsorted(run.ids, ids).clip(0, len(run.ids) - 1)
                known[entry] = np.where(run.ids[place] == ids, run.fooled(entry)[place], NOT_RUN).astype(
                    np.int8
                )
        parts = torch.split(torch.arange(count), manifest.chunk)
        chunks = [(number, part) for number, part in enumerate(parts) if number % group.count == group.rank]
        return cls(arena, known, {(done.entry, done.chunk) for done in run.finished}, chunks)

    def left(self, names: list[str]) -> bool:
        """Whether one of these runs is not through with this process's chunks."""
        return any((name, number) not in self.finished for name in names for number, _ in self.chunks)

    def entry(self, book: Book, name: str, attack: Attack | None, before: list[str]) -> None:
        """One run of one attack over the images that the runs before it left standing; None: no attack."""
        todo = [(number, self._standing(part, before, attack)) for number, part in self.chunks]
        most = 1 if attack is None else passes(attack)
        watch = Watch(self.arena.onlooker, name, sum(len(part) for _, part in todo), most)
        for number, part in todo:
            if (name, number) not in self.finished:
                began = perf_counter()
                chunk = self._chunk(watch, part, attack) if len(part) else None
                book.record(name, number, chunk, perf_counter() - began)
                if chunk is not None:
                    self.fooled[name][part.numpy()] = chunk.fooled.numpy()
            watch.end(len(part))

    def _standing(self, part: Tensor, before: list[str], attack: Attack | None) -> Tensor:
        if attack is None:
            return part
        alive = self.fooled[CLEAN][part.numpy()] == 0
        for name in before:
            alive &= self.fooled[name][part.numpy()] != 1
        return part[torch.from_numpy(alive)]

    def _chunk(self, watch: Watch, part: Tensor, attack: Attack | None) -> Chunk:
        """The verdicts on these images."""

        def attempt() -> Chunk:
            watch.begin(len(part))
            return attacked(self.arena, part, attack, watch)

        return until_it_works(self.arena, attempt)
