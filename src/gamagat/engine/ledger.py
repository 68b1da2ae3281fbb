"""The ledger: what every run of every attack did to every image; the only source of every number in a report.

One SQLite file for each process, one transaction for each finished chunk of images: a process that is killed
loses the chunk that it attacks and the one that it writes, and nothing else. Verdicts of all files together
make the run.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gamagat.errors import DamagedError, RunError

CLEAN = "clean"  # the entry of the untouched images: fooled means misclassified
DAMAGE = ("no such table", "Could not decode")  # as SQLite says it
PAGE = 32768  # bytes: several images to a page are written faster than several pages to an image
SCHEMA = """
CREATE TABLE verdicts (
    entry TEXT, id INTEGER, fooled INTEGER, prediction INTEGER, distance REAL, step INTEGER,
    forwards INTEGER, backwards INTEGER, PRIMARY KEY (entry, id)
) WITHOUT ROWID;
CREATE TABLE images (entry TEXT, id INTEGER, image BLOB, PRIMARY KEY (entry, id));
CREATE TABLE members (id INTEGER PRIMARY KEY, chunk INTEGER);
CREATE TABLE finished (
    entry TEXT, chunk INTEGER, seconds REAL, digest TEXT, PRIMARY KEY (entry, chunk)
) WITHOUT ROWID;
"""


class Verdict(NamedTuple):
    """One image under one run, as the judge saw it."""

    id: int
    fooled: int
    prediction: int
    distance: float
    step: int  # at which the attack saw it fall; -1: it did not
    forwards: int
    backwards: int


VERDICTS = np.dtype(
    [
        ("id", np.int64),
        ("fooled", np.int8),
        ("prediction", np.int32),
        ("distance", np.float64),
        ("step", np.int32),
        ("forwards", np.int32),
        ("backwards", np.int32),
    ]
)


class Finished(NamedTuple):
    """A chunk of images that a run is through with."""

    entry: str
    chunk: int
    seconds: float
    digest: str


def digest_of(
    salt: str, entry: str, chunk: int, verdicts: Iterable[Verdict], images: dict[int, bytes]
) -> str:
    """A fingerprint of all that is written for one chunk: one byte changed and it is another."""
    total = hashlib.sha256(f"{salt} {entry} {chunk}".encode())
    for verdict in sorted(verdicts):
        total.update(repr(tuple(verdict)).encode())
        total.update(images.get(verdict.id, b""))
    return total.hexdigest()


def _create(path: Path) -> None:
    """An empty ledger, made under another name: there is never a file without its tables."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    base = sqlite3.connect(partial)
    base.execute(f"PRAGMA page_size = {PAGE}")
    base.executescript(f"BEGIN;{SCHEMA}COMMIT;")  # one wait for the disk instead of four
    base.close()
    partial.replace(path)


class Ledger:
    """One file of the run. Opened for writing, it is this process's alone until it is closed.

    `salt` goes into every fingerprint: the settings of the run, so that they cannot be changed afterwards.
    With `lasting`, what is recorded is on the disk before anything else happens.
    """

    def __init__(self, path: Path, writable: bool = False, salt: str = "", lasting: bool = True) -> None:
        self.path, self.salt = path, salt
        with self._explained("open"):
            if writable and not path.exists():
                _create(path)
            # A killed process leaves a journal; whoever opens the file next and may write undoes its half.
            mode = "rw" if os.access(path, os.W_OK) and os.access(path.parent, os.W_OK) else "ro"
            where = f"{path.absolute().as_uri()}?mode={mode}"
            # One thread opens it and another may write, but never two at a time.
            self._base = sqlite3.connect(
                where, uri=True, timeout=1.0, isolation_level=None, check_same_thread=False
            )
            if not lasting:
                self._base.execute("PRAGMA synchronous = OFF")
            if writable:
                self._base.execute("PRAGMA locking_mode = EXCLUSIVE")
                self._base.execute("BEGIN EXCLUSIVE")
                self._base.execute("COMMIT")

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self._base.close()

    def record(
        self, entry: str, chunk: int, verdicts: list[Verdict], images: dict[int, bytes], seconds: float
    ) -> None:
        """Write a finished chunk, wholly or not at all."""
        done = (entry, chunk, seconds, digest_of(self.salt, entry, chunk, verdicts, images))
        with self._explained("write to"), self._transaction() as base:
            base.executemany(
                "INSERT INTO verdicts VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                ((entry, *verdict) for verdict in verdicts),
            )
            base.executemany(
                "INSERT INTO images VALUES (?, ?, ?)", ((entry, id_, image) for id_, image in images.items())
            )
            if entry == CLEAN:
                base.executemany("INSERT INTO members VALUES (?, ?)", ((row.id, chunk) for row in verdicts))
            base.execute("INSERT INTO finished VALUES (?, ?, ?, ?)", done)

    def finished(self) -> list[Finished]:
        """The chunks that are through."""
        with self._explained("read"):
            rows = self._base.execute("SELECT * FROM finished ORDER BY entry, chunk").fetchall()
            if any(None in row for row in rows):  # which is what SQLite makes of a file's missing end
                raise ValueError("a finished chunk lost some of its words")
            return [Finished(*row) for row in rows]

    def entries(self) -> list[str]:
        """The entries that have a verdict or a finished chunk."""
        with self._explained("read"):
            query = "SELECT entry FROM verdicts UNION SELECT entry FROM finished ORDER BY entry"
            return [entry for (entry,) in self._base.execute(query)]

    def table(self, entry: str) -> NDArray[Any]:
        """Every verdict of one entry, sorted by id."""
        query = f"SELECT {', '.join(VERDICTS.names or ())} FROM verdicts WHERE entry = ? ORDER BY id"
        with self._explained("read"):
            return np.fromiter(self._base.execute(query, (entry,)), VERDICTS)

    def members(self) -> NDArray[np.int64]:
        """Pairs of an image's id and its chunk."""
        with self._explained("read"):
            pairs = self._base.execute("SELECT id, chunk FROM members ORDER BY id").fetchall()
            return np.array(pairs, np.int64).reshape(-1, 2)

    def image(self, entry: str, id_: int) -> bytes | None:
        """The adversarial image of one verdict, as it was stored."""
        with self._explained("read"):
            found = self._base.execute("SELECT image FROM images WHERE entry = ? AND id = ?", (entry, id_))
            row = found.fetchone()
            return None if row is None else bytes(row[0])

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        self._base.execute("BEGIN")
        try:
            yield self._base
            self._base.execute("COMMIT")
        except BaseException:
            if self._base.in_transaction:
                self._base.execute("ROLLBACK")
            raise

    @contextmanager
    def _explained(self, what: str) -> Iterator[None]:
        try:
            yield
        except (TypeError, ValueError, OverflowError) as error:
            if what != "read":
                raise
            raise DamagedError(f"the ledger {self.path} is damaged: {error}") from error
        except (sqlite3.Error, OSError) as error:
            # Its other kinds are about use, locks and disks, but for these words.
            if type(error) is sqlite3.DatabaseError or any(words in str(error) for words in DAMAGE):
                raise DamagedError(f"the ledger {self.path} is damaged: {error}") from error
            hint = "another run is using it" if "locked" in str(error) else str(error)
            raise RunError(
                f"cannot {what} the ledger {self.path}: {hint}; what is recorded there is intact"
            ) from error
