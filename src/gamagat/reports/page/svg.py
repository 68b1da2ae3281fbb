"""Small charts as inline SVG: text stays text, and series differ by their marks as well as by colour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

from markupsafe import Markup

WIDTH, HEIGHT = 360, 240
LEFT, RIGHT, TOP, BOTTOM = 40, 18, 26, 40
STYLES = 6  # kinds of line in the style sheet
MARKS = (
    "M-3 0a3 3 0 1 0 6 0a3 3 0 1 0 -6 0Z",
    "M-3 -3h6v6h-6Z",
    "M0 -4L4 3H-4Z",
    "M0 -4L4 0L0 4L-4 0Z",
    "M0 4L4 -3H-4Z",
    "M-4 -1.5h2.5v-2.5h3v2.5h2.5v3h-2.5v2.5h-3v-2.5h-2.5Z",
)
Tick = tuple[float, str]


def style(number: int) -> tuple[str, str]:
    """Class of a series, and its mark; both change from one round of colours to the next."""
    again = " again" if number // STYLES % 2 else ""
    return f"s{number % STYLES}{again}", MARKS[(number + number // STYLES) % STYLES]


@dataclass(frozen=True, slots=True)
class Line:
    """One series: the number of its look, and its points, the second number of each in percent.

    In steps, each point holds to the next, and only the last one is marked.
    """

    look: int
    points: tuple[tuple[float, float], ...]
    steps: bool = False


@dataclass(frozen=True, slots=True)
class Frame:
    """From numbers to places on the picture."""

    x: tuple[float, float]
    y: tuple[float, float]

    def across(self, value: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (value - self.x[0]) / ((self.x[1] - self.x[0]) or 1)

    def down(self, value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value - self.y[0]) / (self.y[1] - self.y[0])


def nice_step(span: float, most: int = 6) -> float:
    """The smallest of 1, 2, 5, 10, ... that cuts the span into few pieces."""
    power = 10.0 ** floor(log10(span / most))
    return next(digit * power for digit in (1, 2, 5, 10) if digit * power * most >= span * (1 - 1e-9))


def percent_axis(values: Sequence[float]) -> tuple[tuple[float, float], list[Tick]]:
    """A range around the values, within 0 and 100, and its ticks."""
    low, high = min(values), max(values)
    if high - low < 2:
        low, high = low - 1, high + 1
    step = nice_step(high - low)
    low, high = max(0.0, step * floor(low / step)), min(100.0, step * ceil(high / step))
    count = round((high - low) / step)
    return (low, high), [(low + step * number, f"{low + step * number:g}") for number in range(count + 1)]


def line_chart(
    label: str,
    about: str,
    across: str,
    lines: Sequence[Line],
    ticks: Sequence[Tick],
    mark: float | None = None,
) -> Markup:
    """Accuracy against something; `mark` is where a vertical line stands."""
    span, rungs = percent_axis([y for line in lines for _, y in line.points])
    places = [x for line in lines for x, _ in line.points] + [x for x, _ in ticks]
    frame = Frame((min(places), max(places)), span)
    parts = [
        *(_rung(frame.down(y), text) for y, text in rungs),
        *(_tick(frame.across(x), text) for x, text in ticks),
        _word(LEFT + (WIDTH - LEFT - RIGHT) / 2, HEIGHT - 6, across, "middle"),
        _word(2, 12, "accuracy (%)", "start"),
        *([] if mark is None else [_mark(frame.across(mark))]),
        *(_line(frame, line) for line in lines),
    ]
    return picture(label, about, HEIGHT, parts)


def bar_chart(label: str, about: str, bars: Sequence[tuple[str, float, float]]) -> Markup:
    """Two bars for each name, in percent: the first in outline, the second filled; their numbers beside."""
    row, left = 20, 104
    wide = (WIDTH - left - 66) / 100
    height = row * len(bars) + 24
    parts = [
        Markup('<path class="grid" d="M{:.1f} 2V{}"/>{}').format(
            left + wide * tick, height - 18, _word(left + wide * tick, height - 4, f"{tick} %", "middle")
        )
        for tick in (0, 50, 100)
    ]
    for number, (name, outline, filled) in enumerate(bars):
        top = 4 + row * number
        parts.append(
            Markup(
                '<text x="{}" y="{}" text-anchor="end">{}<title>{}</title></text>'
                '<rect class="outline" x="{}" y="{}" width="{:.1f}" height="13"/>'
                '<rect class="filled" x="{}" y="{}" width="{:.1f}" height="7"/>{}'
            ).format(
                left - 6, top + 11, _short(name), name, left, top, wide * outline, left, top + 3,
                wide * filled, _word(WIDTH - 2, top + 11, f"{outline:.0f} \u2192 {filled:.0f}", "end"),
            )
        )  # fmt: skip
    return picture(label, about, height, parts)


def whisker(span: tuple[float, float], percent: float, low: float, high: float) -> Markup:
    """An accuracy with its interval on a line over the span; the numbers stand beside it."""
    middle, left, right = (2 + 100 * (at - span[0]) / (span[1] - span[0]) for at in (percent, low, high))
    return Markup(
        '<svg class="whisker" viewBox="0 0 104 14" aria-hidden="true">'
        '<path class="grid" d="M2 7H102M2 4V10M102 4V10"/>'
        '<path class="interval" d="M{0:.1f} 7H{1:.1f}M{0:.1f} 3.5V10.5M{1:.1f} 3.5V10.5"/>'
        '<circle class="dot" cx="{2:.1f}" cy="7" r="1.6"/></svg>'
    ).format(left, right, middle)


def box(kind: str) -> Markup:
    """A piece of a bar as the legend shows it."""
    return Markup(
        '<svg class="swatch" viewBox="0 0 32 12" aria-hidden="true">'
        '<rect class="{}" x="1" y="1.5" width="30" height="9"/></svg>'
    ).format(kind)


def swatch(number: int) -> Markup:
    """A piece of a line as the legend shows it."""
    return Markup(
        '<svg class="swatch {}" viewBox="0 0 32 12" aria-hidden="true"><path class="line" d="M0 6H32"/>'
        '<path class="point" transform="translate(16 6)" d="{}"/></svg>'
    ).format(*style(number))


def picture(label: str, about: str, height: float, parts: Sequence[Markup]) -> Markup:
    """A picture that says what it is."""
    return Markup(
        '<svg class="chart" viewBox="0 0 {} {}" role="img"><title>{}</title><desc>{}</desc>{}</svg>'
    ).format(WIDTH, height, label, about, Markup("").join(parts))


def _rung(y: float, text: str) -> Markup:
    return Markup('<path class="grid" d="M{} {:.1f}H{}"/>{}').format(
        LEFT, y, WIDTH - RIGHT, _word(LEFT - 6, y + 4, text, "end")
    )


def _tick(x: float, text: str) -> Markup:
    bottom = HEIGHT - BOTTOM
    return Markup('<path class="axis" d="M{:.1f} {}v4"/>{}').format(
        x, bottom, _word(x, bottom + 16, text, "middle")
    )


def _mark(x: float) -> Markup:
    return Markup('<path class="mark" d="M{:.1f} {}V{}"/>').format(x, TOP, HEIGHT - BOTTOM)


def _word(x: float, y: float, text: str, anchor: str) -> Markup:
    return Markup('<text x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>').format(x, y, anchor, text)


def _line(frame: Frame, line: Line) -> Markup:
    places = [(frame.across(x), frame.down(y)) for x, y in line.points]
    look, mark = style(line.look)
    (x, y), *rest = places
    path = f"M{x:.1f} {y:.1f}" + "".join(_way(*place, line.steps) for place in rest)
    points = Markup("").join(
        Markup('<path class="point" transform="translate({:.1f} {:.1f})" d="{}"/>').format(x, y, mark)
        for x, y in (places[-1:] if line.steps else places)
    )
    return Markup('<g class="{}"><path class="line" d="{}"/>{}</g>').format(look, path, points)


def _way(x: float, y: float, steps: bool) -> str:
    """The piece of a path that leads to a point."""
    return f"H{x:.1f}V{y:.1f}" if steps else f"L{x:.1f} {y:.1f}"


def _short(name: str, most: int = 14) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"
