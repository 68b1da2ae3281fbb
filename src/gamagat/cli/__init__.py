"""The command `gamagat`: parse, call, print."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pkgutil import iter_modules
from typing import Annotated, Any

import typer

from gamagat.cli.app import app
from gamagat.engine.ranks import Ranks
from gamagat.errors import GamagatError
from gamagat.reports.terminal import fail
from gamagat.version import __version__

USAGE: Any = typer.BadParameter.__bases__[0]  # the usage error of whichever click typer was built on


def main() -> None:
    """Run the command; a mistake of the caller's is one sentence and exit code 2."""
    for module in iter_modules(__path__):
        import_module(f"{__name__}.{module.name}")  # each adds its command
    try:
        sys.exit(app(standalone_mode=False))
    except GamagatError as error:
        if Ranks.here().first:  # the others have the same to say
            fail(str(error))
        sys.exit(2)
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(130)
    except BrokenPipeError:
        # The reader has seen enough; nothing more can be told, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except Exception as error:
        if not isinstance(error, USAGE):
            raise
        fail(f"{error.format_message()} See: gamagat --help")
        sys.exit(2)


def _version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


@app.callback()
def top(
    context: typer.Context,
    _: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show it.")] = False,
) -> None:
    """How robust is an image classifier really?"""
    if context.invoked_subcommand is None:
        print(context.get_help())
