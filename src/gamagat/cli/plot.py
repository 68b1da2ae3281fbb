"""gamagat plot: pictures of runs, trainings and models."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from gamagat.cli.app import app
from gamagat.cli.options import (
    BATCH,
    COUNT,
    DATA,
    DATA_DIR,
    DEVICE,
    EPS,
    OWN_NORM,
    SEED,
    SPLIT,
    WEIGHTS,
)  # fmt: skip
from gamagat.engine.request import EvaluationRequest
from gamagat.registry import format_spec, parse_spec
from gamagat.reports.plots.core import PLOTS, Subject, check_out, save
from gamagat.reports.terminal import onlooker, show


@app.command()
def plot(
    kind: Annotated[
        str | None,
        typer.Argument(help="What to draw, surface or surface:image=3,points=51; without it, a list of all."),
    ] = None,
    sources: Annotated[
        list[str] | None, typer.Argument(help="Folders of runs or of trainings, or a model.")
    ] = None,
    weights: WEIGHTS = None,
    data: DATA = None,
    data_dir: DATA_DIR = None,
    n: COUNT = None,
    split: SPLIT = "test",
    norm: OWN_NORM = None,
    eps: EPS = None,
    attack: Annotated[
        list[str] | None, typer.Option(help="As in evaluate; else those of the figure.")
    ] = None,
    seed: SEED = 0,
    batch_size: BATCH = None,
    device: DEVICE = "auto",
    keep: Annotated[Path | None, typer.Option(help="Keep the runs of lambda and eps in this folder.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="A folder, or a file; .png and .svg are written. (default: here)")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the numbers; without --out, write no file.")
    ] = False,
) -> None:
    """Draw a plot of a run, a training or a model; the paper's figures are among them."""
    if kind is None:
        show(_kinds(), [_table()], as_json)
        return
    name, options = parse_spec(kind)
    draw = PLOTS.make(name, **options)
    check_out(out)
    request = EvaluationRequest(
        "", weights, data, data_dir, split, n, norm, eps, tuple(attack or ()), seed=seed,
        batch_size=batch_size, device=device, out=keep,
    )  # fmt: skip
    with onlooker(quiet=as_json) as watching:
        picture = draw(Subject(tuple(sources or ()), request, watching))
    files = [] if as_json and out is None else save(picture, out)
    numbers = picture.as_json() | {"files": [str(file) for file in files]}
    show(numbers, [Text(str(file)) for file in files], as_json)


def _kinds() -> list[dict[str, str]]:
    return [
        {"name": name, "summary": PLOTS[name].summary, "spec": format_spec(name, PLOTS[name].defaults())}
        for name in PLOTS.names()
    ]


def _table() -> Table:
    table = Table(title="gamagat plot KIND SOURCE...", title_justify="left")
    for heading in ("kind", "what it takes and shows", "settings"):
        table.add_column(heading, overflow="fold")
    for kind in _kinds():
        table.add_row(kind["name"], Text(kind["summary"]), kind["spec"].partition(":")[2])
    return table
