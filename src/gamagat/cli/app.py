"""The command itself; every other file here adds one of its subcommands."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup

from gamagat.errors import DeviceError, GamagatError
from gamagat.reports.terminal import fail, json_alone
from gamagat.version import __version__

USAGE: Any = typer.BadParameter.__bases__[0]  # the usage error of whichever click typer was built on
HERE = Path(__file__).parent


class Interrupted(Exception):  # noqa: N818 - no error
    """Ctrl-C on its way through typer, which would end the process without a word."""


class Group(TyperGroup):
    """A command that tells of Ctrl-C."""

    def make_context(self, *words: Any, **options: Any) -> Any:
        with _told():
            return super().make_context(*words, **options)

    def invoke(self, ctx: Any) -> Any:
        with _told():
            return super().invoke(ctx)


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted from None


def _command() -> typer.Typer:
    """The command without subcommands."""
    return typer.Typer(
        cls=Group,
        help="How robust is an image classifier really? Guided adversarial attacks, each success checked "
        "again.",
        invoke_without_command=True,
        pretty_exceptions_enable=False,
        add_completion=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )


app = _command()


class Subcommand(NamedTuple):
    """What its source says of a subcommand."""

    module: str
    help: str


def load(words: Sequence[str]) -> typer.Typer:
    """The command with the subcommand that is called; without one, with the names and first lines of all.

    A subcommand brings torch, which takes seconds; help and mistakes need not wait for it.
    """
    known = dict(sorted(subcommands()))
    called = next((word for word in words if not word.startswith("-")), "")
    if called in known:
        import_module(f"{__package__}.{known[called].module}")  # which adds itself
        return app
    menu = _command()
    menu.callback()(top)
    for name, subcommand in known.items():
        menu.command(name, help=subcommand.help)(_nothing)
    return menu


def subcommands() -> Iterator[tuple[str, Subcommand]]:
    """All subcommands by name, read from the source files beside this one without importing them."""
    for path in sorted(HERE.glob("*.py")):
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.FunctionDef) and (name := _registered(node)):
                yield name, Subcommand(path.stem, ast.get_docstring(node) or "")


def _registered(function: ast.FunctionDef) -> str | None:
    """The name under which `@app.command(...)` adds a function; None for any other function."""
    for decorator in function.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "app.command":
            given = [word.value for word in decorator.args if isinstance(word, ast.Constant)]
            return str(given[0]) if given else function.name.replace("_", "-")
    return None


def _nothing() -> None:
    """Stands for a subcommand where only its name is asked for."""


def run(command: typer.Typer) -> None:
    """Parse and call; a mistake of the caller's is one sentence and exit code 2."""
    try:
        with json_alone() if "--json" in sys.argv else nullcontext():
            code = command(prog_name="gamagat", standalone_mode=False)
        sys.exit(code)
    except GamagatError as error:
        if _speaks():
            fail(str(error))
        sys.exit(3 if isinstance(error, DeviceError) else 2)
    except (Interrupted, typer.Abort):  # what Ctrl-C has become on its way
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


def _speaks() -> bool:
    """Whether this process speaks for all that torchrun started; the others have the same to say."""
    from gamagat.engine.ranks import Ranks  # noqa: PLC0415 - which brings torch

    return Ranks.here().first


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
