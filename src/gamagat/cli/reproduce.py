"""gamagat reproduce: the paper's tables and figures, measured."""

from __future__ import annotations

import os
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from gamagat.cli.app import app
from gamagat.cli.options import BATCH, DATA_DIR, DEVICE, JSON, SEED
from gamagat.engine.evaluate import INTERRUPTED
from gamagat.engine.ranks import Ranks
from gamagat.engine.training.settings import parse_settings
from gamagat.errors import ConfigError
from gamagat.experiments.cache import Cache
from gamagat.experiments.cells import Cell
from gamagat.experiments.claims import ruled
from gamagat.experiments.clock import Clock
from gamagat.experiments.core import Network, Table
from gamagat.experiments.drawing import run_figure
from gamagat.experiments.drawn import Drawn
from gamagat.experiments.figures import Figure, all_names, find_any
from gamagat.experiments.forecast import forecast, forecast_figure
from gamagat.experiments.lacking import lacking
from gamagat.experiments.results import (
    check_folder,
    check_result,
    figure_result,
    read_results,
    result_of,
    save_figure,
    save_result,
)
from gamagat.experiments.runner import check, run, train_networks
from gamagat.experiments.said import claims
from gamagat.experiments.words import command_for, listed, read_networks, read_settings
from gamagat.experiments.workshop import Workshop
from gamagat.reports.measured import page
from gamagat.reports.reproduction import (
    draw,
    forecast_table,
    lines_table,
    paint,
    reasons,
    side_by_side,
)
from gamagat.reports.terminal import log, note, onlooker, show
from gamagat.reports.training import training_listener

UNFINISHED = 3  # exit code where something that was asked for is not measured


@app.command()
def reproduce(
    name: Annotated[
        str | None,
        typer.Argument(help="table2 or figure3 (gamagat list experiments, gamagat list figures)."),
    ] = None,
    rows: Annotated[str | None, typer.Option(help="Only these rows: GAT,TRADES.")] = None,
    columns: Annotated[str | None, typer.Option(help="Only these columns: FGSM,PGD-20.")] = None,
    n: Annotated[
        int | None, typer.Option("--n", "--images", min=1, help="Only the first N test images.")
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option("--set", help="A setting of every training, epochs=1; repeat it.")
    ] = None,
    attack_option: Annotated[
        list[str] | None,
        typer.Option("--attack-set", help="A setting of every attack that has it, steps=50; repeat it."),
    ] = None,
    checkpoint: Annotated[
        list[str] | None,
        typer.Option(help="Your network in a row: ROW=MODEL@FILE or ROW=FOLDER; all=... for every row."),
    ] = None,
    data_dir: DATA_DIR = None,
    cache: Annotated[Path, typer.Option(help="Where networks and evaluations are kept.")] = Path(
        "runs/reproduce"
    ),
    results: Annotated[
        Path | None, typer.Option(help="A folder; NAME.json in it (and .png, .svg) is brought up to date.")
    ] = None,
    missing: Annotated[
        bool, typer.Option("--missing", help="Only what --results does not hold yet, whatever the cache has.")
    ] = False,
    markdown: Annotated[
        Path | None, typer.Option(help="Write a page about all results in --results.")
    ] = None,
    plan: Annotated[
        bool,
        typer.Option("--plan", help="Say what will run and for how long; run and download nothing."),
    ] = False,
    networks_only: Annotated[bool, typer.Option("--networks-only", help="Train, do not measure.")] = False,
    max_seconds: Annotated[float | None, typer.Option(help="Stop in order after this time.")] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Measure networks of yours whatever the doctor says.")
    ] = False,
    seed: SEED = 0,
    batch_size: BATCH = None,
    device: DEVICE = "auto",
    precision: Annotated[str, typer.Option(help="Of trainings: auto (fp16 on a GPU) or fp32.")] = "auto",
    as_json: JSON = False,
) -> None:
    """Measure a table or a figure of the paper, ours beside theirs; the same command goes on."""
    _check(name, results, markdown, networks_only)
    if missing:
        _check_missing(name, results, [*(option or []), *(attack_option or [])])
    if name is None:
        _write_page(results, markdown)
        show({"page": str(markdown)}, [Text(f"{markdown} is written")], as_json)
        return
    settings = read_settings(attack_option or [])
    whole = find_any(name).with_settings(settings)
    across = listed(columns, "--columns")
    part = whole.only(listed(rows, "--rows"), across)
    part = part.with_networks(read_networks(checkpoint or []))  # a row's own, where all it has are one
    if results is not None:
        check_result(results, whole)
    store = Cache(cache, data_dir, parse_settings(option), n, seed, precision, fetch=not plan)
    command = command_for(whole.name, store, checkpoint or [], settings, across)
    bars = (partial(training_listener, quiet=as_json), partial(onlooker, quiet=as_json))
    shop = Workshop(store, device, batch_size, Clock(max_seconds), *bars, command, settings)
    shop.guests.force = force
    if not as_json:
        shop.say = log
    if missing and results is not None:
        check(part, shop)
        part = lacking(part, shop, results)
    if plan:
        _plan(part, shop, results, networks_only, as_json)
        return
    code = _train(part, shop, as_json) if networks_only else _work(part, whole, shop, results, as_json)
    _write_page(results, markdown)
    if code:
        raise typer.Exit(code)


