"""Shares of images, with their uncertainty."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

Z95 = 1.959963984540054  # the normal quantile of a two-sided 95 % interval


def wilson(successes: int, trials: int, z: float = Z95) -> tuple[float, float]:
    """Wilson's score interval for a share, in percent; it behaves at 0 % and at 100 %, too."""
    if trials == 0:
        return 0.0, 100.0
    share, spread = successes / trials, z * z / trials
    middle = (share + spread / 2) / (1 + spread)
    half = z / (1 + spread) * sqrt(share * (1 - share) / trials + spread / (4 * trials))
    # At the ends the exact bounds are 0 and 1; rounding must not leave them short.
    low = 0.0 if successes == 0 else middle - half
    high = 1.0 if successes == trials else middle + half
    return 100 * low, 100 * high


@dataclass(frozen=True, slots=True)
class Share:
    """So many of so many images."""

    count: int
    of: int

    @property
    def percent(self) -> float:
        return 100 * self.count / self.of if self.of else float("nan")

    @property
    def known(self) -> float | None:
        """The percentage, or None of no images: NaN is no JSON."""
        return self.percent if self.of else None

    @property
    def ci95(self) -> tuple[float, float]:
        return wilson(self.count, self.of)
