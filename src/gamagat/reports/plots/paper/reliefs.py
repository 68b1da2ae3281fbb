"""Heights over a plane."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import SubplotSpec
from matplotlib.ticker import FuncFormatter, MaxNLocator

from gamagat.reports.plots.core import Relief
from gamagat.reports.plots.paper.panels import draw_axis
from gamagat.reports.plots.paper.style import plain


def draw_relief(figure: Figure, relief: Relief, solid: SubplotSpec, flat: SubplotSpec) -> None:
    """A surface, and beside it the same from above with the line that matters."""
    heights = np.ma.masked_invalid(np.asarray(relief.heights))  # a network may have no answer far from images
    _solid(figure.add_subplot(solid, projection="3d"), relief, heights)
    _flat(figure, figure.add_subplot(flat), relief, heights)


def _solid(axes: Any, relief: Relief, heights: Any) -> None:
    east, north = np.meshgrid(relief.along, relief.across)
    # Drawn as pixels also in the SVG: a thousand little polygons show the seams between them.
    axes.plot_surface(
        east, north, heights, cmap="cividis", rstride=1, cstride=1, linewidth=0.15, edgecolor="#ffffff40",
        antialiased=True, rasterized=True,
    )  # fmt: skip
    axes.view_init(elev=28, azim=-125)
    axes.set_box_aspect((1, 1, 0.72), zoom=0.8)
    axes.set_title(relief.title, pad=0, loc="left")
    axes.set_xlabel(relief.x.title, size=8, labelpad=0)
    axes.set_ylabel(relief.y.title, size=8, labelpad=0)
    axes.set_zlabel(relief.height, size=8, labelpad=3)
    for axis in (axes.xaxis, axes.yaxis, axes.zaxis):
        axis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
        axis.set_major_formatter(FuncFormatter(plain))
        axis.set_tick_params(labelsize=7, pad=0)
        axis.pane.set_facecolor("#fafafa")


def _flat(figure: Figure, axes: Axes, relief: Relief, heights: Any) -> None:
    levels = MaxNLocator(14).tick_values(float(heights.min()), float(heights.max()))
    filled = axes.contourf(relief.along, relief.across, heights, levels=levels, cmap="cividis")
    if heights.min() < heights.max():  # a plain has no contours, and matplotlib complains of it
        axes.contour(
            relief.along, relief.across, heights, levels=levels, colors="white", linewidths=0.4, alpha=0.6,
            linestyles="solid",
        )  # fmt: skip
    axes.plot(0, 0, marker="o", color="white", markeredgecolor="black", markersize=6)
    _edge(axes, relief)
    axes.set_aspect("equal")
    axes.grid(visible=False)
    draw_axis(axes, "x", relief.x)
    draw_axis(axes, "y", relief.y)
    bar = figure.colorbar(filled, ax=axes, shrink=0.85, format=FuncFormatter(plain))
    bar.set_label(relief.height, size=8)
    bar.ax.tick_params(labelsize=7)
    bar.outline.set_visible(False)


def _edge(axes: Axes, relief: Relief) -> None:
    """The line where another class begins to win, with its name above the panel if there is one."""
    edge = np.asarray(relief.edge)
    crossed = edge.size and edge.min() < 0 < edge.max()
    if crossed:
        axes.contour(relief.along, relief.across, edge, levels=[0.0], colors="white", linewidths=3.2)
        axes.contour(relief.along, relief.across, edge, levels=[0.0], colors="#D55E00", linewidths=1.8)
    axes.set_title(relief.edge_label if crossed else "", size=8, color="#A34700")
