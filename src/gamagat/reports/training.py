"""How training speaks to people: a bar, one line for every epoch, and a table at the end."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from time import monotonic
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from gamagat.engine.results import Evaluation
from gamagat.engine.training.run import Listener
from gamagat.engine.training.settings import Settings
from gamagat.reports.terminal import EVERY, Pulse, log, note

TOLD = 1.0  # seconds from which a look after an epoch is told beside the training


def epoch_line(row: Mapping[str, Any], settings: Settings, selection: str = "selection") -> str:
    """What happened in one epoch; `selection` is what the attack that may select it is called."""
    losses = " ".join(
        f"{name} {value:.3f}" for name, value in row["train"].items() if not name.endswith("accuracy")
    )
    names = {"selection": selection}
    val = " ".join(
        f"{names.get(name, name)} {value:.1f}"
        for name, value in row["val"].items()
        if not name.endswith("loss")
    )
    looked = row.get("look_seconds", 0.0)  # which rows of old have not
    look = f", look {looked:.1f} s" if looked > TOLD else ""
    return (
        f"epoch {row['epoch'] + 1}/{settings.epochs}  {losses}  val: {val}  "
        f"{row['seconds'] - looked:.1f} s, {row['images_per_second']:.0f} images/s{look}"
    )


@contextmanager
def training_listener(quiet: bool = False, selection: str = "selection") -> Iterator[Listener]:
    """A bar and lines on a terminal; in a log a plain line now and then, none if `quiet`."""
    if not sys.stderr.isatty():
        yield Listener(say=note) if quiet else _logged(selection)
        return
    with _bars(selection) as listener:
        yield listener


def _logged(selection: str) -> Listener:
    """Epochs in plain lines; of a long epoch also how far it is. A short training has nothing to log."""
    epochs, within = Pulse(), Pulse(2 * EVERY)  # an epoch that ends soon says more than its batches
    first: list[str] = []  # said before the first line
    spoken = False
    where, began = "", 0.0  # in which epoch, and since when validation images are looked at

    def speak(words: str) -> None:
        nonlocal spoken
        spoken = True
        for line in (*first, words):
            log(line)
        first.clear()

    def batch(epoch: int, epochs: int, done: int, total: int) -> None:
        nonlocal where
        where = f"epoch {epoch + 1}/{epochs}: "
        if within.beats():
            speak(f"{where}{done} of {total} batches")

    def look(done: float, total: int) -> None:
        nonlocal began
        if done == 0:
            began = monotonic()
        if within.beats():
            speed = f", {done / (monotonic() - began):.3g} images/s" if done else ""
            speak(f"{where}a look at {total} validation images: {done:.0f} of them{speed}")

    def line(row: dict[str, Any], settings: Settings) -> None:
        if epochs.beats() or (spoken and row["epoch"] + 1 == settings.epochs):
            within.rest()
            speak(epoch_line(row, settings, selection))

    return Listener(line, batch, note, first.append, look)


@contextmanager
def _bars(selection: str) -> Iterator[Listener]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("training", total=None, rate="")
        looking = bars.add_task("", visible=False, rate="")
        where = ""  # in which epoch

        def batch(epoch: int, epochs: int, done: int, total: int) -> None:
            nonlocal where
            where, speed = f"epoch {epoch + 1}/{epochs}", bars.tasks[0].speed
            bars.update(
                task,
                description=where,
                total=epochs * total,
                completed=epoch * total + done,
                rate=f"{speed:.1f} batches/s" if speed else "",
            )

        def look(done: float, total: int) -> None:
            """One bar at a time: while it is looked, that of the batches stands still."""
            if done == 0:
                bars.reset(looking, total=total, rate="")
            speed, over = bars.tasks[1].speed, done >= total
            bars.update(
                looking,
                description=f"{where}: a look at {total} validation images",
                completed=done,
                rate=f"{speed:.3g} images/s" if speed else "",
                visible=not over,
            )
            bars.update(task, visible=over)

        def line(row: dict[str, Any], settings: Settings) -> None:
            bars.console.print(escape(epoch_line(row, settings, selection)), highlight=False)

        def begins(words: str) -> None:
            bars.console.print(escape(words), highlight=False)

        yield Listener(line, batch, note, begins, look)


def final_table(figures: Mapping[str, Evaluation], title: str, heading: str = "epoch") -> Table:
    """Networks down, such as the selected and the last epoch, attacks across."""
    table = Table(title=escape(title), title_justify="left")
    table.add_column(heading)
    first = next(iter(figures.values()))
    for name in ("clean", *(attack.name for attack in first.attacks), "worst case"):
        table.add_column(escape(name), justify="right")
    for which, result in figures.items():
        shares = [result.clean, *(attack.standing for attack in result.attacks), result.standing]
        table.add_row(which, *(f"{share.percent:.2f}" if share.of else "-" for share in shares))
    return table
