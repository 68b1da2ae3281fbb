"""Two runs side by side, and accuracy against cost, in the terminal."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rich.markup import escape
from rich.table import Table

from gamagat.engine.budget import RULE, Cost, at_budget, curve, most_spent
from gamagat.engine.compare import Comparison, Pair
from gamagat.engine.run import Run
from gamagat.engine.share import Share

COSTS = {"backwards": "gradient evaluations", "passes": "passes through the network"}


@dataclass(frozen=True, slots=True)
class SharedPlan:
    """Which attacks two runs have in common, with every setting the same."""

    a: tuple[str, ...]
    b: tuple[str, ...]
    shared: tuple[str, ...]  # by name
    same: bool  # whether the worst cases are of the same attacks, whatever they were called


def shared_plan(a: Run, b: Run) -> SharedPlan:
    """Compare the attacks of two runs by their names and all their settings."""
    ours, theirs = ({item["name"]: item["spec"] for item in run.manifest.attacks} for run in (a, b))
    shared = tuple(name for name, spec in ours.items() if theirs.get(name) == spec)
    return SharedPlan(tuple(ours), tuple(theirs), shared, set(ours.values()) == set(theirs.values()))


def in_order(result: Comparison, plan: SharedPlan) -> list[tuple[str, Pair]]:
    """All pairs under their names, the one to look at first in front.

    Worst cases of different attacks say nothing about the runs: they come last, and are called so.
    """
    worst = () if result.worst is None else (result.worst,)
    if plan.same:
        return [(pair.name, pair) for pair in (*worst, *result.attacks)]
    shared = [(pair.name, pair) for pair in result.attacks if pair.name in plan.shared]
    others = [
        (f"{pair.name} (other settings)", pair) for pair in result.attacks if pair.name not in plan.shared
    ]
    return [*shared, *others, *((f"{pair.name} (different attacks)", pair) for pair in worst)]


def paired_table(pair: Pair) -> Table:
    """How many images stand after the worst of all attacks in both runs, in one alone, in neither."""
    table = Table(title="images, worst case", title_justify="left")
    for heading in ("", "B stands", "B falls", "all"):
        table.add_column(heading, justify="right" if heading else "left")
    _counts(table, "A stands", pair.both, pair.only_a)
    _counts(table, "A falls", pair.only_b, pair.neither)
    table.add_section()
    _counts(table, "all", pair.b.count, pair.images - pair.b.count)
    return table


def comparison_tables(result: Comparison, plan: SharedPlan) -> list[Table]:
    """A table for the worst case and one for each attack that both runs have."""
    return [_pair_table(name, pair) for name, pair in in_order(result, plan)]


def comparison_lines(result: Comparison, plan: SharedPlan) -> list[str]:
    """Which folder is which, what the figures say, and what else is not the same."""
    worst = result.worst if plan.same else None
    said = _attack_by_attack(result, plan) if worst is None else _difference(worst)
    notes = (f"note: {clause}" for clause in result.notes)
    return [f"A: {result.a}", f"B: {result.b}", *said, *notes]


def _difference(pair: Pair) -> Iterator[str]:
    low, high = pair.ci95
    yield (
        f"A - B = {pair.points:+.2f} points on {pair.images:,} images, "
        f"95 % interval {low:+.2f} to {high:+.2f} (Tango's score interval)"
    )
    yield f"exact McNemar p = {pair.p_value:.3g}: {_verdict(pair)}"
    yield from _doubt(pair)


def _attack_by_attack(result: Comparison, plan: SharedPlan) -> Iterator[str]:
    """The attacks that both runs have; of the worst cases only why they are not compared."""
    if plan.same:
        yield "no image is through with all attacks in both runs: there are no worst cases to compare yet"
    else:
        yield (
            f"the worst cases are of different attacks (A: {', '.join(plan.a)}; B: {', '.join(plan.b)}) "
            "and not comparable"
        )
    shared = [pair for pair in result.attacks if pair.name in plan.shared]
    if not shared:
        yield "no attack with the same settings is finished in both; evaluate both with the same --attack"
    for pair in shared:
        yield from (f"{pair.name}: {line}" for line in _difference(pair))


def budget_table(run: Run, budget: int, cost: Cost = "backwards") -> Table:
    """Every attack of a run when no image may cost more than the budget, and the most that one cost."""
    table = _accuracy_table(f"at most {budget:,} {COSTS[cost]} per image")
    for heading in ("forwards", "backwards"):
        table.add_column(heading, justify="right", no_wrap=True)
    for attack, _ in run.manifest.runs():
        spent = (f"{count:,}" for count in most_spent(run, attack))
        table.add_row(attack, *_accuracy(at_budget(run, attack, budget, cost)), *spent)
    if cost == "backwards":
        table.caption, table.caption_justify = RULE, "left"
    return table


def cost_table(run: Run, cost: Cost = "backwards") -> Table:
    """Accuracy against cost for every attack of a run."""
    table = _accuracy_table(f"accuracy against {COSTS[cost]} per image", "at most")
    for attack, _ in run.manifest.runs():
        for number, (budget, standing) in enumerate(curve(run, attack, cost)):
            table.add_row("" if number else attack, f"{budget:,}", *_accuracy(standing))
        table.add_section()
    return table


def _counts(table: Table, name: str, stands: int, falls: int) -> None:
    table.add_row(name, f"{stands:,}", f"{falls:,}", f"{stands + falls:,}")


def _pair_table(name: str, pair: Pair) -> Table:
    """Accuracies with Wilson's intervals, their difference with Tango's."""
    table = Table(title=escape(f"{name}, {pair.images:,} images"), title_justify="left")
    table.add_column("run")
    for heading in ("accuracy %", "95 % interval", "alone", "McNemar p", "images needed"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_row("A", *_accuracy(pair.a), f"{pair.only_a:,}", "", "")
    table.add_row("B", *_accuracy(pair.b), f"{pair.only_b:,}", "", "")
    low, high = pair.ci95
    needed = "-" if pair.needed is None else f"{pair.needed:,}"
    difference = (f"{pair.points:+.2f}", f"{low:+.2f} to {high:+.2f}")
    table.add_section()
    table.add_row("A - B", *difference, "", f"{pair.p_value:.2g}", needed, style="bold")
    return table


def _verdict(pair: Pair) -> str:
    """In words, with the number of images that an 80 % chance of telling them apart takes."""
    if pair.needed is None:
        return "the two stand on equally many images, and no number of images is known to tell them apart"
    told = "the two are told apart" if pair.p_value <= 0.05 else "the two are not told apart"
    return f"{told} at the 5 % level; at these rates {pair.needed:,} images do so with 80 % power"


def _doubt(pair: Pair) -> list[str]:
    """A word where interval and test disagree, as they may close to the level."""
    low, high = pair.ci95
    if (low > 0 or high < 0) == (pair.p_value <= 0.05):
        return []
    return ["(the interval leaves zero out only without the exact test's caution: this is a close call)"]


def _accuracy_table(title: str, *more: str) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column("attack", overflow="fold")
    for heading in (*more, "accuracy %", "95 % interval"):
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _accuracy(share: Share) -> tuple[str, str]:
    low, high = share.ci95
    return f"{share.percent:.2f}", f"{low:.2f} to {high:.2f}"


def budget_json(run: Run, budget: int, cost: Cost = "backwards") -> dict[str, Any]:
    """The object that `gamagat compare --budget --json` prints; accuracies in percent."""
    return {
        "budget": budget,
        "counted": RULE,
        "n": run.manifest.n,
        "attacks": [
            {
                "name": attack,
                "robust_accuracy": at_budget(run, attack, budget, cost).percent,
                **dict(zip(("forwards", "backwards"), most_spent(run, attack), strict=True)),
                "curve": [[spent, standing.percent] for spent, standing in curve(run, attack, cost)],
            }
            for attack, _ in run.manifest.runs()
        ],
    }
