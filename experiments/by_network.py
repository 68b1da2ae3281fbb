"""All that the tables ask of a network, one network after another: a stop leaves whole rows, not crumbs.

    python experiments/by_network.py pgd-at tr-gat --data-dir DATA --tables table2,tableS9 --max-seconds 3000

names recipes of ResNet-18 on CIFAR-10, or with `--data mnist` of M-LeNet. Each step is one command, `gamagat
reproduce`, which skips what is known already, so the same line goes on after any interruption. `--list` says
which commands these are; what comes after a `--` goes to all of them.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from time import monotonic

from gamagat.experiments.core import EXPERIMENTS, Slot
from gamagat.experiments.defences import MODELS, RECIPES, recipe_of

PATIENCE = 60  # seconds to write down what is known, once the time is over


def commands(recipe: str, data: str, tables: Sequence[str]) -> Iterator[list[str]]:
    """The commands that fill every place of these tables which is measured on a network."""
    for name in tables:
        slots = [slot for slot in EXPERIMENTS.make(name).slots if _is(slot, recipe, data)]
        rows = list(dict.fromkeys(slot.row for slot in slots))
        for columns, alike in _alike({row: _columns(slots, row) for row in rows}).items():
            yield ["reproduce", name, "--rows", ",".join(alike), "--columns", ",".join(columns)]


def _is(slot: Slot, recipe: str, data: str) -> bool:
    network = slot.network
    wanted = (data, MODELS[data], _as_in_tables(recipe, data), 0, None)
    return (network.data, network.model, network.recipe, network.seed, network.eps) == wanted


def _as_in_tables(recipe: str, data: str) -> str:
    """A bare name stands for the recipe of that name with the tables' settings."""
    specs = [recipe_of(name, data) for name in RECIPES]
    return {spec.partition(":")[0]: spec for spec in specs}.get(recipe, recipe)


def _columns(slots: Sequence[Slot], row: str) -> tuple[str, ...]:
    return tuple(slot.column for slot in slots if slot.row == row)


def _alike(columns: dict[str, tuple[str, ...]]) -> dict[tuple[str, ...], list[str]]:
    """Rows with the same columns together: one command each."""
    found: dict[tuple[str, ...], list[str]] = {}
    for row, across in columns.items():
        found.setdefault(across, []).append(row)
    return found


def run(words: Sequence[str], seconds: float) -> int:
    """One command, which stops in order when the time is over; the exit code."""
    within = ["--max-seconds", f"{seconds:.1f}"] if seconds < float("inf") else []
    process = subprocess.Popen([sys.executable, "-m", "gamagat", *words, *within])
    try:
        return _ended(process, seconds + PATIENCE if within else None)
    except KeyboardInterrupt:  # which the command has had as well
        _ended(process, PATIENCE)
        raise


def _ended(process: subprocess.Popen[bytes], seconds: float | None) -> int:
    """The exit code; a command that takes longer is killed, not left behind."""
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def main() -> None:
    options, more = _options()
    began, worst = monotonic(), 0
    try:
        for words in _chosen(options):
            line = [*words, "--data-dir", options.data_dir, *more]
            print(shlex.join(["gamagat", *line]), flush=True)
            left = options.max_seconds - (monotonic() - began)
            if left <= 0:
                sys.exit("the time is over; the same line goes on")
            if not options.list:
                code = run(line, left)
                worst = worst or code
                print(f"exit code {code}, {monotonic() - began:.0f} s in all", flush=True)
    except KeyboardInterrupt:
        sys.exit("interrupted; the same line goes on")
    sys.exit(worst)


def _chosen(options: argparse.Namespace) -> list[list[str]]:
    found: list[list[str]] = []
    for recipe in options.recipes:
        theirs = list(commands(recipe, options.data, options.tables.split(",")))
        if not theirs:
            print(
                f"no place of {options.tables} is measured on {recipe!r} for {options.data}; recipes are "
                "those of gamagat list recipes, and gat:ablation=A1, A2, A3, A5",
                file=sys.stderr,
            )
            sys.exit(2)
        found += theirs
    return found


def _options() -> tuple[argparse.Namespace, list[str]]:
    words = sys.argv[1:]
    split = words.index("--") if "--" in words else len(words)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("recipes", nargs="+", help="gat, trades, ...: gamagat list recipes")
    parser.add_argument("--data", default="cifar10", choices=list(MODELS))
    parser.add_argument("--data-dir", default="data")
    parser.add_argument("--tables", default=",".join(EXPERIMENTS.names()), help="in this order")
    parser.add_argument("--max-seconds", type=float, default=float("inf"))
    parser.add_argument("--list", action="store_true", help="only print the commands")
    return parser.parse_args(words[:split]), words[split + 1 :]


if __name__ == "__main__":
    main()
