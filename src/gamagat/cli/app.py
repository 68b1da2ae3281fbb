"""The command itself; every other file here adds one of its subcommands."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pkgutil import iter_modules
from typing import Annotated, Any

import typer

from gamagat.engine.ranks import Ranks
from gamagat.errors import GamagatError
from gamagat.reports.terminal import fail
from gamagat.version import __version__

USAGE: Any = typer.BadParameter.__bases__[0]  # the usage error of whichever click typer was built on

app = typer.Typer(
    help="How robust is an image classifier really? Guided adversarial attacks, each success checked again.",
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def run() -> None:
    """Parse and call; a mistake of the caller's is one sentence and exit code 2."""
    package = __name__.rpartition(".")[0]
    for module in iter_modules(import_module(package).__path__):
        import_module(f"{package}.{module.name}")  # each adds its command
    try:
        sys.exit(app(standalone_mode=False))
    except GamagatError as error:
        if Ranks.here().first:  # the others have the same to say
            fail(str(error))
        sys.exit(2)
    except typer.Abort:  # what Ctrl-C has become on its way
        raise KeyboardInterrupt from None
    except BrokenPipeError:
        # The reader has seen enough; nothing more can be told, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except Exception as error:
        if not isinstance(error, USAGE):
            raise
        fail(_usage(error))
        sys.exit(2)


def _usage(error: Any) -> str:
    """What was wrong with the words, and whose help tells the right ones."""
    words = str(error.format_message())
    stop = "" if words.endswith((".", "?", "!")) else "."
    context = getattr(error, "ctx", None)  # of the subcommand, where it came as far
    return f"{words}{stop} See: {context.command_path if context else 'gamagat'} --help"


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
