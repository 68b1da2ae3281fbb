"""What the paper says, and what our figures say to it, in Markdown."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from gamagat.experiments.cells import Cell
from gamagat.experiments.claims import Claim, Contrary, Ruling
from gamagat.reports.reproduction import figure

HEAD = """## What the paper says, and what came out here

Each sentence is put to all figures that it is about; equal ones do not contradict it. Figures of one row in
two tables may be of two trainings; the tables tell.

| the paper says | figures of | comparisons that hold |
|---|---|---|"""


def rulings_section(rulings: Sequence[Ruling], there: Collection[str]) -> Iterator[str]:
    """A line for each claim that something is known of, and how many others there are.

    Tables that are `there` have a section on the page.
    """
    known = [one for one in rulings if one.measured]
    if known:
        yield HEAD
    for one in known:
        tables = (f"[{name}](#{name.lower()})" if name in there else name for name in one.claim.tables)
        yield f"| {one.claim.words} | {', '.join(tables)} | {_verdict(one)} |"
    if known:
        yield ""
    yield from _unknown([one.claim for one in rulings if not one.measured], "more " if known else "")


def _unknown(claims: Sequence[Claim], more: str) -> Iterator[str]:
    """How many claims nothing is known of, and which tables they are about."""
    if not claims:
        return
    tables = ", ".join(dict.fromkeys(name for claim in claims for name in claim.tables))
    one = len(claims) == 1
    what, need = ("sentence", "needs") if one else ("sentences", "need")
    yield f"{len(claims)} {more}{what} of the paper {need} figures that are not measured yet, of {tables}."
    yield ""


def _verdict(one: Ruling) -> str:
    left = len(one.claim.comparisons) - one.measured
    more = f", {left} more not run" if left else ""
    if not one.against:
        return f"**all {one.measured}**{more}"
    several = len(one.claim.tables) > 1
    words = (_words(some, several) for some in _of_one_figure(one.against))
    return f"{one.held} of {one.measured}{more}; not: {'; '.join(words)}"


def _of_one_figure(against: Sequence[Contrary]) -> list[list[Contrary]]:
    """Those together in which the same figure is too low for others of its table."""
    found: dict[tuple[str, str, str, str, str], list[Contrary]] = {}
    for one in against:
        # Others of its row, or of its column.
        line = one.low.row if one.low.row == one.high.row else one.low.column
        found.setdefault((*one.tables, one.high.row, one.high.column, line), []).append(one)
    return list(found.values())


def _words(some: Sequence[Contrary], several: bool) -> str:
    """The figure that is too low, and what it is below; `several` tables are named."""
    first = some[0]
    tables, low, high = first.tables, first.low, first.high
    where = f"{tables[1]}, " if several else ""
    if low.interval is None:
        return f"{where}{high.row}, {high.column}: {_value(high)}, the paper {_value(low)}"
    if tables[0] == tables[1] and low.column == high.column:
        below = ", ".join(f"{one.low.row} {_value(one.low)}{_near(one)}" for one in some)
        return f"{where}{high.column}: {high.row} {_value(high)} is below {below}"
    if tables[0] == tables[1] and low.row == high.row:
        below = ", ".join(f"{one.low.column} {_value(one.low)}{_near(one)}" for one in some)
        return f"{where}{high.row}: {high.column} {_value(high)} is below {below}"
    below = ", ".join(
        f"{one.tables[0]}, {one.low.row}, {one.low.column} {_value(one.low)}{_near(one)}" for one in some
    )
    return f"{tables[1]}, {high.row}, {high.column} {_value(high)} is below {below}"


def _value(cell: Cell) -> str:
    return figure(cell.ours, cell.unit)


def _near(one: Contrary) -> str:
    words = ["inside an interval"] * one.within + ["as in the paper"] * one.as_in_paper
    return f" ({', '.join(words)})" if words else ""
