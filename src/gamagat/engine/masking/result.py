"""What a check says, and how many checks become one verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from math import isfinite
from typing import Any, NamedTuple

from gamagat.engine.masking.exam import Exam


class Level(StrEnum):
    """What a check makes of its numbers."""

    FINE = "fine"
    WARNS = "warns"  # a symptom: masking shows it, and so do harmless things
    MASKED = "masked"  # a proof that gradients mislead attacks on this network
    UNCHECKED = "not checked"


class Verdict(StrEnum):
    """What all checks together make of the network."""

    SOUND = "sound"
    SUSPICIOUS = "suspicious"
    MASKED = "masked"


@dataclass(frozen=True, slots=True)
class Result:
    """One check: its numbers, the threshold they were held against, what they mean and what to do next."""

    level: Level
    seen: str
    threshold: str
    meaning: str
    do: str
    numbers: Mapping[str, float | None]

    def as_json(self) -> dict[str, Any]:
        """The result as plain values; a number that is not finite is None, as JSON has none."""
        numbers = {
            name: None if value is None or not isfinite(value) else value
            for name, value in self.numbers.items()
        }
        return asdict(replace(self, numbers=numbers)) | {"level": self.level.value}


class Check(NamedTuple):
    """A name and a function; `of_attacks` says that it goes by the images that attacks leave standing."""

    name: str
    ask: Callable[[Exam], Result]
    of_attacks: bool = True


def worst(*levels: Level) -> Level:
    """The worst of these levels."""
    return max(levels, key=[Level.FINE, Level.WARNS, Level.MASKED].index)


def graded(value: float, warns: float, masked: float = float("inf")) -> Level:
    """The level of a number that should be small: at a threshold it is still on the better side."""
    return Level.MASKED if value > masked else Level.WARNS if value > warns else Level.FINE


def graded_points(exam: Exam, points: float, warns: float, masked: float = float("inf")) -> Level:
    """The same of a number in percent of the images, where chance may move a few of them."""
    return graded(points, exam.worth(warns), exam.worth(masked))


def verdict(levels: Mapping[str, Level]) -> Verdict:
    """The rule: one proof makes a network masked, one symptom suspicious; without either it is sound."""
    if Level.MASKED in levels.values():
        return Verdict.MASKED
    return Verdict.SUSPICIOUS if Level.WARNS in levels.values() else Verdict.SOUND


def tempered(result: Result) -> Result:
    """The same result of attacks on a network that answers at random.

    There images stand or fall by lucky draws as well, so that accuracies are a symptom and no proof.
    """
    return replace(result, level=Level.WARNS) if result.level is Level.MASKED else result
