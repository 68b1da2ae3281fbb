"""All that tables and figures ask of a network, one after another: a stop leaves whole rows, not crumbs.

    python experiments/by_network.py pgd-at tr-gat --data-dir DATA --tables table2,tableS9 --max-seconds 3000

names recipes of ResNet-18 on CIFAR-10, or with `--data mnist` of M-LeNet; without a name all that there are.
A network is trained, loaded and compiled once, of several each in a process of its own. What is known already
is skipped, so the same line goes on after any interruption; `--missing` leaves out what the results hold,
too, for those who have them and not the networks. `--list` says what is to be measured, as commands.
`--checkpoint gat=zoo:gat-resnet18-cifar10` measures a network that is there in place of training one.
`--together 3` trains three networks at a time, and then measures as many at a time (on a GPU, under MPS).
"""

from __future__ import annotations

import argparse
import shlex
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType

from gamagat.engine.evaluate import INTERRUPTED
from gamagat.engine.runtime import GPU_LOST, choose_device
from gamagat.errors import ConfigError, DataError, GamagatError
from gamagat.experiments.cache import Cache
from gamagat.experiments.cells import Cell
from gamagat.experiments.clock import Clock
from gamagat.experiments.core import EXPERIMENTS, Measure, Network, Slot, Table
from gamagat.experiments.crew import LOST, STOPPED, UNFINISHED, Crew, device_elsewhere
from gamagat.experiments.defences import MODELS, RECIPES, recipe_of
from gamagat.experiments.drawing import Sketch, run_figure
from gamagat.experiments.drawn import Drawn
from gamagat.experiments.figures import FIGURES, Figure, Line, all_names, find_any
from gamagat.experiments.lacking import lacking
from gamagat.experiments.results import (
    check_folder,
    check_result,
    save_figure,
    save_result,
)
from gamagat.experiments.runner import Outcome, check, run, train_networks
from gamagat.experiments.words import command_for, read_networks, words_for
from gamagat.experiments.workshop import Workshop
from gamagat.reports.reproduction import draw, paint
from gamagat.reports.terminal import log, onlooker
from gamagat.reports.training import training_listener

CODES = {INTERRUPTED: STOPPED, GPU_LOST: LOST}  # of what stops it, but for the time
Todo = Mapping[str, Sequence[Table | Figure]]  # what is to be measured, by recipe


def recipes_of(data: str, names: Sequence[str]) -> list[str]:
    """All recipes that these tables and figures ask for, in the order of their rows."""
    found = (_recipe(place, data) for name in names for place in _places(find_any(name)))
    return list(dict.fromkeys(recipe for recipe in found if recipe is not None))


def parts(
    recipe: str, data: str, names: Sequence[str], given: Mapping[str, Network] = MappingProxyType({})
) -> list[Table | Figure]:
    """What is measured on a network, table by table, and drawn of it; one may be given for its recipe."""
    wanted = _as_in_tables(recipe, data)
    found = [_part(find_any(name), wanted, data) for name in names]
    instead = {"all": given[wanted]} if wanted in given else {}
    return [part.with_networks(instead) for part in found if part.rows]


def _part(whole: Table | Figure, wanted: str, data: str) -> Table | Figure:
    if isinstance(whole, Figure):
        return replace(whole, lines=tuple(line for line in whole.lines if _recipe(line, data) == wanted))
    return replace(whole, slots=tuple(s for s in whole.slots if _recipe(s, data) == wanted), derived=())


def _places(whole: Table | Figure) -> Sequence[Slot] | Sequence[Line]:
    return whole.lines if isinstance(whole, Figure) else whole.slots


def _recipe(place: Slot | Line, data: str) -> str | None:
    """The recipe of the defence's row that a place is of, if it is of one; a transfer is of its target."""
    networks = {place.network} if isinstance(place, Slot) else set(place.networks)
    if len(networks) != 1:
        return None
    (network,) = networks
    usual = (network.data, network.model, network.seed, network.eps) == (data, MODELS[data], 0, None)
    return network.recipe if usual else None


def _as_in_tables(recipe: str, data: str) -> str:
    """A bare name stands for the recipe of that name with the tables' settings."""
    specs = [recipe_of(name, data) for name in RECIPES]
    return {spec.partition(":")[0]: spec for spec in specs}.get(recipe, recipe)


def given_by_recipe(words: Sequence[str], data: str, known: Sequence[str]) -> dict[str, Network]:
    """Networks that are there already, by the recipe whose places they take."""
    given = {_as_in_tables(name, data): network for name, network in read_networks(words).items()}
    for name in given:
        if name not in known:
            raise ConfigError(f"no network of recipe {name!r} is needed here; recipes are {', '.join(known)}")
    return given


