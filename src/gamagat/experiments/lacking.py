"""The part of a table or figure that results do not hold yet, for those who have them and not the cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from gamagat.errors import DataError
from gamagat.experiments.cells import Cell
from gamagat.experiments.core import Slot, Table
from gamagat.experiments.drawn import Drawn
from gamagat.experiments.figures import Figure, Line
from gamagat.experiments.results import place_of, read_figure, read_result
from gamagat.experiments.workshop import Workshop

SAME = ("network", "source", "changed", "attack", "norm", "eps", "seed")  # what makes two figures one
Part = TypeVar("Part", Cell, Drawn)


def lacking(whole: Table | Figure, shop: Workshop, folder: Path) -> Table | Figure:
    """What is left to do; a figure of another network, attack or seed, or of fewer images, does not count."""
    path = place_of(folder, whole.name)
    if not path.is_file():
        return whole
    if isinstance(whole, Figure):
        return replace(whole, lines=tuple(_lines(whole, shop, read_figure(path).lines)))
    # What is worked out from other places is worked out anew whenever results are written.
    return replace(whole, slots=tuple(_slots(whole, shop, read_result(path).cells)), derived=())


def _slots(table: Table, shop: Workshop, cells: Sequence[Cell]) -> Iterator[Slot]:
    known = _measured(cells)
    for slot in table.slots:
        cell = known.get((slot.row, slot.column))
        if cell is None or not _serves(cell, slot, shop):
            yield slot


def _lines(figure: Figure, shop: Workshop, lines: Sequence[Drawn]) -> Iterator[Line]:
    known = _measured(lines)
    for line in figure.lines:
        drawn = known.get((line.row, line.column))
        places = line.slots or ([line.as_slot()] if line.network is not None else [])
        if drawn is None or not all(_serves(drawn, slot, shop) for slot in places[-1:]):
            yield line


def _measured(parts: Sequence[Part]) -> dict[tuple[str, str], Part]:
    return {(part.row, part.column): part for part in parts if part.measured}


def _serves(known: Cell | Drawn, slot: Slot, shop: Workshop) -> bool:
    """Whether this is the figure that the place asks for."""
    if not slot.network.to_be_had:
        return True  # of a network that was brought then: nobody can say more without it
    try:
        wanted = shop.about(slot, {})
        if slot.measure.source is not None:
            wanted["source"] = shop.cache.home(slot.measure.source).name
        count = shop.cache.images(slot.network, slot.measure)
    except DataError:
        return False  # which is told where it is measured
    seen = known.about.get("images", known.n)  # a mean distance is of those that it was found for
    return all(known.about.get(key) == wanted.get(key) for key in SAME) and (not seen or seen >= count)
