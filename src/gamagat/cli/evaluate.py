"""gamagat evaluate: how accurate a network is, clean and under attack; and doctor, which looks before."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Annotated

import typer
from rich.markup import escape

from gamagat.cli.app import app
from gamagat.cli.heeding import heed
from gamagat.cli.options import (
    ATTACK,
    BATCH,
    COUNT,
    DATA,
    DATA_DIR,
    DEVICE,
    EPS,
    JSON,
    MODEL,
    OUT,
    OWN_NORM,
    PRECISION,
    SEED,
    SPLIT,
    WEIGHTS,
    attacks_of,
)  # fmt: skip
from gamagat.engine.evaluate import INTERRUPTED
from gamagat.engine.ranks import Ranks
from gamagat.engine.request import EvaluationRequest, prepare
from gamagat.reports.findings import findings_view
from gamagat.reports.tables import curve_lines, evaluation_table
from gamagat.reports.terminal import busy, console, note, onlooker, put, tell

LOOKING = "looking at the network and its data"
UNFINISHED = 3  # exit code of an evaluation whose time was over before its end


@app.command()
def evaluate(
    model: MODEL,
    weights: WEIGHTS = None,
    data: DATA = None,
    data_dir: DATA_DIR = None,
    n: COUNT = None,
    split: SPLIT = "test",
    norm: OWN_NORM = None,
    eps: EPS = None,
    attack: ATTACK = None,
    restarts: Annotated[int, typer.Option(help="Tries of every attack.")] = 1,
    seed: SEED = 0,
    batch_size: BATCH = None,
    device: DEVICE = "auto",
    out: OUT = None,
    max_seconds: Annotated[float | None, typer.Option(help="Stop in order after this time.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Go on whatever the doctor says.")] = False,
    precision: PRECISION = "auto",
    as_json: JSON = False,
) -> None:
    """Measure the accuracy of a network, clean and under each attack."""
    prepared = prepare(
        EvaluationRequest(
            model,
            weights,
            data,
            data_dir,
            split,
            n,
            norm,
            eps,
            attacks_of(attack),
            restarts,
            seed,
            batch_size,
            device,
            out,
            max_seconds,
            force,
            precision,
        )
    )
    if not Ranks.here().first:
        prepared.run()
        return
    screen = console()
    if not as_json:
        for name, value in prepared.facts().items():
            screen.print(f"[dim]{name:>9}[/]  {escape(value)}", soft_wrap=not sys.stdout.isatty())
    with busy(LOOKING):
        found = prepared.check()
    heed([("", finding) for finding in found], force)
    with onlooker(quiet=as_json) as watching:
        result = prepared.run(watching)
    if as_json:
        tell(result.as_json())
    else:
        put(evaluation_table(result))
        for line in curve_lines(result):
            screen.print(escape(line), soft_wrap=not sys.stdout.isatty())
    if result.stopped:
        again = "the same command goes on from here" if out else "with --out DIR it could go on from here"
        note(f"stopped: {result.stopped}; {again}")
        raise typer.Exit(130 if result.stopped == INTERRUPTED else UNFINISHED)


@app.command()
def doctor(
    model: MODEL,
    weights: WEIGHTS = None,
    data: DATA = None,
    data_dir: DATA_DIR = None,
    split: SPLIT = "test",
    norm: OWN_NORM = None,
    eps: EPS = None,
    attack: ATTACK = None,
    device: DEVICE = "auto",
    as_json: JSON = False,
) -> None:
    """Look at a network and its data before any attack; exit code 1 if numbers would be worthless."""
    request = EvaluationRequest(
        model, weights, data, data_dir, split, norm=norm, eps=eps, attacks=attacks_of(attack), device=device
    )
    prepared = prepare(request)
    with busy(LOOKING):
        found = prepared.examine(quick=False)
    if as_json:
        tell([asdict(finding) for finding in found])
    else:
        console().print(findings_view(found))
    if any(finding.stops for finding in found):
        raise typer.Exit(1)
