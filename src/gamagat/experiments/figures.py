"""The contract of figures: lines, each a network and a plot of it.

One new figure is one new file in this folder: a function that returns a `Figure`, registered under a name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gamagat.errors import ConfigError, unknown
from gamagat.experiments import paper
from gamagat.experiments.choice import check_settings, chosen_names, rows_given, with_settings
from gamagat.experiments.core import EXPERIMENTS, Measure, Network, Slot, Table, find, in_place_of
from gamagat.registry import Registry

FIGURES: Registry[Figure] = Registry("figure", "gamagat.experiments")
POINTS = "points"  # the plot of a line whose every point is a figure of its own


@dataclass(frozen=True, slots=True)
class Point:
    """One evaluation that a line is drawn of; x is where it lies, if the run itself does not tell."""

    network: Network
    measure: Measure
    x: float = 0.0


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a figure, or all that one plot shows of a network.

    It is drawn of evaluations (`points`), or of a `network` itself, with `attack` where the plot takes one.
    """

    row: str  # lines of one row share their panels
    column: str
    plot: str  # as `gamagat plot` takes it, with its settings; or POINTS
    points: tuple[Point, ...] = ()
    network: Network | None = None
    attack: str | None = None
    n: int | None = None  # the first so many test images
    axis: str = ""  # of POINTS: what x is
    paper: tuple[float, ...] = ()  # what the paper's line shows, at 1, 2, 3, ...

    @property
    def networks(self) -> list[Network]:
        own = [] if self.network is None else [self.network]
        return [*own, *dict.fromkeys(point.network for point in self.points)]

    @property
    def kind(self) -> str:
        """The plot without its settings."""
        return self.plot.partition(":")[0]

    @property
    def slots(self) -> list[Slot]:
        """Its evaluations as places of a table."""
        several = len(self.points) > 1
        return [
            Slot(
                self.row, f"{self.column} {number}" if several else self.column, point.network, point.measure
            )
            for number, point in enumerate(self.points, start=1)
        ]

    def as_slot(self) -> Slot:
        """A line that is drawn of a network itself as a place of a table."""
        assert self.network is not None
        return Slot(self.row, self.column, self.network, Measure(self.attack, n=self.n))

    def on(self, given: Network) -> Line:
        """The same line of the user's network."""
        own = None if self.network is None else in_place_of(self.network, given)
        points = (replace(point, network=in_place_of(point.network, given)) for point in self.points)
        return replace(self, network=own, points=tuple(points))

    def with_settings(self, settings: Mapping[str, str]) -> Line:
        points = (replace(point, measure=point.measure.with_settings(settings)) for point in self.points)
        attack = None if self.attack is None else with_settings(self.attack, settings)
        return replace(self, points=tuple(points), attack=attack)


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of the paper: its lines in order, and what is known about differences."""

    name: str
    lines: tuple[Line, ...]
    paper: str  # its key in the paper's data
    title: str
    notes: Mapping[str, str] = field(default_factory=dict)  # by row, column, or "" for all

    @property
    def rows(self) -> list[str]:
        return list(dict.fromkeys(line.row for line in self.lines))

    @property
    def columns(self) -> list[str]:
        return list(dict.fromkeys(line.column for line in self.lines))

    @property
    def networks(self) -> list[Network]:
        """The networks that it needs, each once, in the order of their use."""
        return list(dict.fromkeys(network for line in self.lines for network in line.networks))

    @property
    def attacks(self) -> list[str]:
        own = [line.attack for line in self.lines]
        measured = [point.measure.attack for line in self.lines for point in line.points]
        return [attack for attack in (*own, *measured) if attack is not None]

    def table(self, line: Line) -> Table:
        """The evaluations of a line as a table; the paper gives no figures for them."""
        return Table(self.name, tuple(line.slots), title=self.title)

    def only(self, rows: Sequence[str] = (), columns: Sequence[str] = ()) -> Figure:
        """The part with these rows and columns, rows in the order given; none given means all."""
        wanted, across = chosen_names("row", rows, self), chosen_names("column", columns, self)
        chosen = [line for line in self.lines if line.row in wanted and line.column in across]
        if not chosen:
            raise ConfigError(f"{self.name} has no line in these rows and columns; leave one of them out")
        return replace(self, lines=tuple(sorted(chosen, key=lambda line: wanted.index(line.row))))

    def with_networks(self, given: Mapping[str, Network]) -> Figure:
        """The figure with the user's networks in some rows, or in `all` of them."""
        rows = rows_given(self, given)
        for row in rows:
            networks = {network for line in self.lines if line.row == row for network in line.networks}
            if len(networks) > 1 or (not networks and row in given):  # `all` means those that need one
                count = "several networks" if networks else "no network"
                raise ConfigError(f"row {row!r} of {self.name} needs {count}, and none can be given")
        lines = (line.on(rows[line.row]) if line.row in rows else line for line in self.lines)
        return replace(self, lines=tuple(lines))

    def with_settings(self, settings: Mapping[str, str]) -> Figure:
        """The figure with these settings of attacks, where they have them."""
        check_settings(self, settings)
        return replace(self, lines=tuple(line.with_settings(settings) for line in self.lines))


def curves(key: str, part: str) -> Mapping[str, Sequence[float]]:
    """The paper's lines of one part of a figure, by name; none where they could not be read."""
    data: Mapping[str, Any] = paper.figure(key)["data"] or {}
    found: Mapping[str, Sequence[float]] = data.get(part, {})
    return found


def all_names() -> list[str]:
    """All tables, then all figures."""
    return [*EXPERIMENTS.names(), *FIGURES.names()]


def find_any(name: str) -> Table | Figure:
    """A table or a figure by its name; `fig3` is `figure3`, and case does not matter."""
    known = {key.lower(): key for key in FIGURES.names()}
    wanted = name.strip().lower()
    for spelling in (wanted, wanted.replace("fig", "figure", 1)):
        if spelling in known:
            return FIGURES.make(known[spelling])
    try:
        return find(name)
    except ConfigError:
        raise unknown("experiment", name, all_names()) from None