def _check(name: str | None, results: Path | None, markdown: Path | None, networks_only: bool) -> None:
    """Refuse what would only fail in the end."""
    if name is None and markdown is None:
        known = ", ".join(all_names())
        raise ConfigError(
            f"which table or figure? Name one of {known}; or give --results DIR and --markdown FILE"
        )
    if markdown is not None and results is None:
        raise ConfigError("--markdown needs --results DIR, the folder of the figures to write about")
    if markdown is not None and networks_only:
        raise ConfigError("--networks-only measures nothing that --markdown could write about; leave it out")
    beside = markdown is not None and results is not None and markdown.parent == results  # which will be made
    if markdown is not None and not beside and not markdown.absolute().parent.is_dir():
        raise ConfigError(
            f"there is no folder {markdown.parent} to write {markdown.name} into; make it first"
        )
    if results is not None:
        check_folder(results)
    if Ranks.here().count > 1:
        words = "train with torchrun and gamagat train, then bring the network with --checkpoint"
        raise ConfigError(f"reproduce runs as one process; {words}")


def _check_missing(name: str | None, results: Path | None, settings: list[str]) -> None:
    """Refuse what cannot be told to be missing."""
    if name is None or results is None:
        raise ConfigError("--missing needs the name of a table or figure, and --results DIR that may hold it")
    if settings:
        words = "leave out --set and --attack-set"
        raise ConfigError(f"--missing is about the experiment's own settings; {words}")


def _plan(
    part: Table | Figure, shop: Workshop, results: Path | None, networks_only: bool, as_json: bool
) -> None:
    """What will run, and for how long."""
    found = forecast_figure(part, shop) if isinstance(part, Figure) else forecast(part, shop)
    if networks_only:
        found = found.of_networks()
    content = {"seconds": found.seconds, "complete": found.complete, "items": [*map(asdict, found.items)]}
    show(content, [forecast_table(found) if part.rows else _nothing_of(part, results)], as_json)


def _nothing_of(part: Table | Figure, results: Path | None) -> Text:
    return Text(f"nothing to do: {results} holds all that was asked of {part.name}")


def _train(part: Table | Figure, shop: Workshop, as_json: bool) -> int:
    """Train all networks; the exit code."""
    states: dict[str, str] = {}
    failed: list[Network] = []

    def told(network: Network, state: str, done: bool) -> None:
        states[network.name] = state
        if not done:
            failed.append(network)

    stopped = train_networks(part, shop, told)
    lines = [Text(f"{network}: {where}") for network, where in states.items()]
    show({"networks": states, "stopped": stopped}, lines, as_json)
    return _say(stopped, len(failed))


def _work(
    part: Table | Figure, whole: Table | Figure, shop: Workshop, results: Path | None, as_json: bool
) -> int:
    """Measure or draw; the exit code."""
    if not part.rows:
        empty = figure_result(part, []) if isinstance(part, Figure) else result_of(part, [])
        show(empty.as_json() | {"stopped": None, "missing": 0}, [_nothing_of(whole, results)], as_json)
        return 0
    if isinstance(part, Figure) and isinstance(whole, Figure):
        return _draw(part, whole, shop, results, as_json)
    assert isinstance(part, Table)
    assert isinstance(whole, Table)
    return _measure(part, whole, shop, results, as_json)


def _draw(figure: Figure, whole: Figure, shop: Workshop, results: Path | None, as_json: bool) -> int:
    """Draw the figure, writing each line down as soon as it is known; the exit code."""
    lines: list[Drawn] = []

    def told(line: Drawn) -> None:
        lines.append(line)
        # The last is written with the pictures: what ends between the two leaves something missing.
        if results is not None and len(lines) < len(figure.lines):
            save_figure(results, whole, lines)

    sketch = run_figure(figure, shop, draw, told)
    files = [] if results is None else save_figure(results, whole, lines, paint).files
    result = figure_result(figure, sketch.lines, files)
    left = {"stopped": sketch.stopped, "missing": len(sketch.missing)}
    show(result.as_json() | left, [lines_table(result), *map(Text, reasons(result.lines))], as_json)
    return _say(sketch.stopped, len(sketch.missing))


def _measure(table: Table, whole: Table, shop: Workshop, results: Path | None, as_json: bool) -> int:
    """Fill the table, writing each figure down as soon as it is known; the exit code."""
    cells: list[Cell] = []

    def told(cell: Cell) -> None:
        cells.append(cell)
        if results is not None:
            save_result(results, whole, cells, trial=shop.cache.n is not None)

    outcome = run(table, shop, told)
    result = result_of(table, outcome.cells)
    left = {"stopped": outcome.stopped, "missing": len(outcome.missing)}
    show(result.as_json() | left, [side_by_side(result), *map(Text, reasons(result.cells))], as_json)
    return _say(outcome.stopped, len(outcome.missing))


def _say(stopped: str | None, missing: int) -> int:
    """A word about what is left, and the exit code."""
    left = f"; {missing} left" if missing else ""
    if stopped is not None:
        note(f"stopped: {stopped}{left}; the same command goes on from here")
        return 130 if stopped == INTERRUPTED else UNFINISHED
    return UNFINISHED if missing else 0


def _write_page(results: Path | None, markdown: Path | None) -> None:
    """The page about all results, if one is asked for."""
    if results is None or markdown is None:
        return
    link = Path(os.path.relpath(results.absolute(), markdown.absolute().parent)).as_posix()
    found = read_results(results)
    words = page(found, all_names(), results.resolve().name, link, ruled(claims(), found))
    partial = markdown.with_name(f".{markdown.name}.{os.getpid()}.part")
    try:
        partial.write_text(words)
        partial.replace(markdown)
    except OSError as error:
        raise ConfigError(f"cannot write {markdown}: {error.strerror}; give another --markdown") from None