def left_for(recipe: str, options: argparse.Namespace, shop: Workshop) -> list[Table | Figure]:
    """What is to be measured on a network."""
    found = parts(recipe, options.data, options.tables, options.given)
    if options.missing:
        found = [lacking(part, shop, options.results) for part in found]
    return [part for part in found if part.rows]


def commands(part: Table | Figure) -> Iterator[str]:
    """The same as commands of `gamagat reproduce`: rows with the same columns together."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for row in part.rows:
        alike.setdefault(tuple(place.column for place in _places(part) if place.row == row), []).append(row)
    for columns, rows in alike.items():
        words = ["gamagat", "reproduce", part.name, "--rows", ",".join(rows), "--columns", ",".join(columns)]
        yield shlex.join(
            words + [word for network in given_to(part) for word in ("--checkpoint", f"all={network}")]
        )


def command_of(part: Table | Figure, shop: Workshop) -> str:
    """The command that is written down with its figures; a network that is given is that of these rows."""
    rows = ["all"] if part.rows == find_any(part.name).rows else part.rows
    given = [f"{row}={network}" for network in given_to(part) for row in rows]
    return command_for(part.name, shop.cache, given, {}, part.columns)


def given_to(part: Table | Figure) -> list[str]:
    """The network that was given for these places, as `--checkpoint` takes it."""
    return [words_for(network) for network in part.networks if network.given]


def work(todo: Sequence[Table | Figure], results: Path, shop: Workshop) -> int:
    """All that is to be measured on one network; the exit code."""
    empty = 0
    for part in todo:
        shop.command = command_of(part, shop)
        outcome = _drawn(part, results, shop) if isinstance(part, Figure) else _measured(part, results, shop)
        empty += len(outcome.missing)
        if outcome.stopped is not None:
            print(f"stopped: {outcome.stopped}; the same line goes on", file=sys.stderr)
            return CODES.get(outcome.stopped, UNFINISHED)
    return UNFINISHED if empty else 0


def _measured(part: Table, results: Path, shop: Workshop) -> Outcome:
    """Fill a part, each figure written down and told as soon as it is known."""
    whole, cells = EXPERIMENTS.make(part.name), list[Cell]()

    def told(cell: Cell) -> None:
        cells.append(cell)
        save_result(results, whole, cells, trial=shop.cache.n is not None)
        print(f"{part.name} {cell.row}, {cell.column}: {_figure(cell)}", flush=True)

    return run(part, shop, told)


def _drawn(part: Figure, results: Path, shop: Workshop) -> Sketch:
    """The same for the lines of a figure, with its pictures in the end."""
    whole, lines = FIGURES.make(part.name), list[Drawn]()

    def told(line: Drawn) -> None:
        lines.append(line)
        if len(lines) < len(part.lines):  # the last is written with the pictures, or is still missing
            save_figure(results, whole, lines)
        how = f"drawn in {line.seconds:.0f} s" if line.measured else f"not run, {line.reason}"
        print(f"{part.name} {line.row}, {line.column}: {how}", flush=True)

    sketch = run_figure(part, shop, draw, told)
    save_figure(results, whole, lines, paint)
    return sketch


def _figure(cell: Cell) -> str:
    """A figure and its time, or why there is none."""
    return f"{cell.ours:.2f} in {cell.seconds:.0f} s" if cell.ours is not None else f"not run, {cell.reason}"


def to_train(todo: Todo, shop: Workshop) -> dict[str, str]:
    """The networks that are not trained yet, also sources of transfers; each with a recipe that needs it."""
    wanted: dict[str, str] = {}
    for recipe, left in todo.items():
        for network in (network for part in left for network in part.networks if network.to_be_had):
            with suppress(DataError):  # without data it cannot be trained, which is told where it is measured
                if not shop.cache.is_trained(network):
                    wanted.setdefault(network.name, recipe)
    return wanted


def train_one(name: str, todo: Todo, shop: Workshop) -> int:
    """Train the network of this name, and nothing else; the exit code."""
    networks = {network.name: network for left in todo.values() for part in left for network in part.networks}
    failed: list[str] = []

    def told(network: Network, words: str, trained: bool) -> None:
        if not trained:
            failed.append(words)
            print(f"{network.name}: {words}", file=sys.stderr)

    slots = (Slot(name, "", networks[name], Measure()),) if name in networks else ()
    stopped = train_networks(Table(name, slots), shop, told)
    if stopped is not None:
        print(f"stopped: {stopped}; the same line goes on", file=sys.stderr)
        return CODES.get(stopped, UNFINISHED)
    return UNFINISHED if failed else 0


def by_others(todo: Todo, options: argparse.Namespace, shop: Workshop) -> int:
    """The same line for each network, each in a process of its own; the worst exit code.

    Where several run at a time all are trained first: an attack fills a GPU and starves a training beside it.
    """
    line = [sys.executable, *sys.argv, "--device", shop.device, "--only"]
    crew = Crew(options.together, options.max_seconds)
    if options.together > 1:
        networks = to_train(todo, shop)
        code = crew.work({name: [*line, recipe, "--train", name] for name, recipe in networks.items()})
        if code == STOPPED:
            return code
    return crew.work({recipe: [*line, recipe] for recipe in todo})


def main() -> None:
    options = _options()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: what is known is written down
    try:
        sys.exit(_main(options))
    except GamagatError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("interrupted; the same line goes on", file=sys.stderr)
        sys.exit(STOPPED)


def _main(options: argparse.Namespace) -> int:
    known = recipes_of(options.data, options.tables)
    recipes = [options.only] if options.only else options.recipes or known
    cache = Cache(options.cache, options.data_dir, n=options.n, fetch=not options.list)
    shop = Workshop(cache, options.device, options.batch_size, Clock(options.max_seconds), say=log)
    shop.listening, shop.looking = partial(training_listener, quiet=False), partial(onlooker, quiet=False)
    options.given = given_by_recipe(options.checkpoint, options.data, known)
    _check(recipes, known, options, replace(shop, device="cpu"))
    todo = {recipe: left_for(recipe, options, shop) for recipe in recipes}
    todo = {recipe: left for recipe, left in todo.items() if left}
    here = options.only or (len(todo) <= 1 and options.together == 1)
    if todo and not options.list:
        shop.device = str(choose_device(options.device)) if here else device_elsewhere(options.device)
    if not todo:
        print(f"nothing to do: {options.results} holds all of it")
    for line in (line for left in todo.values() for part in left for line in commands(part)):
        if not options.only:
            print(line, flush=True)
    if options.list:
        return 0
    if options.train:
        return train_one(options.train, todo, shop)
    if here:
        return max((work(left, options.results, shop) for left in todo.values()), default=0)
    return by_others(todo, options, shop)


def _check(recipes: Sequence[str], known: list[str], options: argparse.Namespace, shop: Workshop) -> None:
    """Find mistakes before anything runs."""
    if options.n is not None and options.n < 1:
        raise ConfigError(f"the number of images must be positive, got {options.n}")
    if options.together < 1:
        raise ConfigError(f"at least one network has to be worked on at a time, got {options.together}")
    if not recipes:
        raise ConfigError(f"{','.join(options.tables)} measures no defence on {options.data}")
    for recipe in recipes:
        found = parts(recipe, options.data, options.tables, options.given)
        if not found:
            raise ConfigError(
                f"no place of {','.join(options.tables)} is measured on {recipe!r} for {options.data}; "
                f"recipes are {', '.join(known)}"
            )
        for part in found:
            check(part, shop)
    check_folder(options.results)
    for name in options.tables:
        check_result(options.results, find_any(name))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("recipes", nargs="*", help="gat, trades, ...: gamagat list recipes")
    parser.add_argument("--data", default="cifar10", choices=list(MODELS))
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument(
        "--tables",
        default=",".join(all_names()),
        help="and figures, in this order",
    )
    parser.add_argument("--cache", type=Path, default=Path("runs/reproduce"), help="of trained networks")
    parser.add_argument("--results", type=Path, default=Path("results"), help="brought up to date")
    parser.add_argument(
        "--checkpoint", action="append", default=[], help="RECIPE=MODEL@FILE or RECIPE=FOLDER"
    )
    parser.add_argument("--missing", action="store_true", help="only what the results do not hold yet")
    parser.add_argument("--n", type=int, help="only the first so many test images")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--batch-size", type=int)
    parser.add_argument("--max-seconds", type=float)
    parser.add_argument("--together", type=int, default=1, help="so many at a time: train all, then measure")
    parser.add_argument("--list", action="store_true", help="only say what is to be measured")
    for word in ("--only", "--train"):  # how it calls itself for one of several
        parser.add_argument(word, help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.tables = options.tables.split(",")
    return options


if __name__ == "__main__":
    main()
