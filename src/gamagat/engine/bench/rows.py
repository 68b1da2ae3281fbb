"""What a benchmark found: one row for each implementation, and what they say beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

PUBLISHED, OURS, PEER = "published", "ours", "peer"
PER_GRADIENT = "per gradient, nothing dropped"
WHOLE, TRAINING = "whole evaluation", "training"


@dataclass(frozen=True, slots=True)
class Row:
    """One implementation; without seconds, the note says why."""

    part: str  # which comparison it belongs to
    who: str  # PUBLISHED, OURS or PEER
    what: str
    images: int
    seconds: float | None = None
    gradients: float = 0.0  # of single images, in all
    accuracy: float | None = None  # percent left; None where only speed is measured
    flops: float = 0.0  # of all passes through the network
    limit: float = 0.0  # operations a second that the machine reaches
    peak: int | None = None  # bytes
    note: str = ""
    precision: str = "fp32"
    cpu_seconds: float | None = None  # of the process: a check on the seconds where a machine is shared
    attack_seconds: float | None = None  # of an evaluation: the part of the attack and its judge

    @property
    def images_per_second(self) -> float | None:
        return None if not self.seconds else self.images / self.seconds

    @property
    def gradients_per_second(self) -> float | None:
        return None if not self.seconds or not self.gradients else self.gradients / self.seconds

    @property
    def percent_of_limit(self) -> float | None:
        if not self.seconds or not self.flops or not self.limit:
            return None
        return 100 * self.flops / self.seconds / self.limit

    def faster_than(self, other: Row | None) -> float | None:
        """How many times the other's images a second."""
        if other is None or self.images_per_second is None or other.images_per_second is None:
            return None
        return self.images_per_second / other.images_per_second

    def fastest(self, other: Row | None) -> Row:
        """Of two measurements of the same thing, the faster; the peak is the higher of the two."""
        if other is None or other.seconds is None:
            return self
        if self.seconds is None:
            return other
        best = self if self.seconds <= other.seconds else other
        return replace(best, peak=max(self.peak or 0, other.peak or 0) or None)


@dataclass(frozen=True, slots=True)
class Bench:
    """All rows of one network on one machine, and what was the same for all of them."""

    title: str
    facts: dict[str, str]
    rows: tuple[Row, ...]

    def parts(self) -> list[str]:
        """The comparisons, in their order."""
        return list(dict.fromkeys(row.part for row in self.rows))

    def of(self, part: str, who: str) -> list[Row]:
        """The rows of one comparison that were measured."""
        return [row for row in self.rows if row.part == part and row.who == who and row.seconds]

    def published(self, part: str) -> Row | None:
        """The published-style loop of this comparison."""
        return next(iter(self.of(part, PUBLISHED)), None)

    def times_published(self, row: Row) -> float | None:
        """How many times the published loop's images a second."""
        return row.faster_than(self.published(row.part))

    def as_json(self) -> dict[str, Any]:
        """All that the table says."""
        return {
            "title": self.title,
            "facts": self.facts,
            "rows": [self._row(row) for row in self.rows],
            "summary": summary(self),
        }

    def _row(self, row: Row) -> dict[str, Any]:
        return {
            "part": row.part,
            "who": row.who,
            "what": row.what,
            "precision": row.precision,
            "seconds": row.seconds,
            "cpu_seconds": row.cpu_seconds,
            "attack_seconds": row.attack_seconds,
            "images": row.images,
            "images_per_second": row.images_per_second,
            "gradients": row.gradients,
            "gradients_per_second": row.gradients_per_second,
            "accuracy_left": row.accuracy,
            "times_published": self.times_published(row),
            "flops": row.flops,
            "machine_flops_per_second": row.limit,
            "percent_of_limit": row.percent_of_limit,
            "peak_bytes": row.peak,
            "note": row.note,
        }


def summary(bench: Bench) -> list[str]:
    """Ours beside the published loop and beside the best peer, in words."""
    return [words for part in bench.parts() for row in bench.of(part, OURS) for words in _beside(bench, row)]


def _beside(bench: Bench, row: Row) -> list[str]:
    found = []
    times = bench.times_published(row)
    published = bench.published(row.part)
    if times is not None and published is not None:
        found.append(f"{row.part}: {row.what} is {times:.2f} times the published loop{_left(row, published)}")
    loop = bench.published(PER_GRADIENT)
    if row.seconds and row.attack_seconds and loop is not None and loop.seconds:
        found.append(
            f"{row.part}: of the {row.seconds:.3g} s of {row.what} the attack and its judge take "
            f"{row.attack_seconds:.3g}; the published loop alone takes "
            f"{loop.seconds / row.attack_seconds:.2f} times that"
        )
    if (peer := quickest(bench.of(row.part, PEER))) is not None:
        # Peers may leave out images and so take fewer gradients: where nothing is dropped, gradients count.
        ratio = _per_gradient(row, peer) if row.part == PER_GRADIENT else row.faster_than(peer)
        found.append(
            f"{row.part}: {row.what} is {ratio:.2f} times the best peer, {peer.what}{_left(row, peer)}"
        )
    return found


def quickest(rows: Sequence[Row]) -> Row | None:
    """The row with the most gradients a second where nothing is dropped, else with the most images."""
    return max(rows, key=_speed, default=None)


def _speed(row: Row) -> float:
    return (row.gradients_per_second if row.part == PER_GRADIENT else row.images_per_second) or 0.0


def _per_gradient(row: Row, other: Row) -> float:
    return (row.gradients_per_second or 0.0) / (other.gradients_per_second or float("inf"))


def _left(row: Row, other: Row) -> str:
    if row.accuracy is None or other.accuracy is None:
        return ""
    return f" ({row.accuracy:.2f} % left, there {other.accuracy:.2f} %)"
