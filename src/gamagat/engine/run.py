"""A run folder read back: the manifest and all verdicts, whichever process wrote them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gamagat.engine.codec import Pixels, decode
from gamagat.engine.ledger import CLEAN, VERDICTS, Finished, Ledger
from gamagat.engine.manifest import Manifest
from gamagat.errors import RunError

NOT_RUN = -1
RESULT = "result.json"  # the numbers of a run as they were reported
Table = NDArray[Any]  # rows of VERDICTS


@dataclass(frozen=True, slots=True)
class Run:
    """Everything a run knows. `ids` are the images with a verdict, sorted; every table is in their order."""

    folder: Path
    manifest: Manifest
    ids: NDArray[np.int64]
    entries: dict[str, Table]  # rows of VERDICTS; `fooled` is NOT_RUN where there is no verdict
    finished: list[Finished]
    chunks: NDArray[np.int64]  # of each image

    def table(self, entry: str) -> Table:
        """The verdicts of one entry; blank if it has not begun."""
        return self.entries[entry] if entry in self.entries else _aligned(np.zeros(0, VERDICTS), self.ids)

    def fooled(self, entry: str) -> NDArray[np.int8]:
        """1 where the entry fooled the network, 0 where it did not, NOT_RUN where it has not tried."""
        return self.table(entry)["fooled"]

    def right(self) -> NDArray[np.bool_]:
        """Which images the network gets right untouched."""
        return np.asarray(self.fooled(CLEAN) == 0)

    def standing(self, runs: list[str]) -> NDArray[np.bool_]:
        """Which images are right untouched and after each of these runs."""
        standing = self.right()
        for run in runs:
            standing &= self.fooled(run) != 1
        return standing

    def settled(self, runs: list[str]) -> NDArray[np.bool_]:
        """Which images these runs are through with.

        It goes by whole chunks: images that fall are done with early, and to count them at once while others
        of their chunk are still on their way would show a run in progress weaker than it ends.
        """
        done: dict[str, set[int]] = {run: set() for run in (CLEAN, *runs)}
        for chunk in self.finished:  # gone through once: an attack may have a thousand restarts
            if chunk.entry in done:
                done[chunk.entry].add(chunk.chunk)
        return np.isin(self.chunks, sorted(set.intersection(*done.values())))

    def images(self, entry: str, ids: list[int]) -> dict[int, Pixels]:
        """The adversarial images of these verdicts, without those that have none."""
        found: dict[int, Pixels] = {}
        for path in ledger_files(self.folder):
            with Ledger(path) as ledger:
                for id_ in ids:
                    content = ledger.image(entry, id_)
                    if content is not None:
                        found[id_] = decode(content, self.manifest.shape)
        return found


def ledger_files(folder: Path) -> list[Path]:
    """The ledgers of a run, one for each process that ever worked on it."""
    return sorted(folder.glob("ledger-*.sqlite"))


def read_run(folder: str | Path) -> Run:
    """Read a run folder; it may still be unfinished."""
    folder = Path(folder)
    manifest = Manifest.read(folder)
    if manifest is None:
        raise RunError(f"{folder} holds no run: there is no manifest.json in it; give the folder of --out")
    tables: dict[str, list[Table]] = {}
    finished: list[Finished] = []
    members = [np.zeros((0, 2), np.int64)]
    for path in ledger_files(folder):
        with Ledger(path) as ledger:
            finished += ledger.finished()
            members.append(ledger.members())
            for entry in ledger.entries():
                tables.setdefault(entry, []).append(ledger.table(entry))
    ids, first = np.unique(np.concatenate(members)[:, 0], return_index=True)
    entries = {entry: _aligned(np.concatenate(parts), ids) for entry, parts in tables.items()}
    return Run(folder, manifest, ids, entries, finished, np.concatenate(members)[first, 1])


def _aligned(table: Table, ids: NDArray[np.int64]) -> Table:
    """The verdicts in the order of the ids; where there is none, `fooled` is NOT_RUN."""
    whole = np.zeros(len(ids), VERDICTS)
    whole["id"], whole["fooled"] = ids, NOT_RUN
    known = table[np.isin(table["id"], ids)]
    whole[np.searchsorted(ids, known["id"])] = known
    return whole
