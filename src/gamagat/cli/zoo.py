"""gamagat zoo: keep a trained network for others."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from gamagat.cli.app import app
from gamagat.cli.options import COUNT, DATA_DIR, DEVICE, JSON
from gamagat.errors import ConfigError
from gamagat.experiments.shelving import add_to_zoo
from gamagat.reports.terminal import show


@app.command()
def zoo(
    what: Annotated[str, typer.Argument(help="add")],
    folder: Annotated[str, typer.Argument(help="The folder of a training.")],
    name: Annotated[str, typer.Argument(help="What it is called: gat-resnet18-cifar10.")],
    data_dir: DATA_DIR = None,
    n: COUNT = None,
    device: DEVICE = "auto",
    as_json: JSON = False,
) -> None:
    """Put a trained network into the zoo, in half precision; zoo:NAME is then its name.

    The zoo is the folder of this name in the repository, or the one that GAMAGAT_ZOO names.
    """
    if what != "add":
        raise ConfigError(f"gamagat zoo can add, got {what!r}; write gamagat zoo add FOLDER NAME")
    home, check = add_to_zoo(folder, name, data_dir, n, device)
    told = check.missing or f"{check.images} images, {check.before:.2f} % right before, {check.after:.2f} now"
    lines = [f"zoo:{name} is in {home}", f"accuracy: {told}"]
    content = {"name": f"zoo:{name}", "folder": str(home), "accuracy": check.as_json()}
    show(content, [Text(line) for line in lines], as_json)
