"""Benchmarks of speed, for people to read: one table, what was the same for all, and the ratios in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from gamagat.engine.bench.rows import OURS, Bench, Row, summary

COLUMNS = ("seconds", "images/s", "gradients/s", "% left", "x published", "% of limit", "peak MiB")


def bench_views(benches: Sequence[Bench]) -> list[RenderableType]:
    """The table of all benchmarks, the settings of each, and what its rows say beside each other."""
    return [bench_table(benches), *(line for bench in benches for line in _lines(bench))]


def bench_json(benches: Sequence[Bench]) -> dict[str, Any]:
    """All that the table says, and what lies behind it."""
    return {"benchmarks": [bench.as_json() for bench in benches]}


def bench_table(benches: Sequence[Bench]) -> Table:
    """Every implementation in a row, comparisons one below the other."""
    table = Table(title="the same images and the same budget for all", title_justify="left")
    table.add_column("what", overflow="fold", min_width=24)
    for heading in COLUMNS:
        table.add_column(heading, justify="right", no_wrap=True)
    for bench in benches:
        for part in bench.parts():
            table.add_section()
            table.add_row(Text(f"{bench.title}: {part}", "dim"))
            for row in bench.rows:
                if row.part == part:
                    table.add_row(*_cells(bench, row), style="bold" if row.who == OURS else "")
    return table


def _cells(bench: Bench, row: Row) -> Iterator[str | Text]:
    if row.seconds is None:  # the reason stands below the table
        yield Text(row.what)
        yield from ["-"] * len(COLUMNS)
        return
    yield Text(row.what)
    yield f"{row.seconds:.3g}"
    yield _number(row.images_per_second, 0)
    yield _number(row.gradients_per_second, 0)
    yield "speed only" if row.accuracy is None else f"{row.accuracy:.2f}"
    yield _number(bench.times_published(row), 2)
    yield _number(row.percent_of_limit, 1)
    yield _number(None if row.peak is None else row.peak / (1 << 20), 0)


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _lines(bench: Bench) -> Iterator[Text]:
    yield Text(bench.title, "bold")
    for name, value in bench.facts.items():
        yield Text.assemble((f"{name:>9}  ", "dim"), value)
    missing = {row.what: row.note for row in bench.rows if row.note}
    for what, reason in missing.items():
        yield Text.assemble((f"{'missing':>9}  ", "dim"), f"{what}: {reason}")
    for words in summary(bench):
        yield Text.assemble((f"{'found':>9}  ", "dim"), words)
