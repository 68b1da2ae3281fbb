"""How a run speaks to people: standard output, one line on standard error, and bars while it works."""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from gamagat.engine.watch import Onlooker


def console() -> Console:
    """Standard output, wide where it is no terminal."""
    return Console(width=None if sys.stdout.isatty() else 120, highlight=False)


def show(content: Any, views: Sequence[RenderableType], as_json: bool) -> None:
    """One JSON object, or all views one below the other."""
    if as_json:
        print(json.dumps(content))
        return
    for view in views:
        console().print(view)


def fail(words: str) -> None:
    """Say what is wrong, in one line on standard error."""
    _line("[bold red]error:[/]", words)


def note(words: str) -> None:
    """Say something unusual, in one line on standard error."""
    _line("[bold yellow]note:[/]", words)


def _line(what: str, words: str) -> None:
    Console(stderr=True, soft_wrap=True).print(f"{what} {escape(words)}", highlight=False)


@contextmanager
def onlooker() -> Iterator[Onlooker]:
    """A bar for each run on the terminal; only words when nobody looks."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    with Progress(
        *columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()
    ) as bars:
        task = bars.add_task("", rate="")

        def progress(what: str, done: float, total: int) -> None:
            if done == 0:
                bars.reset(task, description=escape(what), total=total)
            speed = bars.tasks[0].finished_speed or bars.tasks[0].speed
            bars.update(task, completed=done, rate=f"{speed:.0f} images/s" if speed else "")

        yield Onlooker(progress, note)
