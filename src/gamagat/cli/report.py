"""gamagat report: a page about one run or several."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from gamagat.cli.app import app
from gamagat.cli.options import DATA_DIR
from gamagat.errors import ConfigError
from gamagat.reports.page.content import gather
from gamagat.reports.page.write import made, write_report


@app.command()
def report(
    runs: Annotated[
        list[Path], typer.Argument(help="Folders of --out; all others are compared to the first.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="The file, or - to print it; else report.html in the first folder."),
    ] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Markdown instead of a page.")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="CSV instead of a page.")] = False,
    data_dir: DATA_DIR = None,
) -> None:
    """Write a page about one run or several: numbers, charts, adversarial images, settings."""
    forms = [form for form, wanted in (("md", markdown), ("csv", csv)) if wanted] or ["html"]
    if out is not None and len(forms) > 1:
        raise ConfigError(f"--out {out} is one file, but --markdown and --csv are two; ask for one at a time")
    content = gather(runs, data_dir)
    if str(out) == "-":
        sys.stdout.buffer.write(made(content, forms[0]))
        return
    for form in forms:
        path = out or runs[0] / f"report.{form}"
        size = write_report(content, form, path)
        print(f"{path}  {size / 1e6:.2f} MB")
