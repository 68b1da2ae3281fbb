"""Numbers and names as a report writes them, the same everywhere."""

from __future__ import annotations

import re
import shlex
from math import isclose

from markupsafe import Markup, escape

from gamagat.engine.share import Share

DASH = "\u2013"  # between the ends of an interval


def percent(share: Share) -> str:
    """The accuracy to two places, without a sign for percent."""
    return f"{share.percent:.2f}" if share.of else "-"


def interval(share: Share) -> str:
    """Wilson's interval to two places."""
    return f"{{:.2f}}{DASH}{{:.2f}}".format(*share.ci95) if share.of else "-"


def plain(value: float | None, digits: str = ",.1f") -> str:
    """A number, or nothing where there is none."""
    return "" if value is None else format(value, digits)


def eps_words(eps: float) -> str:
    """A radius as people write it: 8/255 if it is so many levels of 8 bits, 0.2 where that is shorter."""
    levels = round(eps * 255)
    if isclose(eps, round(eps, 3), rel_tol=1e-6) or not isclose(eps * 255, levels, rel_tol=1e-6):
        return f"{eps:.6g}"
    return f"{levels}/255"


def breaks(name: str) -> Markup:
    """A name that may break after a colon, a comma or a slash, not in 8/255 nor anywhere else."""
    return Markup("<wbr>").join(
        escape(piece) for piece in re.split(r"(?<=[:,])(?=\S)|(?<=/)(?=[^\d\s])", name)
    )


def folded(command: str) -> str:
    """A command with an option on each line, as a shell reads it."""
    lines: list[list[str]] = [[]]
    for word in shlex.split(command):
        if word.startswith("--"):
            lines.append([])
        lines[-1].append(word)
    return " \\\n  ".join(map(shlex.join, lines))
