"""Where figures come from: whose network, how many images, and the command, day and machine."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TypeVar

from gamagat.experiments.cells import Cell
from gamagat.experiments.results import Drawn

Part = Cell | Drawn
Key = TypeVar("Key", bound=Hashable)
FEW = 2  # columns that are named rather than all others


def conditions(measured: Sequence[Part]) -> Iterator[str]:
    """How the figures were made; of which of them a line speaks, where it is not all."""
    yield from _images([part for part in measured if part.unit == "%"], "Images: {}.")
    far = [part for part in measured if part.unit != "%"]
    yield from _images(far, "Distances: over {} images, 0 for one wrong untouched.")
    for (model, network), some in _alike(measured, _brought):
        yield f"{whose(some, measured)}: brought with --checkpoint, {model}, kept as {network}."
    made = [part for part in measured if part.about.get("made")]
    by_day = sorted(_alike(made, _made), key=lambda one: min(_date(part) for part in one[1]))
    for words, some in by_day:
        yield words if len(by_day) == 1 else f"{whose(some, measured)}: {words}"


def whose(some: Sequence[Part], measured: Sequence[Part]) -> str:
    """Rows of figures, with their columns where these are not all that is measured of a row."""
    rows: dict[str, list[str]] = {}
    for row in dict.fromkeys(part.row for part in some):
        own = [part.column for part in some if part.row == row]
        others = [part.column for part in measured if part.row == row and part.column not in own]
        rows.setdefault(_columns(own, others), []).append(row)
    whole_first = sorted(rows.items(), key=lambda one: one[0] != "")
    return "; ".join(", ".join(names) + columns for columns, names in whole_first)


def _columns(own: Sequence[str], others: Sequence[str]) -> str:
    if not others:
        return ""
    words = f"all but {', '.join(others)}" if len(others) <= FEW < len(own) else ", ".join(own)
    return f" ({words})"


def _images(some: Sequence[Part], words: str) -> Iterator[str]:
    """How many images are behind figures: of most of them, and of which not."""
    counts = [part.n for part in some if part.n]
    if not counts:
        return
    usual = max(dict.fromkeys(counts), key=lambda count: (counts.count(count), count))
    odd = _alike([part for part in some if part.n not in (0, usual)], lambda part: part.n)
    but = ", ".join(f"{whose(few, some)} {count:,}" for count, few in odd)
    yield words.format(f"{usual:,}" + (f" ({but})" if but else ""))


def _alike(some: Sequence[Part], what: Callable[[Part], Key | None]) -> list[tuple[Key, list[Part]]]:
    """Figures that have something in common, together."""
    found: dict[Key, list[Part]] = {}
    for part in some:
        if (key := what(part)) is not None:
            found.setdefault(key, []).append(part)
    return list(found.items())


def _brought(part: Part) -> tuple[str, str] | None:
    """The network, where it is one of the user's."""
    about = part.about
    return (about["model"], about["network"]) if about.get("recipe", "") is None else None


def _date(part: Part) -> str:
    return str(part.about["made"].get("date", ""))


def _made(part: Part) -> str:
    about, made = part.about, part.about["made"]
    seed = "" if about.get("seed") is None else f", seed {about['seed']}"
    return (
        f"`{about.get('command')}`: {_date(part)[:10]}, {made.get('device')}, torch {made.get('torch')}, "
        f"gamagat {made.get('gamagat')}{seed}."
    )
