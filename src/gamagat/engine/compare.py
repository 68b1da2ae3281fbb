"""Two runs over the same images, and attacks at equal cost: arithmetic over what the ledgers hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, sqrt
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

from gamagat.attacks.core import ATTACKS
from gamagat.engine.ledger import CLEAN
from gamagat.engine.plan import plan_attack
from gamagat.engine.results import Z95, Share
from gamagat.engine.run import Run, Table
from gamagat.errors import ConfigError, RunError, unknown
from gamagat.registry import format_spec, parse_spec

Z80 = 0.8416212335729143  # the normal quantile of a power of 80 %
NEVER = np.iinfo(np.int64).max
Cost = Literal["backwards", "passes"]  # gradient evaluations, or all passes through the network
Costs = NDArray[np.int64]


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
    worst: Pair  # after the worst of all attacks of each run
    attacks: tuple[Pair, ...]  # those that both runs have
    notes: tuple[str, ...]  # what else is not the same, and what is unfinished

    def as_json(self) -> dict[str, Any]:
        """The object that `gamagat compare --json` prints; accuracies and differences in percent."""
        names = {"a": self.a, "b": self.b, "notes": list(self.notes)}
        attacks = [pair.as_json() for pair in self.attacks]
        return names | {"worst_case": self.worst.as_json(), "attacks": attacks}


def compare_runs(a: Run, b: Run) -> Comparison:
    """Pair two runs over the images that both are through with."""
    if a.manifest.data_sha256 != b.manifest.data_sha256:
        raise RunError(
            f"{a.folder} and {b.folder} are over different images ({_images(a)}; {_images(b)}); "
            "compare runs over the same data, split and number of images"
        )
    worst = _pair("worst case", a, _all_runs(a), b, _all_runs(b))
    if worst.images == 0:
        raise RunError(f"{a.folder} and {b.folder} have finished no image in common; let them go on first")
    theirs = dict(b.manifest.runs())
    shared = [_pair(name, a, runs, b, theirs[name]) for name, runs in a.manifest.runs() if name in theirs]
    attacks = tuple(pair for pair in shared if pair.images)
    notes = (*b.manifest.differences(a.manifest), *_unfinished(a), *_unfinished(b))
    return Comparison(str(a.folder), str(b.folder), worst, attacks, notes)


def _pair(name: str, a: Run, runs_a: list[str], b: Run, runs_b: list[str]) -> Pair:
    """Count the images that these runs are through with on both sides."""
    through_a, through_b = a.settled(runs_a), b.settled(runs_b)
    _, at_a, at_b = np.intersect1d(a.ids[through_a], b.ids[through_b], True, return_indices=True)
    in_a, in_b = a.standing(runs_a)[through_a][at_a], b.standing(runs_b)[through_b][at_b]
    counts = (in_a & in_b, in_a & ~in_b, ~in_a & in_b, ~in_a & ~in_b)
    return Pair(name, *(int(which.sum()) for which in counts))


def _all_runs(run: Run) -> list[str]:
    return [entry for _, entries in run.manifest.runs() for entry in entries]


def _images(run: Run) -> str:
    return f"{run.manifest.data} {run.manifest.split}, {run.manifest.n} images"


def _unfinished(run: Run) -> list[str]:
    """A clause if images are missing."""
    settled = int(run.settled(_all_runs(run)).sum())
    if settled == run.manifest.n:
        return []
    return [
        f"{run.folder} is unfinished: {settled} of {run.manifest.n} images are settled; "
        "those that fall are settled first, so its accuracy reads low"
    ]


def falling_costs(clean: Table, tables: Sequence[Table], cost: Cost = "backwards") -> Costs:
    """What each image had cost when one of these runs fooled it; 0 if wrong untouched, NEVER if it stands."""
    spent = np.zeros(len(clean), np.int64)
    falls = np.where(clean["fooled"] == 1, 0, NEVER)
    for table in tables:
        spent += _costs(table, cost)
        falls = np.minimum(falls, np.where(table["fooled"] == 1, spent, NEVER))
    return falls


def budget_curve(
    clean: Table, tables: Sequence[Table], budgets: Sequence[int], cost: Cost = "backwards"
) -> list[Share]:
    """What is left standing when no image may cost more than each budget."""
    fallen = np.searchsorted(np.sort(falling_costs(clean, tables, cost)), budgets, side="right")
    return [Share(len(clean) - int(count), len(clean)) for count in fallen]


def at_budget(run: Run, attack: str, budget: int, cost: Cost = "backwards") -> Share:
    """What one attack of a run leaves standing when no image may cost more than the budget.

    This cuts the attack off: its schedules are still those of its full length. `spec_for_budget` writes the
    attack that is planned for the budget.
    """
    return budget_curve(*_settled_tables(run, attack), [budget], cost)[0]


def curve(run: Run, attack: str, cost: Cost = "backwards") -> list[tuple[int, Share]]:
    """Accuracy against cost: at 0, at 1, 2, 5, 10, ... from the first fall on, and at all that was spent."""
    clean, tables = _settled_tables(run, attack)
    falls = falling_costs(clean, tables, cost)
    first = falls[falls > 0].min(initial=NEVER)
    last = int(np.sum([_costs(table, cost) for table in tables], axis=0).max())
    rungs = {digit * 10**power for power in range(len(str(last))) for digit in (1, 2, 5)}
    budgets = sorted({0, last} | {rung for rung in rungs if first <= rung < last})
    return list(zip(budgets, budget_curve(clean, tables, budgets, cost), strict=True))


def _costs(table: Table, cost: Cost) -> Costs:
    backwards = table["backwards"].astype(np.int64)
    return backwards if cost == "backwards" else backwards + table["forwards"]


def _settled_tables(run: Run, attack: str) -> tuple[Table, list[Table]]:
    """Clean and attacked verdicts of the images that the attack is through with."""
    attacks = dict(run.manifest.runs())
    if attack not in attacks:
        raise unknown(f"attack of {run.folder}", attack, attacks)
    settled = run.settled(attacks[attack])
    if not settled.any():
        raise RunError(f"{attack} has finished no image of {run.folder}; let the run go on first")
    return run.table(CLEAN)[settled], [run.table(entry)[settled] for entry in attacks[attack]]


def spec_for_budget(spec: str, budget: int, preset: str | None = None) -> str:
    """The attack with as many steps as the budget allows, shared equally among its restarts and targets.

    An attack whose number of steps is fixed begins again until the budget is spent.
    """
    if budget < 1:
        raise ConfigError(f"the budget must be at least 1 gradient evaluation per image, got {budget}")
    name, options = parse_spec(spec)
    if "steps" in ATTACKS[name].defaults():
        runs = len(plan_attack(spec, preset).runs)
        return format_spec(name, options | {"steps": max(1, budget // runs)})
    runs = len(plan_attack(format_spec(name, options | {"restarts": "1"}), preset).runs)
    return format_spec(name, options | {"restarts": max(1, budget // runs)})
