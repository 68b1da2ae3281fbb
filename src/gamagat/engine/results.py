"""What an evaluation found: plain numbers with their uncertainty."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any

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
        return 100 * self.count / self.of

    @property
    def ci95(self) -> tuple[float, float]:
        return wilson(self.count, self.of)


@dataclass(frozen=True, slots=True)
class AttackResult:
    """One attack of the plan."""

    name: str
    spec: str  # the name with every setting spelled out
    standing: Share  # classified correctly, clean and attacked
    curve: tuple[float, ...]  # accuracy left after the first, second, ... run (restart or target)
    forwards: float  # spent by the attack, per image of the data set
    backwards: float
    seconds: float

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "robust_accuracy": self.standing.percent,
            "forwards": self.forwards,
            "backwards": self.backwards,
            "seconds": self.seconds,
        }


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A network, a data set, a threat model, and what was left standing."""

    model: str
    data: str
    norm: str
    eps: float
    clean: Share
    standing: Share  # after the worst of all attacks, image by image
    attacks: tuple[AttackResult, ...]
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """The object that `gamagat evaluate --json` prints; accuracies in percent."""
        return {
            "model": self.model,
            "data": self.data,
            "n": self.clean.of,
            "norm": self.norm,
            "eps": self.eps,
            "clean_accuracy": self.clean.percent,
            "robust_accuracy": self.standing.percent,
            "ci95": list(self.standing.ci95),
            "attacks": [attack.as_json() for attack in self.attacks],
            "seconds": self.seconds,
        }
