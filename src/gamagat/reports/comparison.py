"""Two runs side by side, and accuracy against cost, in the terminal."""

from typing import Any

from rich.table import Table

from gamagat.engine.budget import Cost, at_budget, curve
from gamagat.engine.compare import Comparison, Pair
from gamagat.engine.run import Run
from gamagat.engine.share import Share

COSTS = {"backwards": "gradient evaluations", "passes": "passes through the network"}


def paired_table(result: Comparison) -> Table:
    """How many images stand after the worst of all attacks in both runs, in one alone, in neither."""
    pair = result.worst
    table = Table(title="images, worst case", title_justify="left")
    for heading in ("", "B stands", "B falls", "all"):
        table.add_column(heading, justify="right" if heading else "left")
    _counts(table, "A stands", pair.both, pair.only_a)
    _counts(table, "A falls", pair.only_b, pair.neither)
    table.add_section()
    _counts(table, "all", pair.b.count, pair.images - pair.b.count)
    return table


def comparison_tables(result: Comparison) -> list[Table]:
    """A table for the worst case, then one for each attack that both runs have."""
    return [_pair_table(pair) for pair in (result.worst, *result.attacks)]


def comparison_lines(result: Comparison) -> list[str]:
    """Which folder is which, what the figures say, and what else is not the same."""
    pair = result.worst
    low, high = pair.ci95
    return [
        f"A: {result.a}",
        f"B: {result.b}",
        f"A - B = {pair.points:+.2f} points on {pair.images} images, "
        f"95 % interval {low:+.2f} to {high:+.2f} (Tango's score interval)",
        f"exact McNemar p = {pair.p_value:.3g}: {_verdict(pair)}",
        *_doubt(pair),
        *(f"note: {clause}" for clause in result.notes),
    ]


def budget_table(run: Run, budget: int, cost: Cost = "backwards") -> Table:
    """Every attack of a run when no image may cost more than the budget."""
    table = _accuracy_table(f"at most {budget} {COSTS[cost]} per image")
    for attack, _ in run.manifest.runs():
        table.add_row(attack, *_accuracy(at_budget(run, attack, budget, cost)))
    return table


def cost_table(run: Run, cost: Cost = "backwards") -> Table:
    """Accuracy against cost for every attack of a run."""
    table = _accuracy_table(f"accuracy against {COSTS[cost]} per image", "at most")
    for attack, _ in run.manifest.runs():
        for number, (budget, standing) in enumerate(curve(run, attack, cost)):
            table.add_row("" if number else attack, str(budget), *_accuracy(standing))
        table.add_section()
    return table


def _counts(table: Table, name: str, stands: int, falls: int) -> None:
    table.add_row(name, str(stands), str(falls), str(stands + falls))


def _pair_table(pair: Pair) -> Table:
    """Accuracies with Wilson's intervals, their difference with Tango's."""
    table = Table(title=f"{pair.name}, {pair.images} images", title_justify="left")
    table.add_column("run")
    for heading in ("accuracy %", "95 % interval", "alone", "McNemar p", "images needed"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_row("A", *_accuracy(pair.a), str(pair.only_a), "", "")
    table.add_row("B", *_accuracy(pair.b), str(pair.only_b), "", "")
    low, high = pair.ci95
    needed = "-" if pair.needed is None else str(pair.needed)
    difference = (f"{pair.points:+.2f}", f"{low:+.2f} to {high:+.2f}")
    table.add_section()
    table.add_row("A - B", *difference, "", f"{pair.p_value:.2g}", needed, style="bold")
    return table


def _verdict(pair: Pair) -> str:
    """In words, with the number of images that an 80 % chance of telling them apart takes."""
    if pair.needed is None:
        return "the two stand on equally many images, and no number of images is known to tell them apart"
    told = "the two are told apart" if pair.p_value <= 0.05 else "the two are not told apart"
    return f"{told} at the 5 % level; at these rates {pair.needed} images do so with 80 % power"


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
    return f"{share.percent:.2f}", f"{low:.2f} - {high:.2f}"


def budget_json(run: Run, budget: int, cost: Cost = "backwards") -> dict[str, Any]:
    """The object that `gamagat compare --budget --json` prints; accuracies in percent."""
    return {
        "budget": budget,
        "n": run.manifest.n,
        "attacks": [
            {
                "name": attack,
                "robust_accuracy": at_budget(run, attack, budget, cost).percent,
                "curve": [[spent, standing.percent] for spent, standing in curve(run, attack, cost)],
            }
            for attack, _ in run.manifest.runs()
        ],
    }
