"""Two runs over the same images, side by side."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, sqrt
from typing import Any

import numpy as np
from scipy.stats import binomtest

from gamagat.engine.run import Run
from gamagat.engine.share import Z95, Share
from gamagat.errors import RunError

Z80 = 0.8416212335729143  # the normal quantile of a power of 80 %


def mcnemar(only_a: int, only_b: int) -> float:
    """McNemar's exact p-value: each image they disagree on is the toss of a fair coin."""
    return float(binomtest(only_a, only_a + only_b).pvalue) if only_a + only_b else 1.0


def paired_interval(only_a: int, only_b: int, images: int) -> tuple[float, float]:
    """Tango's 95 % score interval for the difference of two paired shares, in points.

    T. Tango, Statistics in Medicine 17 (1998), 891-908. It is for two paired shares what Wilson's is
    for one: it holds the differences that a score test does not reject, and at zero that test is McNemar's.
    """
    return 100 * _lowest(only_a, only_b, images), -100 * _lowest(only_b, only_a, images)


def _lowest(only_a: int, only_b: int, images: int) -> float:
    """The smallest difference that the score test does not reject, by bisection."""
    low, high = -1.0, (only_a - only_b) / images
    for _ in range(60):
        middle = (low + high) / 2
        surplus = only_a - only_b - images * middle
        rejected = surplus > Z95 * sqrt(_variance(middle, only_a, only_b, images))
        low, high = (middle, high) if rejected else (low, middle)
    return high


def _variance(delta: float, only_a: int, only_b: int, images: int) -> float:
    """Of `only_a - only_b`, the shares being the likeliest that differ by delta."""
    linear = (2 * images - only_a + only_b) * delta - only_a - only_b
    constant = -only_b * delta * (1 - delta)
    root = sqrt(max(linear * linear - 8 * images * constant, 0.0))
    share_b = max((root - linear) / (4 * images), 0.0)
    return max(images * (2 * share_b + delta * (1 - delta)), 0.0)


def images_needed(only_a: int, only_b: int, images: int) -> int | None:
    """How many images tell the two apart at the 5 % level with 80 % power, if the rates are as observed.

    R. J. Connor, Biometrics 43 (1987), 207-211: with psi = p_a + p_b and delta = |p_a - p_b|,
    sqrt(n) * delta = K, where K = z_0.975 * sqrt(psi) + z_0.8 * sqrt(psi - delta^2). None if delta is 0.
    """
    psi, delta = (only_a + only_b) / images, abs(only_a - only_b) / images
    if delta == 0:
        return None
    reach = Z95 * sqrt(psi) + Z80 * sqrt(max(psi - delta * delta, 0.0))
    # The exact test asks for one image more than the normal one: n * delta - 1 = K * sqrt(n).
    return ceil(((reach + sqrt(reach * reach + 4 * delta)) / (2 * delta)) ** 2)


@dataclass(frozen=True, slots=True)
class Pair:
    """The same images under A and under B: how many stand in both, in one alone, in neither."""

    name: str
    both: int
    only_a: int
    only_b: int
    neither: int

    @property
    def images(self) -> int:
        return self.both + self.only_a + self.only_b + self.neither

    @property
    def a(self) -> Share:
        return Share(self.both + self.only_a, self.images)

    @property
    def b(self) -> Share:
        return Share(self.both + self.only_b, self.images)

    @property
    def points(self) -> float:
        """Accuracy of A less that of B."""
        return 100 * (self.only_a - self.only_b) / self.images

    @property
    def ci95(self) -> tuple[float, float]:
        return paired_interval(self.only_a, self.only_b, self.images)

    @property
    def p_value(self) -> float:
        return mcnemar(self.only_a, self.only_b)

    @property
    def needed(self) -> int | None:
        return images_needed(self.only_a, self.only_b, self.images)

    def as_json(self) -> dict[str, Any]:
        counts = {"both": self.both, "only_a": self.only_a, "only_b": self.only_b, "neither": self.neither}
        return {
            "name": self.name,
            "images": self.images,
            **counts,
            "accuracy_a": self.a.percent,
            "ci95_a": list(self.a.ci95),
            "accuracy_b": self.b.percent,
            "ci95_b": list(self.b.ci95),
            "difference": self.points,
            "ci95": list(self.ci95),
            "p_value": self.p_value,
            "images_needed": self.needed,
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs, image by image."""

    a: str
    b: str
    worst: Pair | None  # after the worst of all attacks of each run, if an image is through with all
    attacks: tuple[Pair, ...]  # those that both runs have
    notes: tuple[str, ...]  # what else is not the same, and what is unfinished

    def as_json(self) -> dict[str, Any]:
        """The object that `gamagat compare --json` prints; accuracies and differences in percent."""
        names = {"a": self.a, "b": self.b, "notes": list(self.notes)}
        attacks = [pair.as_json() for pair in self.attacks]
        worst = None if self.worst is None else self.worst.as_json()
        return names | {"worst_case": worst, "attacks": attacks}


def compare_runs(a: Run, b: Run) -> Comparison:
    """Pair two runs over the images that both are through with."""
    if a.manifest.data_sha256 != b.manifest.data_sha256:
        raise RunError(
            f"{a.folder} and {b.folder} are over different images ({_images(a)}; {_images(b)}); "
            "compare runs over the same data, split and number of images"
        )
    worst = _pair("worst case", a, a.manifest.entries(), b, b.manifest.entries())
    theirs = dict(b.manifest.runs())
    shared = [_pair(name, a, runs, b, theirs[name]) for name, runs in a.manifest.runs() if name in theirs]
    attacks = tuple(pair for pair in shared if pair.images)
    if not worst.images and not attacks:
        raise RunError(
            f"{_how_far(a)}, {_how_far(b)}: they have finished no image in common; make the unfinished go on "
            "with the commands that began them"
        )
    notes = (*b.manifest.differences(a.manifest), *_unfinished(a), *_unfinished(b))
    return Comparison(str(a.folder), str(b.folder), worst if worst.images else None, attacks, notes)


def _pair(name: str, a: Run, runs_a: list[str], b: Run, runs_b: list[str]) -> Pair:
    """Count the images that these runs are through with on both sides."""
    through_a, through_b = a.settled(runs_a), b.settled(runs_b)
    _, at_a, at_b = np.intersect1d(a.ids[through_a], b.ids[through_b], True, return_indices=True)
    in_a, in_b = a.standing(runs_a)[through_a][at_a], b.standing(runs_b)[through_b][at_b]
    counts = (in_a & in_b, in_a & ~in_b, ~in_a & in_b, ~in_a & ~in_b)
    return Pair(name, *(int(which.sum()) for which in counts))


def _images(run: Run) -> str:
    return f"{run.manifest.data} {run.manifest.split}, {run.manifest.n} images"


def _unfinished(run: Run) -> list[str]:
    """A clause if images are missing."""
    settled = _settled(run)
    if settled == run.manifest.n:
        return []
    return [f"{run.folder} is unfinished: {settled} of {run.manifest.n} images are settled"]


def _how_far(run: Run) -> str:
    """How many images are through, and by which attacks others are held up."""
    settled, count = _settled(run), run.manifest.n
    if settled == count:
        return f"{run.folder} is finished"
    left = [name for name, runs in run.manifest.runs() if int(run.settled(runs).sum()) < count]
    return f"{run.folder} is through with {settled} of {count} images (unfinished: {', '.join(left)})"


def _settled(run: Run) -> int:
    return int(run.settled(run.manifest.entries()).sum())
