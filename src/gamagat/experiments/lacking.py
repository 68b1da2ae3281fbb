"""The part of a table or figure that results do not hold yet, for those who have them and not the cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from gamagat.errors import DataError
from gamagat.experiments.cells import Cell
from gamagat.experiments.core import Slot, Table
from gamagat.experiments.drawing import points_of
from gamagat.experiments.drawn import Drawn
from gamagat.experiments.figures import Figure, Line
from gamagat.experiments.results import images_of, place_of, read_figure, read_result
from gamagat.experiments.workshop import Workshop

SAME = ("network", "source", "changed", "attack", "norm", "eps", "seed")  # what makes two figures one
Part = TypeVar("Part", Cell, Drawn)


def lacking(whole: Table | Figure, shop: Workshop, folder: Path) -> Table | Figure:
    """What is left to do."""
    trained = (network for network in whole.networks if network.to_be_had and not network.given)
    for data in dict.fromkeys(network.data for network in trained):
        try:
            shop.cache.training(data)
        except DataError as error:  # networks are known by the images that they are trained on
            shop.say_once(f"{error}; meanwhile figures on {data} count as missing")
    return _of_figure(whole, shop, folder) if isinstance(whole, Figure) else _of_table(whole, shop, folder)


def _of_table(table: Table, shop: Workshop, folder: Path) -> Table:
    """The places that are left; a figure of another network, attack or seed does not count."""
    path = place_of(folder, table.name)
    known = _measured(read_result(path).cells) if path.exists() else {}
    slots = (slot for slot in table.slots if not _serves(known.get((slot.row, slot.column)), slot, shop))
    # What is worked out from other places is worked out anew whenever results are written.
    return replace(table, slots=tuple(slots), derived=() if known else table.derived)


def _of_figure(figure: Figure, shop: Workshop, folder: Path) -> Figure:
    """The lines that are left; one whose points or plot are others by now does not count."""
    path = place_of(folder, figure.name)
    known = _measured(read_figure(path).lines) if path.exists() else {}
    lines = (line for line in figure.lines if not _shows(known.get((line.row, line.column)), line, shop))
    return replace(figure, lines=tuple(lines))


def _measured(parts: Sequence[Part]) -> dict[tuple[str, str], Part]:
    return {(part.row, part.column): part for part in parts if part.measured}


def _shows(known: Drawn | None, line: Line, shop: Workshop) -> bool:
    """Whether this is the line that is asked for."""
    if known is None or known.plot != line.plot:
        return False
    places = line.slots or ([line.as_slot()] if line.network is not None else [])
    if not all(_serves(known, slot, shop) for slot in places[-1:]):  # which a line of several is told by
        return False
    return "points" not in known.about or _brought(known) or known.about["points"] == points_of(line, shop)


def _brought(known: Cell | Drawn) -> bool:
    """Whether it is of a network of the user's."""
    return known.about.get("recipe", "") is None


def _serves(known: Cell | Drawn | None, slot: Slot, shop: Workshop) -> bool:
    """Whether this is the figure that the place asks for, or one that this would not replace."""
    if known is None:
        return False
    if _brought(known) and not slot.network.given:
        return True  # it stands until somebody brings another
    if not slot.network.to_be_had:
        return False
    try:
        wanted = shop.about(slot, {})
        if slot.measure.source is not None:
            wanted["source"] = shop.cache.home(slot.measure.source).name
        count, seen = shop.cache.images(slot.network, slot.measure), images_of(known)
    except DataError:
        return False  # which is told where it is measured
    if seen > count and not known.about.get("changed"):
        return True  # results would not take one of fewer images
    # Untouched images are the same with every seed, but not what is drawn of them.
    drawn = slot.measure.attack is not None or isinstance(known, Drawn)
    same = [key for key in SAME if drawn or key != "seed"]
    return (not seen or seen >= count) and all(known.about.get(key) == wanted.get(key) for key in same)
