"""A picture as a figure of its own: no window, and no state of matplotlib's that outlives it."""

from __future__ import annotations

import textwrap
import warnings
from collections.abc import Sequence
from io import BytesIO
from itertools import count
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure
from PIL import Image

from gamagat.reports.plots.core import Panel, Picture, Relief
from gamagat.reports.plots.paper.panels import draw_names, draw_panel, room
from gamagat.reports.plots.paper.reliefs import draw_relief
from gamagat.reports.plots.paper.style import COLOURS, DPI, GREY, STYLE


def write(picture: Picture, paths: Sequence[Path]) -> None:
    """Draw the picture into files; their endings say how. None of matplotlib's settings stays changed."""
    with mpl.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # a box for a letter will do
        mpl.rcdefaults()  # a user's own settings must not change what is shown
        mpl.rcParams.update(STYLE)
        figure = draw(picture)
        for path in paths:
            path.write_bytes(_png(figure) if path.suffix == ".png" else _svg(figure))


def _svg(figure: Figure) -> bytes:
    """The same picture is the same file: no date, no random names."""
    whole = BytesIO()
    figure.savefig(whole, format="svg", dpi=DPI, metadata={"Date": None, "Creator": "gamagat"})
    return whole.getvalue()


def _png(figure: Figure) -> bytes:
    """The figure in 128 colours: nobody sees the difference, and it is a third of the size."""
    whole, small = BytesIO(), BytesIO()
    figure.savefig(whole, format="png", dpi=DPI)
    image = Image.open(whole).convert("RGB").quantize(128, dither=Image.Dither.NONE)
    image.save(small, format="png", optimize=True, dpi=(DPI, DPI))
    return small.getvalue()


def draw(picture: Picture) -> Figure:
    """The picture as a figure."""
    reliefs = [panel for panel in picture.panels if isinstance(panel, Relief)]
    if reliefs:
        return _with_reliefs(picture, reliefs)
    return _with_panels(picture, [panel for panel in picture.panels if isinstance(panel, Panel)])


def _with_reliefs(picture: Picture, reliefs: Sequence[Relief]) -> Figure:
    figure = _figure(picture, 8.6, 3.5 * len(reliefs) + 0.7)
    grid = figure.add_gridspec(len(reliefs), 2, width_ratios=(1.15, 1))
    for row, relief in enumerate(reliefs):
        draw_relief(figure, relief, grid[row, 0], grid[row, 1])
    return figure


def _with_panels(picture: Picture, panels: Sequence[Panel]) -> Figure:
    columns = picture.columns or min(2, len(panels))
    rows = -(-len(panels) // columns)
    height = max([3.4, *(room(panel) + 0.8 for panel in panels)])
    figure = _figure(picture, 5.6 * columns + 1.2, height * rows + 0.9)
    places = [figure.add_subplot(rows, columns, number + 1) for number in range(len(panels))]
    order = numbered(panels)
    looks = [draw_panel(axes, panel, order) for axes, panel in zip(places, panels, strict=True)]
    # The layout decides how high a panel is, and only then is it known where names have room.
    figure.draw_without_rendering()
    for axes, panel, look in zip(places, panels, looks, strict=True):
        draw_names(axes, panel, look)
    return figure


def numbered(panels: Sequence[Panel]) -> dict[str, int]:
    """A number for each name, which tells how its lines look, the same in every panel.

    Where there are more names than looks, two may share one, but not in one panel.
    """
    order: dict[str, int] = {}
    for label in dict.fromkeys(curve.label for panel in panels for curve in panel.curves):
        mine = [panel for panel in panels if any(curve.label == label for curve in panel.curves)]
        beside = {order.get(curve.label) for panel in mine for curve in panel.curves}
        used = beside if len(order) >= len(COLOURS) else set(order.values())
        order[label] = next(number for number in count() if number not in used)
    return order


def _figure(picture: Picture, width: float, height: float) -> Figure:
    """An empty figure of this size in inches, with the title above and the note below."""
    figure = Figure(figsize=(width, height), layout="constrained")
    title = textwrap.fill(picture.title, int(width * 10.5))
    figure.suptitle(title, x=0.012, ha="left", fontsize=12, fontweight="bold")
    if picture.note:
        note = textwrap.fill(picture.note, int(width * 16.5))
        figure.supxlabel(note, x=0.012, ha="left", fontsize=8, color=GREY)
    return figure
