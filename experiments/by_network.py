"""All that the tables ask of a network, one network after another: a stop leaves whole rows, not crumbs.

    python experiments/by_network.py pgd-at tr-gat --data-dir DATA --tables table2,tableS9 --max-seconds 3000

names recipes of ResNet-18 on CIFAR-10, or with `--data mnist` of M-LeNet; without a name all that the tables
have. A network is trained, loaded and compiled once, in a process of its own. What is known already is
skipped, so the same line goes on after any interruption; `--missing` leaves out what the results hold, too,
for those who have them and not the networks. `--list` says what is to be measured, as commands.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import monotonic

from gamagat.engine.evaluate import INTERRUPTED
from gamagat.errors import ConfigError, GamagatError
from gamagat.experiments.cache import Cache
from gamagat.experiments.cells import Cell
from gamagat.experiments.clock import Clock
from gamagat.experiments.core import EXPERIMENTS, Network, Table
from gamagat.experiments.defences import MODELS, RECIPES, recipe_of
from gamagat.experiments.lacking import lacking
from gamagat.experiments.results import save_result
from gamagat.experiments.runner import Outcome, run
from gamagat.experiments.words import command_for
from gamagat.experiments.workshop import Workshop
from gamagat.reports.terminal import log, onlooker
from gamagat.reports.training import training_listener

PATIENCE = 60  # seconds to write down what is known, once the time is over
UNFINISHED = 3


def recipes_of(data: str, tables: Sequence[str]) -> list[str]:
    """All recipes that these tables ask for, in the order of their rows."""
    slots = [slot for name in tables for slot in EXPERIMENTS.make(name).slots]
    found = [str(slot.network.recipe) for slot in slots if _usual(slot.network, data)]
    return list(dict.fromkeys(found))


def parts(recipe: str, data: str, tables: Sequence[str]) -> Iterator[Table]:
    """What is measured on a network, table by table; distances apart, which take a thousand times as long."""
    wanted = _as_in_tables(recipe, data)
    for table in map(EXPERIMENTS.make, tables):
        slots = [s for s in table.slots if _usual(s.network, data) and s.network.recipe == wanted]
        for far in (False, True):
            some = tuple(slot for slot in slots if (slot.measure.what == "distance") is far)
            if some:
                yield replace(table, slots=some, derived=())


def _usual(network: Network, data: str) -> bool:
    """Whether it is the network of a defence's row."""
    model, seed, eps = network.model, network.seed, network.eps
    return network.recipe is not None and (network.data, model, seed, eps) == (data, MODELS[data], 0, None)


def _as_in_tables(recipe: str, data: str) -> str:
    """A bare name stands for the recipe of that name with the tables' settings."""
    specs = [recipe_of(name, data) for name in RECIPES]
    return {spec.partition(":")[0]: spec for spec in specs}.get(recipe, recipe)


def is_far(part: Table) -> bool:
    return part.slots[0].measure.what == "distance"


def shop_for(part: Table, options: argparse.Namespace, shop: Workshop) -> Workshop:
    """The workshop with the number of images of a part, and its command; it has the network in its hands."""
    n = options.distances if is_far(part) and options.n is None else options.n
    cache = replace(shop.cache, n=n)
    return replace(shop, cache=cache, command=command_for(part.name, cache, [], {}))


def left_of(part: Table, options: argparse.Namespace, shop: Workshop) -> Table | None:
    """What is to be measured of a part, if anything is."""
    if options.missing:
        found = lacking(part, shop_for(part, options, shop), options.results)
        assert isinstance(found, Table)
        part = found
    return part if part.slots else None


