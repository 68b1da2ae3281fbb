"""What is still missing from a run that has not come to its end, in words."""

import re
from itertools import groupby

from gamagat.engine.results import Evaluation
from gamagat.engine.share import Share

MOST = 6  # names that are listed; more would bury the numbers


def unfinished_words(result: Evaluation) -> str:
    """How far an unfinished run is, and which of its runs are still to do."""
    through = f"{result.standing.of:,} of {result.n:,} images are through with every run shown"
    return f"{through}; still to do: {missing_words(result.missing)}"


def so_far(share: Share, count: int) -> str:
    """Of how many images a figure is, where that is not all of them."""
    return f" ({share.of:,} of {count:,} images)" if 0 < share.of < count else ""


def missing_words(entries: tuple[str, ...]) -> str:
    """The runs by their names; those of one attack, such as its targets, together."""
    names = [_named(list(group)) for _, group in groupby(entries, _attack)]
    more = [f"and {len(names) - MOST} more"] if len(names) > MOST else []
    return ", ".join(names[:MOST] + more)


def _attack(entry: str) -> str:
    """An attack without its restarts and targets: `autoattack>apgd-t` of `autoattack>apgd-t@3`."""
    return re.split("[@#]", entry)[0]


def _named(entries: list[str]) -> str:
    return entries[0] if len(entries) == 1 else f"{_attack(entries[0])} ({len(entries)} runs)"
