"""gamagat list: what there is."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from gamagat.cli.app import app
from gamagat.cli.options import JSON
from gamagat.engine.catalog import SHELVES, ZOO, catalog, zoo_missing
from gamagat.experiments.core import EXPERIMENTS
from gamagat.experiments.figures import FIGURES
from gamagat.reports.catalog import catalog_lines
from gamagat.reports.terminal import note, tell, tell_line


@app.command("list")
def list_(
    kind: Annotated[
        str | None,
        typer.Argument(
            help="attacks, recipes, models, data, experiments, figures or zoo; all of them if left out."
        ),
    ] = None,
    as_json: JSON = False,
) -> None:
    """Show what there is, with one line each and its parameters."""
    known = SHELVES | {"experiments": EXPERIMENTS, "figures": FIGURES}
    shelves = {name: catalog(name, known) for name in ([kind] if kind else [*known, ZOO])}
    if as_json:
        tell({name: [asdict(item) for item in items] for name, items in shelves.items()})
        return
    if not shelves.get(ZOO, True):
        note(f"nothing in the zoo: {zoo_missing()}") if kind == ZOO else shelves.pop(ZOO)
    for line in catalog_lines(shelves):
        tell_line(line)
