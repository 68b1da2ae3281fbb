"""What a paper says of its figures, as comparisons that ours are put to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations, product
from typing import NamedTuple

from gamagat.experiments import paper
from gamagat.experiments.cells import Cell, places
from gamagat.experiments.results import FigureResult, Result


class Place(NamedTuple):
    """Where a figure stands."""

    table: str
    row: str
    column: str


class Comparison(NamedTuple):
    """One figure of ours is no more than another, or the paper's own no more than ours."""

    low: Place
    high: Place

    @property
    def to_paper(self) -> bool:
        """Whether both are one place, and what is compared is the paper's figure."""
        return self.low == self.high


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence of the paper in a few words; it holds if all its comparisons do."""

    words: str
    comparisons: tuple[Comparison, ...]

    @property
    def tables(self) -> list[str]:
        return list(dict.fromkeys(place.table for one in self.comparisons for place in one))


class Contrary(NamedTuple):
    """A comparison that comes out the other way round."""

    low: Cell  # beside the paper's figure, that: it has no interval
    high: Cell
    tables: tuple[str, str]

    @property
    def within(self) -> bool:
        """Whether the difference is less than an interval."""
        low, high = self.low, self.high
        return _inside(low.ours, high) or _inside(high.ours, low)

    @property
    def as_in_paper(self) -> bool:
        """Whether the paper's own figures contradict it, too."""
        low, high = self.low.paper, self.high.paper
        return low is not None and high is not None and low > high


@dataclass(frozen=True, slots=True)
class Ruling:
    """What came out of a claim."""

    claim: Claim
    measured: int
    against: tuple[Contrary, ...]

    @property
    def held(self) -> int:
        return self.measured - len(self.against)


def ruled(claims: Iterable[Claim], results: Sequence[Result | FigureResult]) -> list[Ruling]:
    """What our figures say to each claim."""
    tables = [result for result in results if isinstance(result, Result)]
    cells = {Place(one.name, cell.row, cell.column): cell for one in tables for cell in one.cells}
    return [_ruling(claim, cells) for claim in claims]


def _ruling(claim: Claim, cells: Mapping[Place, Cell]) -> Ruling:
    measured = [one for one in claim.comparisons if all(_is_there(cells.get(place)) for place in one)]
    against = (_contrary(one, cells) for one in measured)
    return Ruling(claim, len(measured), tuple(one for one in against if one is not None))


def _is_there(cell: Cell | None) -> bool:
    return cell is not None and cell.ours is not None


def _contrary(one: Comparison, cells: Mapping[Place, Cell]) -> Contrary | None:
    """What contradicts a comparison, if anything does.

    Another training has other figures, so beside the paper's ours may be less by as much as the interval.
    """
    low, high = cells[one.low], cells[one.high]
    low = replace(low, ours=low.paper, interval=None) if one.to_paper else low
    found = Contrary(low, high, (one.low.table, one.high.table))
    holds = low.ours is None or high.ours is None or low.ours <= high.ours
    return None if holds or (one.to_paper and found.within) else found


def _inside(value: float | None, cell: Cell) -> bool:
    """As they are printed."""
    if value is None or cell.interval is None:
        return False
    low, high = (round(end, places(cell.unit)) for end in cell.interval)
    return low <= round(value, places(cell.unit)) <= high


def below(
    table: str, rows: Iterable[str], lows: Iterable[str], highs: Iterable[str]
) -> tuple[Comparison, ...]:
    """In each of these rows the first columns leave no more than the others."""
    return tuple(
        Comparison(Place(table, row, low), Place(table, row, high))
        for row, low, high in product(rows, lows, highs)
    )


def above(
    table: str, columns: Iterable[str], highs: Iterable[str], lows: Iterable[str]
) -> tuple[Comparison, ...]:
    """In each of these columns the first rows have no less than the others."""
    return tuple(
        Comparison(Place(table, low, column), Place(table, high, column))
        for column, high, low in product(columns, highs, lows)
    )


def as_high(table: str, row: str, columns: Iterable[str]) -> tuple[Comparison, ...]:
    """These figures of ours are no less than the paper's."""
    return tuple(Comparison(place, place) for place in (Place(table, row, column) for column in columns))


def in_order(table: str, columns: Iterable[str], rows: Sequence[str]) -> tuple[Comparison, ...]:
    """Rows stand to each other as in the paper."""
    return tuple(_ordered(table, columns, rows))


def _ordered(table: str, columns: Iterable[str], rows: Sequence[str]) -> Iterator[Comparison]:
    for column, (low, high) in product(columns, permutations(rows, 2)):
        less, more = paper.value(table, low, column), paper.value(table, high, column)
        if less is not None and more is not None and less < more:
            yield Comparison(Place(table, low, column), Place(table, high, column))
