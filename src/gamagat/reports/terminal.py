"""How a run speaks to people: standard output, one line on standard error, and bars while it works."""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stdout
from time import monotonic
from typing import Any, TextIO

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from gamagat.engine.watch import Onlooker
from gamagat.reports.narrow import fitted

EVERY = 30.0  # seconds between plain lines of progress, where there is no terminal


def console() -> Console:
    """Standard output, wide where it is no terminal."""
    return Console(width=None if sys.stdout.isatty() else 120, highlight=False)


def show(content: Any, views: Sequence[RenderableType], as_json: bool) -> None:
    """One JSON object, or all views one below the other."""
    if as_json:
        tell(content)
        return
    for view in views:
        put(view)


def put(view: RenderableType) -> None:
    """A view on standard output, a table in the form that fits there."""
    place = console()
    place.print(fitted(view, place.width) if isinstance(view, Table) else view)


_aside: list[TextIO] = []  # standard output, as long as it is kept for JSON


@contextmanager
def json_alone() -> Iterator[None]:
    """What a user's network prints goes to standard error, and JSON alone to standard output."""
    _aside.append(sys.stdout)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        _aside.pop()


def tell_line(words: str) -> None:
    """One line of markup; on a terminal what goes on below it keeps its indent."""
    if not sys.stdout.isatty():
        Console(soft_wrap=True, highlight=False).print(words)
        return
    indent = len(words) - len(words.lstrip())
    console().print(Padding.indent(words.lstrip(), indent))


def tell(content: Any) -> None:
    """One JSON object on standard output."""
    print(json.dumps(content), file=_aside[-1] if _aside else sys.stdout)


def fail(words: str) -> None:
    """Say what is wrong, in one line on standard error."""
    _line("[bold red]error:[/]", words)


def note(words: str) -> None:
    """Say something unusual, in one line on standard error."""
    _line("[bold yellow]note:[/]", words)


def _line(what: str, words: str) -> None:
    Console(stderr=True, soft_wrap=True).print(f"{what} {escape(words)}", highlight=False)


class Pulse:
    """Lets a line through now and then, the first after a while: a short run has nothing to log."""

    def __init__(self, every: float | None = None) -> None:
        self._every = EVERY if every is None else every
        self.rest()

    def rest(self) -> None:
        """Something has been said: wait for the whole time again."""
        self._next = monotonic() + self._every

    def beats(self) -> bool:
        """Whether it is time for a line."""
        if monotonic() < self._next:
            return False
        self.rest()
        return True


def log(words: str) -> None:
    """A plain line on standard error, for a file that somebody follows."""
    print(words, file=sys.stderr, flush=True)


def busy(words: str) -> AbstractContextManager[object]:
    """Something turns on the terminal, beside these words, while nobody can say how far it is."""
    return Console(stderr=True).status(escape(words)) if sys.stderr.isatty() else nullcontext()


@contextmanager
def onlooker(quiet: bool = False) -> Iterator[Onlooker]:
    """A bar for each run on the terminal; in a log a plain line now and then, none if `quiet`."""
    if not sys.stderr.isatty():
        yield Onlooker(say=note) if quiet else Onlooker(_logged(), note)
        return
    with _bars() as watching:
        yield watching


def _logged() -> Callable[[str, float, int], None]:
    """Progress in plain lines, with the speed since the run began."""
    pulse, began = Pulse(), monotonic()

    def progress(what: str, done: float, total: int) -> None:
        nonlocal began
        if done == 0:
            began = monotonic()
        if pulse.beats():
            speed = f", {done / (monotonic() - began):.3g} images/s" if done else ""
            log(f"{what}: {done:.0f} of {total} images{speed}")

    return progress


@contextmanager
def _bars() -> Iterator[Onlooker]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("", rate="")

        def progress(what: str, done: float, total: int) -> None:
            if done == 0:
                bars.reset(task, description=escape(what), total=total)
            speed = bars.tasks[0].finished_speed or bars.tasks[0].speed
            bars.update(task, completed=done, rate=f"{speed:.0f} images/s" if speed else "")

        yield Onlooker(progress, note)
