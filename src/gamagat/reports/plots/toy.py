"""The one-dimensional example: why a term that fades away helps to climb (figures 2a, 2b)."""

from __future__ import annotations

from math import exp

from gamagat.errors import ConfigError
from gamagat.reports.plots.core import PLOTS, Axis, Curve, Panel, Picture, Plot, Subject

LOW, HIGH = -2.2, 2.2  # the ball that the climber must not leave
POINTS = 221


@PLOTS.register("toy")
def toy(start: float = -1.8, weight: float = 0.6, steps: int = 30, rate: float = 0.15) -> Plot:
    """No source: gradient ascent in one dimension, without and with relaxation (figures 2a, 2b)."""
    if not LOW <= start <= HIGH or not 1 <= steps <= 1000 or not 0 < rate <= 10 or not 0 <= weight <= 100:
        raise ConfigError(
            f"the example needs a start between {LOW} and {HIGH}, 1 to 1000 steps, a rate between 0 and "
            f"10 and a weight between 0 and 100, got start={start:g},steps={steps},rate={rate:g},"
            f"weight={weight:g}"
        )

    def plot(subject: Subject) -> Picture:
        subject.nothing()
        return toy_picture(start, weight, steps, rate)

    return plot


def height(x: float) -> float:
    """A small hill near the start and a higher one behind it."""
    return exp(-3 * (x + 1) ** 2) + 3 * exp(-0.6 * (x - 1.2) ** 2)


def slope(x: float) -> float:
    return -6 * (x + 1) * exp(-3 * (x + 1) ** 2) - 3.6 * (x - 1.2) * exp(-0.6 * (x - 1.2) ** 2)


def relaxed(x: float, start: float, weight: float) -> float:
    """The hills and a term that grows with the distance from the start, as GAMA's does."""
    return height(x) + weight * (x - start) ** 2


def climb(start: float, weight: float, steps: int, rate: float) -> list[tuple[float, float]]:
    """Where projected gradient ascent stands before each step and after the last, and the weight there.

    The weight falls linearly to zero over the first three quarters of the steps.
    """
    x, path = start + 0.05, []  # at the start itself the relaxation has no slope, as at a clean image
    for step in range(steps + 1):
        now = weight * max(0.0, 1 - step / (0.75 * steps))
        path.append((x, now))
        x = min(HIGH, max(LOW, x + rate * (slope(x) + 2 * now * (x - start))))
    return path


def toy_picture(start: float, weight: float, steps: int, rate: float) -> Picture:
    """On the left the ascent alone, on the right the same with the relaxation."""
    xs = tuple(LOW + (HIGH - LOW) * place / (POINTS - 1) for place in range(POINTS))
    hills = Curve("f(x)", xs, tuple(map(height, xs)))
    plain = climb(start, 0.0, steps, rate)
    guided = climb(start, weight, steps, rate)
    fading = [
        Curve(
            f"λ = {share * weight:g}", xs, tuple(relaxed(x, start, share * weight) for x in xs), style="faint"
        )
        for share in (1.0, 0.75, 0.5, 0.25)
        if weight
    ]
    axis, high = Axis("x", low=LOW, high=HIGH), Axis("value to be maximised", low=0.0)
    panels = (
        Panel("(a) Ascent on f alone", axis, high, (hills, _path("ascent", plain, start))),
        Panel(
            "(b) Ascent on f + λ (x − x₀)², λ falling to 0",  # noqa: RUF001
            axis,
            high,
            (hills, *fading, _path("ascent", guided, start)),
        ),
    )
    note = (
        f"Both climb from x₀ = {start:g} in {steps} steps; λ falls from {weight:g} to 0 over three "
        f"quarters of them. They end at f = {height(plain[-1][0]):.2f} and f = {height(guided[-1][0]):.2f}."
    )
    return Picture("toy", "Graduated optimisation in one dimension", panels, "", note)


def _path(label: str, path: list[tuple[float, float]], start: float) -> Curve:
    return Curve(
        label, tuple(x for x, _ in path), tuple(relaxed(x, start, now) for x, now in path), style="path"
    )
