"""What stands in a table after a run: figures with their intervals, or the word that they were not run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean, pstdev
from typing import Any

import numpy as np
from scipy import stats

from gamagat.engine.distances import Distances
from gamagat.engine.share import Z95, Share
from gamagat.experiments.core import Derived, Slot, Table

MEASURED, NOT_RUN = "measured", "not run"
ALIKE = ("recipe", "changed", "model", "attack", "norm", "eps", "seed")  # in runs that a mean may be of


def places(unit: str) -> int:
    """How many decimals the paper gives."""
    return 2 if unit == "%" else 3


@dataclass(frozen=True, slots=True)
class Cell:
    """One figure of ours beside the paper's."""

    row: str
    column: str
    paper: float | None
    unit: str = "%"
    status: str = NOT_RUN
    ours: float | None = None
    interval: tuple[float, float] | None = None  # 95 %
    n: int = 0  # images that it is a figure of
    seconds: float = 0.0
    reason: str = ""  # why it was not run
    about: dict[str, Any] = field(default_factory=dict)  # network, attack, seed, command, date, versions

    @property
    def measured(self) -> bool:
        return self.status == MEASURED

    @property
    def apart(self) -> float | None:
        """Ours minus the paper's, where the paper's lies outside our interval."""
        if self.ours is None or self.paper is None or self.interval is None:
            return None
        # The paper's figure is rounded, and so are the ends of ours before they are compared.
        low, high = (round(end, places(self.unit)) for end in self.interval)
        return None if low <= self.paper <= high else self.ours - self.paper

    def as_json(self) -> dict[str, Any]:
        content = {
            "row": self.row, "column": self.column, "unit": self.unit, "status": self.status,
            "paper": self.paper, "ours": self.ours,
            "interval": None if self.interval is None else list(self.interval),
            "n": self.n, "seconds": round(self.seconds, 3),
        }  # fmt: skip
        return content | ({"reason": self.reason} if self.reason else {}) | self.about

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Cell:
        rest = dict(content)
        own = {
            key: rest.pop(key) for key in ("row", "column", "unit", "status", "paper", "ours", "n", "seconds")
        }
        interval, reason = rest.pop("interval"), rest.pop("reason", "")
        return cls(
            **own,
            interval=None if interval is None else (interval[0], interval[1]),
            reason=reason,
            about=rest,
        )


def not_run(table: Table, slot: Slot, reason: str) -> Cell:
    """An empty place, and why."""
    published = table.published(slot.row, slot.column)
    return Cell(slot.row, slot.column, published, slot.measure.unit, reason=reason)


def of_share(table: Table, slot: Slot, share: Share, seconds: float, about: dict[str, Any]) -> Cell:
    """An accuracy with Wilson's interval."""
    published = table.published(slot.row, slot.column)
    return Cell(
        slot.row,
        slot.column,
        published,
        "%",
        MEASURED,
        share.percent,
        share.ci95,
        share.of,
        seconds,
        "",
        about,
    )


def of_distances(table: Table, slot: Slot, nearest: Distances, seconds: float, about: dict[str, Any]) -> Cell:
    """The mean distance as the paper takes it: 0 for images that are wrong untouched.

    Images without an adversarial one do not count.
    """
    if nearest.mean is None:
        return not_run(table, slot, "no adversarial image was found at any distance")
    sizes = nearest.sizes[np.isfinite(nearest.sizes)]
    mean = float(sizes.mean())
    half = Z95 * float(sizes.std(ddof=1)) / len(sizes) ** 0.5 if len(sizes) > 1 else float("inf")
    interval = (mean - half, mean + half) if np.isfinite(half) else (0.0, 2 * mean)
    published = table.published(slot.row, slot.column)
    about = about | {"right_untouched": int((nearest.sizes > 0).sum()), "mean_of_right": nearest.mean}
    about |= {"images": len(nearest.sizes)}  # with those that have no adversarial one
    return Cell(
        slot.row,
        slot.column,
        published,
        slot.measure.unit,
        MEASURED,
        mean,
        interval,
        len(sizes),
        seconds,
        "",
        about,
    )


def of_others(table: Table, place: Derived, cells: Sequence[Cell]) -> Cell:
    """A mean or a standard deviation over rows; not run unless all of them are there, and alike."""
    sources = [c for c in cells if c.column == place.column and c.row in place.of and c.measured]
    published = table.published(place.row, place.column)
    if (why := _apart(sources, len(place.of))) is not None:
        return Cell(place.row, place.column, published, reason=why)
    values = [float(cell.ours) for cell in sources if cell.ours is not None]
    figure, interval = _mean(values) if place.how == "mean" else _spread(values)
    about = {"of": list(place.of)}
    return Cell(
        place.row,
        place.column,
        published,
        sources[0].unit,
        MEASURED,
        figure,
        interval,
        sources[0].n,
        0.0,
        "",
        about,
    )


def _apart(runs: Sequence[Cell], wanted: int) -> str | None:
    """Why these runs make no mean, if they do not."""
    if len(runs) < wanted:
        return f"{wanted - len(runs)} of {wanted} runs are missing"
    differing = [key for key in ALIKE if any(run.about.get(key) != runs[0].about.get(key) for run in runs)]
    differing += ["number of images"] if len({run.n for run in runs}) > 1 else []
    return (
        f"the runs differ in their {', '.join(differing)}; measure all of them alike" if differing else None
    )


def _mean(values: list[float]) -> tuple[float, tuple[float, float]]:
    """With Student's interval, over the runs."""
    count, middle = len(values), fmean(values)
    spread = float(np.std(values, ddof=1)) / count**0.5
    half = float(stats.t.ppf(0.975, count - 1)) * spread
    return middle, (middle - half, middle + half)


def _spread(values: list[float]) -> tuple[float, tuple[float, float]]:
    """The population's form, as the paper has it, with the interval of normally distributed runs."""
    count, figure = len(values), pstdev(values)
    low, high = (float(stats.chi2.ppf(share, count - 1)) for share in (0.975, 0.025))
    return figure, (figure * (count / low) ** 0.5, figure * (count / high) ** 0.5)
