"""Attacks at equal cost: what each leaves standing when no image may cost more than so much."""

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from gamagat.attacks.combine import gradients, passes
from gamagat.attacks.core import ATTACKS, Attack
from gamagat.engine.checkup.reach import reaching
from gamagat.engine.ledger import CLEAN
from gamagat.engine.plan import plan_attack
from gamagat.engine.run import Run, Table
from gamagat.engine.share import Share
from gamagat.errors import ConfigError, RunError, unknown
from gamagat.registry import Options, format_spec, parse_spec

NEVER = np.iinfo(np.int64).max
Cost = Literal["backwards", "passes"]  # gradient evaluations, or all passes through the network
PER_GRADIENT = 2  # passes: one forward, one back
RULE = (
    "A gradient evaluation is one pass forward and one back; for each, an attack without gradients has two "
    "passes forward (queries)."
)
LENGTHS = ("steps", "queries")  # settings that say how long an attack goes on
Costs = NDArray[np.int64]


def falling_costs(clean: Table, tables: Sequence[Table], cost: Cost = "backwards") -> Costs:
    """What each image had cost when one of these runs fooled it; 0 if wrong untouched, NEVER if it stands."""
    falls = np.where(clean["fooled"] == 1, 0, NEVER)
    for table, spent in zip(tables, _spent(tables, cost), strict=True):
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


def curve(
    run: Run, attack: str, cost: Cost = "backwards", points: int | None = None
) -> list[tuple[int, Share]]:
    """Accuracy against cost: at 0, at 1, 2, 5, 10, ... from the first fall on, and at all that was spent.

    With `points`, at every cost at which an image falls instead of at round ones; where there are more such
    costs than points, at those between which equally many images fall.
    """
    clean, tables = _settled_tables(run, attack)
    falls = falling_costs(clean, tables, cost)
    fallen = np.sort(falls[(falls > 0) & (falls < NEVER)])
    last = max(int(spent.max()) for spent in _spent(tables, cost))
    wanted = _rungs(fallen, last) if points is None else _thinned(fallen, points)
    budgets = sorted({0, last} | wanted)
    return list(zip(budgets, budget_curve(clean, tables, budgets, cost), strict=True))


def _rungs(fallen: Costs, last: int) -> set[int]:
    """Round costs from the first fall to the last pass."""
    rungs = {digit * 10**power for power in range(len(str(last))) for digit in (1, 2, 5)}
    return {rung for rung in rungs if fallen.min(initial=NEVER) <= rung < last}


def _thinned(fallen: Costs, points: int) -> set[int]:
    """The costs at which images fall, or as many of them as there are points."""
    different = np.unique(fallen)
    if len(different) > points:
        different = np.unique(fallen[np.linspace(0, len(fallen) - 1, points).round().astype(int)])
    return set(different.tolist())


def _spent(tables: Sequence[Table], cost: Cost) -> Iterator[Costs]:
    """What each image has cost by the end of each of these runs.

    The queries of all runs without a gradient are counted together: a half is rounded up once, not in each.
    """
    whole = halves = np.zeros(len(tables[0]) if tables else 0, np.int64)
    for table in tables:
        forwards, backwards = table["forwards"].astype(np.int64), table["backwards"].astype(np.int64)
        if cost == "passes":
            whole = whole + forwards + backwards
        elif backwards.any():
            whole = whole + backwards
        else:
            halves = halves + forwards
        yield whole - (-halves // PER_GRADIENT)


def most_spent(run: Run, attack: str) -> tuple[int, int]:
    """The most passes forward and back that one image has cost."""
    _, tables = _settled_tables(run, attack)
    spent = (sum(table[way].astype(np.int64) for table in tables) for way in ("forwards", "backwards"))
    forwards, backwards = (int(np.max(costs)) for costs in spent)
    return forwards, backwards


def _settled_tables(run: Run, attack: str) -> tuple[Table, list[Table]]:
    """Clean and attacked verdicts of the images that the attack is through with."""
    attacks = dict(run.manifest.runs())
    if attack not in attacks:
        raise unknown(f"attack of {run.folder}", attack, attacks)
    settled = run.settled(attacks[attack])
    if not settled.any():
        raise RunError(f"{attack} has finished no image of {run.folder}; let the run go on first")
    return run.table(CLEAN)[settled], [run.table(entry)[settled] for entry in attacks[attack]]


def spec_for_budget(spec: str, budget: int, preset: str | None = None, classes: int = 10) -> str:
    """The attack with as many steps as the budget allows, shared equally among its restarts and targets.

    The budget counts gradients; an attack that needs none has two forward passes for each. Of a suite, steps
    and queries become fewer, or more, alike. An attack without a length to set stays as it is; one whose
    usual steps would be too few to come anywhere takes longer ones.
    """
    if budget < 1:
        raise ConfigError(f"the budget must be at least 1 gradient evaluation per image, got {budget}")
    name, options = parse_spec(spec)
    lengths = [key for key in LENGTHS if key in ATTACKS[name].defaults()]
    if len(lengths) > 1:
        return _stretched(name, options, lengths, budget, preset, classes)
    return _filling(name, options, lengths[0], budget, preset, classes) if lengths else spec


def _filling(name: str, options: Options, length: str, budget: int, preset: str | None, classes: int) -> str:
    """The attack with as many of its steps as there is room for."""
    runs = _runs(name, options | {length: 1}, preset)
    each, room = sum(gradients(run, classes) for run in runs), budget
    if not each:
        each, room = sum(map(passes, runs)), PER_GRADIENT * budget
        if each > room:
            raise ConfigError(
                f"{format_spec(name, options)} needs at least {each} forward passes per image, and a budget "
                f"of {budget} gradient evaluations allows {room}; give --budget "
                f"{-(-each // PER_GRADIENT)} or more, or an attack that asks less often in a step"
            )
    return format_spec(name, reaching(name, options | {length: max(1, room // each)}, preset))


def _stretched(
    name: str, options: Options, lengths: Sequence[str], budget: int, preset: str | None, classes: int
) -> str:
    """The suite with all its lengths as many times larger as its cost is to be."""
    own = {key: value for key, value in options.items() if key in ATTACKS[name].defaults()}
    usual = ATTACKS.settings(name, preset, **own)  # restarts are not the attack's own
    whole = sum(gradients(run, classes) or passes(run) / PER_GRADIENT for run in _runs(name, options, preset))
    longer = {key: max(1, int(usual[key] * budget / whole)) for key in lengths}
    return format_spec(name, options | longer)


def _runs(name: str, options: Options, preset: str | None) -> list[Attack]:
    return [run for _, run in plan_attack(format_spec(name, options), preset).runs]