def commands(part: Table, n: int | None) -> Iterator[str]:
    """The same as commands of `gamagat reproduce`: rows with the same columns together."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for row in part.rows:
        alike.setdefault(tuple(slot.column for slot in part.slots if slot.row == row), []).append(row)
    for columns, rows in alike.items():
        words = ["gamagat", "reproduce", part.name, "--rows", ",".join(rows), "--columns", ",".join(columns)]
        yield shlex.join(words + ([] if n is None else ["--n", str(n)]))


def work(recipe: str, options: argparse.Namespace, shop: Workshop) -> int:
    """All that is to be measured on one network; the exit code."""
    empty = 0
    for part in parts(recipe, options.data, options.tables):
        own = shop_for(part, options, shop)
        todo = left_of(part, options, shop)
        for line in [] if todo is None else commands(todo, own.cache.n):
            print(line, flush=True)
        if todo is None or options.list:
            continue
        outcome = _measured(todo, own, options.results)
        shop.last, empty = own.last, empty + len(outcome.missing)
        if outcome.stopped is not None:
            print(f"stopped: {outcome.stopped}; the same line goes on", file=sys.stderr)
            return 130 if outcome.stopped == INTERRUPTED else UNFINISHED
    return UNFINISHED if empty else 0


def _measured(part: Table, shop: Workshop, results: Path) -> Outcome:
    """Fill a part, each figure written down and told as soon as it is known."""
    whole, cells = EXPERIMENTS.make(part.name), list[Cell]()

    def told(cell: Cell) -> None:
        cells.append(cell)
        save_result(results, whole, cells)
        print(f"{part.name} {cell.row}, {cell.column}: {_figure(cell)}", flush=True)

    return run(part, shop, told)


def _figure(cell: Cell) -> str:
    """A figure and its time, or why there is none."""
    return f"{cell.ours:.2f} in {cell.seconds:.0f} s" if cell.ours is not None else f"not run, {cell.reason}"


def in_turn(recipes: Sequence[str], words: Sequence[str], seconds: float) -> int:
    """A process for each network, until the time is over; the worst exit code."""
    began, worst = monotonic(), 0
    for recipe in recipes:
        left = seconds - (monotonic() - began)
        if left <= 0:
            print("the time is over; the same line goes on", file=sys.stderr)
            return UNFINISHED
        code = ended([sys.executable, __file__, recipe, *words], left)
        worst = worst or code
        print(f"{recipe}: exit code {code}, {monotonic() - began:.0f} s in all", flush=True)
    return worst


def ended(words: Sequence[str], seconds: float) -> int:
    """The exit code of a command, which stops in order when the time is over; one that does not is killed."""
    within = ["--max-seconds", f"{seconds:.1f}"] if seconds < float("inf") else []
    process = subprocess.Popen([*words, *within])
    try:
        return _waited(process, seconds + PATIENCE if within else None)
    except KeyboardInterrupt:  # which the command has had as well
        _waited(process, PATIENCE)
        raise


def _waited(process: subprocess.Popen[bytes], seconds: float | None) -> int:
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def main() -> None:
    options = _options()
    try:
        sys.exit(_main(options))
    except GamagatError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit("interrupted; the same line goes on")


def _main(options: argparse.Namespace) -> int:
    for recipe in options.recipes:
        if not any(parts(recipe, options.data, options.tables)):
            known = ", ".join(recipes_of(options.data, options.tables)) or "none"
            raise ConfigError(
                f"no place of {','.join(options.tables)} is measured on {recipe!r} for {options.data}; "
                f"recipes are {known}"
            )
    recipes = options.recipes or recipes_of(options.data, options.tables)
    shop = Workshop(
        Cache(options.cache, options.data_dir), options.device, clock=Clock(options.max_seconds), say=log
    )
    shop.listening, shop.looking = partial(training_listener, quiet=False), partial(onlooker, quiet=False)
    if options.list or len(recipes) == 1:
        return max(work(recipe, options, shop) for recipe in recipes)
    todo = [
        r for r in recipes if any(left_of(p, options, shop) for p in parts(r, options.data, options.tables))
    ]
    seconds = float("inf") if options.max_seconds is None else options.max_seconds
    return in_turn(todo, _same_words(options), seconds)


def _same_words(options: argparse.Namespace) -> list[str]:
    """What is asked of every network, in words."""
    words = ["--data", options.data, "--tables", ",".join(options.tables), "--cache", str(options.cache)]
    words += ["--results", str(options.results), "--distances", str(options.distances)]
    words += ["--device", options.device, *(["--missing"] if options.missing else [])]
    words += [] if options.data_dir is None else ["--data-dir", str(options.data_dir)]
    return words + ([] if options.n is None else ["--n", str(options.n)])


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("recipes", nargs="*", help="gat, trades, ...: gamagat list recipes")
    parser.add_argument("--data", default="cifar10", choices=list(MODELS))
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--tables", default=",".join(EXPERIMENTS.names()), help="in this order")
    parser.add_argument("--cache", type=Path, default=Path("runs/reproduce"), help="of trained networks")
    parser.add_argument("--results", type=Path, default=Path("results"), help="brought up to date")
    parser.add_argument("--missing", action="store_true", help="only what the results do not hold yet")
    parser.add_argument("--n", type=int, help="only the first so many test images")
    parser.add_argument("--distances", type=int, default=1000, help="images of mean distances")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--max-seconds", type=float)
    parser.add_argument("--list", action="store_true", help="only say what is to be measured")
    options = parser.parse_args()
    options.tables = options.tables.split(",")
    return options


if __name__ == "__main__":
    main()
