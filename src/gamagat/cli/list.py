"""gamagat list: what there is."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console

from gamagat.cli.app import app
from gamagat.cli.options import JSON
from gamagat.engine.catalog import SHELVES, catalog
from gamagat.experiments.core import EXPERIMENTS
from gamagat.reports.catalog import catalog_lines


@app.command("list")
def list_(
    kind: Annotated[
        str | None,
        typer.Argument(help="attacks, recipes, models, data or experiments; all of them if left out."),
    ] = None,
    as_json: JSON = False,
) -> None:
    """Show what there is, with one line each and its parameters."""
    known = SHELVES | {"experiments": EXPERIMENTS}
    shelves = {name: catalog(name, known) for name in ([kind] if kind else known)}
    if as_json:
        print(json.dumps({name: [asdict(item) for item in items] for name, items in shelves.items()}))
        return
    for line in catalog_lines(shelves):
        Console(soft_wrap=True, highlight=False).print(line)
