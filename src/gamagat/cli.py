"""The command `gamagat`: parse, call, print."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from gamagat.engine.catalog import SHELVES, catalog
from gamagat.engine.evaluate import INTERRUPTED
from gamagat.engine.ranks import Ranks
from gamagat.engine.request import EvaluationRequest, prepare
from gamagat.engine.verify import verify_folder
from gamagat.engine.watch import Onlooker
from gamagat.errors import GamagatError
from gamagat.reports.tables import curve_lines, evaluation_table
from gamagat.reports.verification import verification_lines

UNFINISHED = 3  # exit code of an evaluation whose time was over before its end

app = typer.Typer(
    help="How robust is an image classifier really? Guided adversarial attacks, each success checked again.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Run the command; a mistake of the caller's is one sentence and exit code 2."""
    try:
        app()
    except GamagatError as error:
        _complain("[bold red]error:[/]", str(error))
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)


def _version(wanted: bool) -> None:
    if wanted:
        print(version("gamagat"))
        raise typer.Exit


@app.callback()
def top(
    _: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show it.")] = False,
) -> None:
    """How robust is an image classifier really?"""


@app.command()
def evaluate(
    model: Annotated[
        str,
        typer.Argument(
            help="A name (gamagat list models), package.module:callable, "
            "torchvision:NAME, timm:NAME, or a .pt2, TorchScript or .onnx file."
        ),
    ],
    weights: Annotated[
        Path | None, typer.Option(help="Weights: safetensors, or a torch file of tensors.")
    ] = None,
    data: Annotated[
        str, typer.Option(help="A name (gamagat list data), folder:PATH, arrays:FILE.npz.")
    ] = "digits",
    data_dir: Annotated[Path | None, typer.Option(help="Where data lies; else GAMAGAT_DATA.")] = None,
    n: Annotated[
        int | None,
        typer.Option("--n", "--images", help="Only the first N images (under torchrun: --images)."),
    ] = None,
    split: Annotated[str, typer.Option(help="Which part of the data.")] = "test",
    norm: Annotated[str, typer.Option(help="linf or l2.")] = "linf",
    eps: Annotated[str | None, typer.Option(help="Radius, 8/255 or 0.3; else the data's usual one.")] = None,
    attack: Annotated[
        list[str] | None,
        typer.Option(help="gama-pgd, or gama-pgd:steps=50,fade=10; repeat it for more. [default: gama-pgd]"),
    ] = None,
    restarts: Annotated[int, typer.Option(help="Tries of every attack.")] = 1,
    seed: Annotated[int, typer.Option(help="Seed of all random starts.")] = 0,
    batch_size: Annotated[int | None, typer.Option(help="Images at a time; no result depends on it.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, ...")] = "auto",
    out: Annotated[
        Path | None, typer.Option(help="Keep the run in this folder; the same command goes on with it.")
    ] = None,
    max_seconds: Annotated[float | None, typer.Option(help="Stop in order after this time.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Measure the accuracy of a network, clean and under each attack."""
    prepared = prepare(
        EvaluationRequest(
            model,
            weights,
            data,
            data_dir,
            split,
            n,
            norm,
            eps,
            tuple(attack or ["gama-pgd"]),
            restarts,
            seed,
            batch_size,
            device,
            out,
            max_seconds,
        )
    )
    if not Ranks.here().first:
        prepared.run()
        return
    console = Console(width=None if sys.stdout.isatty() else 120)
    if not as_json:
        for name, value in prepared.facts().items():
            console.print(f"[dim]{name:>9}[/]  {escape(value)}", highlight=False, soft_wrap=True)
    with _onlooker() as onlooker:
        result = prepared.run(onlooker)
    if as_json:
        print(json.dumps(result.as_json()))
    else:
        console.print(evaluation_table(result))
        for line in curve_lines(result):
            console.print(escape(line), highlight=False, soft_wrap=True)
    if result.stopped:
        again = "the same command goes on from here" if out else "with --out DIR it could go on from here"
        _complain("[bold yellow]stopped:[/]", f"{result.stopped}; {again}")
        raise typer.Exit(130 if result.stopped == INTERRUPTED else UNFINISHED)


@app.command()
def verify(
    run: Annotated[Path, typer.Argument(help="The folder of --out.")],
    weights: Annotated[Path | None, typer.Option(help="Weights, if they lie elsewhere now.")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Where data lies, if elsewhere now.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, ...")] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Make every claim of a run again; exit code 1 if one does not hold."""
    found = verify_folder(run, weights, data_dir, device)
    if as_json:
        print(json.dumps(found.as_json()))
    else:
        for line in verification_lines(run, found):
            Console(soft_wrap=True).print(escape(line), highlight=False)
    if not found.sound:
        raise typer.Exit(1)


@app.command("list")
def list_(
    kind: Annotated[
        str | None, typer.Argument(help="attacks, models or data; all of them if left out.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Show what there is, with one line each and its parameters."""
    shelves = {name: catalog(name) for name in ([kind] if kind else SHELVES)}
    if as_json:
        print(json.dumps({name: [asdict(item) for item in items] for name, items in shelves.items()}))
        return
    console = Console(soft_wrap=True, highlight=False)
    for name, items in shelves.items():
        console.print(f"[bold]{name}[/]")
        for item in items:
            console.print(f"  [cyan]{item.name}[/]  {escape(item.summary)}")
            if item.options:
                console.print(f"      [dim]{escape(_words(item.options))}[/]")
            for preset, options in item.presets.items():
                console.print(f"      [dim]on {preset}: {escape(_words(options))}[/]")


def _words(options: dict[str, str]) -> str:
    return " ".join(f"{key}={value}" for key, value in options.items())


@contextmanager
def _onlooker() -> Iterator[Onlooker]:
    """A bar for each run on the terminal; only words when nobody looks."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not sys.stderr.isatty()) as bars:
        task = bars.add_task("", rate="")

        def progress(what: str, done: float, total: int) -> None:
            if done == 0:
                bars.reset(task, description=what, total=total)
            speed = bars.tasks[0].finished_speed or bars.tasks[0].speed
            bars.update(task, completed=done, rate=f"{speed:.0f} images/s" if speed else "")

        yield Onlooker(progress, lambda words: _complain("[bold yellow]note:[/]", words))


def _complain(what: str, words: str) -> None:
    """One line on standard error."""
    Console(stderr=True, soft_wrap=True).print(f"{what} {escape(words)}", highlight=False)
