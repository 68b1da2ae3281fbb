"""The command itself; every other file here adds one of its subcommands."""

from __future__ import annotations

import typer

app = typer.Typer(
    help="How robust is an image classifier really? Guided adversarial attacks, each success checked again.",
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
