"""How plots look.

Colours are those of Okabe and Ito, darkened a little for thin lines: colour-blind people tell them apart.
Every line has a dash and a marker of its own as well, so that it can be told in grey.
"""

from typing import Any, NamedTuple

from gamagat.reports.plots.core import Curve

INK, GREY, PALE = "#222222", "#777777", "#dddddd"
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#AA4499", "#B8860B", "#3A9BD1", "#000000", "#7A5C3E")
DASHES: tuple[Any, ...] = (
    "-",
    (0, (6, 2)),
    (0, (2, 1.5)),
    (0, (7, 2, 1.5, 2)),
    (0, (5, 1.2, 1, 1.2, 1, 1.2)),
)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
DPI = 150
SMOOTH = 120  # points up to which a line has markers
STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 10,
    "text.color": INK,
    "text.parse_math": False,  # a dollar in a name is a dollar
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.unicode_minus": True,
    "grid.color": PALE,
    "grid.linewidth": 0.6,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "lines.linewidth": 1.8,
    "lines.markersize": 5,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "gamagat",  # the same picture is the same file
}


class Look(NamedTuple):
    """How a line is told from the others."""

    colour: str
    dash: Any
    marker: str | None
    width: float = 1.8


def look_of(number: int, curve: Curve) -> Look:
    if curve.style == "path":
        return Look("#C00000", (0, (1, 1.5)), "x", 1.0)
    if curve.style == "faint":
        return Look("#8FB4CC", DASHES[number % len(DASHES)], None, 1.2)
    return Look(
        COLOURS[number % len(COLOURS)],
        DASHES[number % len(DASHES)],
        None if curve.style == "steps" or len(curve.x) > SMOOTH else MARKERS[number % len(MARKERS)],
    )


def plain(value: float, _: Any = None) -> str:
    """A number at a tick."""
    return f"{value:.6g}".replace("-", "−")  # noqa: RUF001 - the sign that is as wide as a plus
