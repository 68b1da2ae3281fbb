"""The command `gamagat`: parse, call, print."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from gamagat.engine.catalog import SHELVES, catalog
from gamagat.engine.compare import compare_runs
from gamagat.engine.evaluate import INTERRUPTED
from gamagat.engine.findings import Finding
from gamagat.engine.ranks import Ranks
from gamagat.engine.request import EvaluationRequest, prepare, run_at_budget
from gamagat.engine.run import read_run
from gamagat.engine.training.card import measure, write_card
from gamagat.engine.training.probe import OnCollapse
from gamagat.engine.training.run import TrainingRequest
from gamagat.engine.training.run import train as run_training
from gamagat.engine.training.settings import parse_settings
from gamagat.engine.transfer import TransferRequest
from gamagat.engine.transfer import transfer as run_transfer
from gamagat.engine.verify import verify_folder
from gamagat.errors import ConfigError, GamagatError
from gamagat.reports.catalog import catalog_lines
from gamagat.reports.comparison import (
    budget_json,
    budget_table,
    comparison_lines,
    comparison_tables,
    cost_table,
    paired_table,
)
from gamagat.reports.findings import findings_view
from gamagat.reports.tables import curve_lines, evaluation_table
from gamagat.reports.terminal import console, fail, note, onlooker, show
from gamagat.reports.training import final_table, training_listener
from gamagat.reports.transfer import transfer_table
from gamagat.reports.verification import verification_lines
from gamagat.version import __version__

MODEL = Annotated[
    str,
    typer.Argument(
        help="A name (gamagat list models), package.module:callable, torchvision:NAME, timm:NAME, "
        "a .pt2, TorchScript or .onnx file, or the folder of a training."
    ),
]
WEIGHTS = Annotated[Path | None, typer.Option(help="Weights: safetensors, or a torch file of tensors.")]
DATA = Annotated[
    str | None,
    typer.Option(help="A name (gamagat list data), folder:PATH, arrays:FILE.npz. [default: digits]"),
]
DATA_DIR = Annotated[Path | None, typer.Option(help="Where data lies; else GAMAGAT_DATA.")]
COUNT = Annotated[
    int | None, typer.Option("--n", "--images", help="Only the first N images (under torchrun: --images).")
]
SPLIT = Annotated[str, typer.Option(help="Which part of the data.")]
NORM = Annotated[str, typer.Option(help="linf or l2.")]
EPS = Annotated[str | None, typer.Option(help="Radius, 8/255 or 0.3; else the data's usual one.")]
ATTACK = Annotated[
    list[str] | None,
    typer.Option(help="gama-pgd, or gama-pgd:steps=50,fade=10; repeat it for more. [default: gama-pgd]"),
]
SEED = Annotated[int, typer.Option(help="Seed of all random starts.")]
BATCH = Annotated[int | None, typer.Option(help="Images at a time; no result depends on it.")]
DEVICE = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, ...")]
OUT = Annotated[
    Path | None, typer.Option(help="Keep the run in this folder; the same command goes on with it.")
]
JSON = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]

USAGE: Any = typer.BadParameter.__bases__[0]  # the usage error of whichever click typer was built on
UNFINISHED = 3  # exit code of an evaluation whose time was over before its end

app = typer.Typer(
    help="How robust is an image classifier really? Guided adversarial attacks, each success checked again.",
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Run the command; a mistake of the caller's is one sentence and exit code 2."""
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


@app.command()
def evaluate(
    model: MODEL,
    weights: WEIGHTS = None,
    data: DATA = None,
    data_dir: DATA_DIR = None,
    n: COUNT = None,
    split: SPLIT = "test",
    norm: NORM = "linf",
    eps: EPS = None,
    attack: ATTACK = None,
    restarts: Annotated[int, typer.Option(help="Tries of every attack.")] = 1,
    seed: SEED = 0,
    batch_size: BATCH = None,
    device: DEVICE = "auto",
    out: OUT = None,
    max_seconds: Annotated[float | None, typer.Option(help="Stop in order after this time.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Go on whatever the doctor says.")] = False,
    as_json: JSON = False,
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
            _attacks(attack),
            restarts,
            seed,
            batch_size,
            device,
            out,
            max_seconds,
            force,
        )
    )
    if not Ranks.here().first:
        prepared.run()
        return
    screen = console()
    if not as_json:
        for name, value in prepared.facts().items():
            screen.print(f"[dim]{name:>9}[/]  {escape(value)}", soft_wrap=not sys.stdout.isatty())
    _heed(prepared.check(), force)
    with onlooker() as watching:
        result = prepared.run(watching)
    if as_json:
        print(json.dumps(result.as_json()))
    else:
        screen.print(evaluation_table(result))
        for line in curve_lines(result):
            screen.print(escape(line), soft_wrap=not sys.stdout.isatty())
    if result.stopped:
        again = "the same command goes on from here" if out else "with --out DIR it could go on from here"
        note(f"stopped: {result.stopped}; {again}")
        raise typer.Exit(130 if result.stopped == INTERRUPTED else UNFINISHED)


@app.command()
def train(
    recipe: Annotated[str, typer.Argument(help="A name (gamagat list recipes), or gat:epochs=30,weight=10.")],
    out: Annotated[Path, typer.Option(help="The folder of the training; the same command goes on with it.")],
    data: DATA = None,
    model: Annotated[str, typer.Option(help="A name (gamagat list models) or package.module:callable.")] = (
        "digits-cnn"
    ),
    data_dir: DATA_DIR = None,
    option: Annotated[
        list[str] | None, typer.Option("--set", help="A setting, epochs=30; repeat it.")
    ] = None,
    norm: NORM = "linf",
    eps: EPS = None,
    n: Annotated[
        int | None, typer.Option("--n", "--images", help="Only the first N training images.")
    ] = None,
    seed: SEED = 0,
    device: DEVICE = "auto",
    precision: Annotated[str, typer.Option(help="auto (fp16 and bf16 on a GPU) or fp32.")] = "auto",
    on_collapse: Annotated[
        OnCollapse, typer.Option(help="What to do about catastrophic overfitting.")
    ] = OnCollapse.WARN,
    test_images: Annotated[
        int | None, typer.Option(min=0, help="Test images of the final table; 0: no table. [default: all]")
    ] = None,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Write event files, too.")] = False,
    as_json: JSON = False,
) -> None:
    """Train a robust network with one of the paper's methods."""
    request = TrainingRequest(
        recipe, data or "digits", model, out, data_dir, parse_settings(option), norm, eps, n, seed, device,
        precision, on_collapse, tensorboard,
    )  # fmt: skip
    with training_listener() as listener:
        trained = run_training(request, listener)
    if not Ranks.here().first:
        return
    os.environ.pop("WORLD_SIZE", None)  # the others go home; what follows is for this process alone
    figures = {}
    if test_images != 0:
        with onlooker() as watching:
            figures = measure(trained, test_images, watching)
    card = write_card(trained, figures)
    views = [final_table(figures, f"{model} after {trained.plan.name} on {request.data}")] if figures else []
    place = out if len(out.parts) > 1 else f"./{out}"  # a single word may be the name of a model
    words = f"{out}: {trained.seconds:.1f} s of training; measure it again with: gamagat evaluate {place}"
    show(json.loads(card.read_text()), [*views, Text(words)], as_json)


@app.command()
def doctor(
    model: MODEL,
    weights: WEIGHTS = None,
    data: DATA = None,
    data_dir: DATA_DIR = None,
    split: SPLIT = "test",
    norm: NORM = "linf",
    eps: EPS = None,
    attack: ATTACK = None,
    device: DEVICE = "auto",
    as_json: JSON = False,
) -> None:
    """Look at a network and its data before any attack; exit code 1 if numbers would be worthless."""
    request = EvaluationRequest(
        model, weights, data, data_dir, split, norm=norm, eps=eps, attacks=_attacks(attack), device=device
    )
    found = prepare(request).examine(quick=False)
    if as_json:
        print(json.dumps([asdict(finding) for finding in found]))
    else:
        console().print(findings_view(found))
    if any(finding.stops for finding in found):
        raise typer.Exit(1)


@app.command()
def compare(
    runs: Annotated[list[str], typer.Argument(help="Two folders of --out; with --budget, a model.")],
    budget: Annotated[int | None, typer.Option(help="Gradient evaluations per image.")] = None,
    weights: WEIGHTS = None,
    data: DATA = None,
    data_dir: DATA_DIR = None,
    n: COUNT = None,
    split: SPLIT = "test",
    norm: NORM = "linf",
    eps: EPS = None,
    attack: ATTACK = None,
    seed: SEED = 0,
    batch_size: BATCH = None,
    device: DEVICE = "auto",
    out: OUT = None,
    as_json: JSON = False,
) -> None:
    """Compare two runs image by image, or attacks on a model at equal numbers of gradients."""
    if budget is not None:
        if len(runs) != 1:
            raise ConfigError(f"compare --budget takes one model, got {len(runs)}: {' '.join(runs)}")
        request = EvaluationRequest(
            runs[0], weights, data, data_dir, split, n, norm, eps, _attacks(attack), seed=seed,
            batch_size=batch_size, device=device, out=out,
        )  # fmt: skip
        with onlooker() as watching:
            run = run_at_budget(request, budget, watching)
        show(budget_json(run, budget), [budget_table(run, budget), cost_table(run)], as_json)
        return
    if len(runs) != 2:
        raise ConfigError(f"compare takes two run folders, got {len(runs)}: {' '.join(runs)}")
    result = compare_runs(*(read_run(Path(folder)) for folder in runs))
    lines = [Text(line) for line in comparison_lines(result)]
    show(result.as_json(), [paired_table(result), *comparison_tables(result), *lines], as_json)


@app.command()
def verify(
    run: Annotated[Path, typer.Argument(help="The folder of --out.")],
    weights: Annotated[Path | None, typer.Option(help="Weights, if they lie elsewhere now.")] = None,
    data_dir: DATA_DIR = None,
    device: DEVICE = "auto",
    as_json: JSON = False,
) -> None:
    """Make every claim of a run again; exit code 1 if one does not hold."""
    found = verify_folder(run, weights, data_dir, device)
    show(found.as_json(), [Text(line) for line in verification_lines(run, found)], as_json)
    if not found.sound:
        raise typer.Exit(1)


@app.command()
def transfer(
    source: Annotated[str, typer.Option(help="The network that the images are made on, as in evaluate.")],
    target: Annotated[list[str], typer.Option(help="A network that judges them; repeat it for more.")],
    source_weights: WEIGHTS = None,
    target_weights: Annotated[
        list[Path] | None, typer.Option(help="Weights, once for each --target in the same order.")
    ] = None,
    data: DATA = None,
    data_dir: DATA_DIR = None,
    n: COUNT = None,
    split: SPLIT = "test",
    norm: NORM = "linf",
    eps: EPS = None,
    attack: Annotated[
        list[str] | None, typer.Option(help="As in evaluate. [default: fgsm and pgd:steps=7]")
    ] = None,
    seed: SEED = 0,
    batch_size: BATCH = None,
    device: DEVICE = "auto",
    as_json: JSON = False,
) -> None:
    """Make adversarial images on one network and judge them on others (black-box transfer)."""
    request = TransferRequest(
        source,
        tuple(target),
        source_weights,
        tuple(target_weights or ()),
        data or "digits",
        data_dir,
        split,
        n,
        norm,
        eps,
        tuple(attack or ("fgsm", "pgd:steps=7")),
        seed,
        batch_size,
        device,
    )
    with onlooker() as watching:
        result = run_transfer(request, watching)
    show(result.as_json(), [transfer_table(result)], as_json)


@app.command("list")
def list_(
    kind: Annotated[
        str | None, typer.Argument(help="attacks, recipes, models or data; all of them if left out.")
    ] = None,
    as_json: JSON = False,
) -> None:
    """Show what there is, with one line each and its parameters."""
    shelves = {name: catalog(name) for name in ([kind] if kind else SHELVES)}
    if as_json:
        print(json.dumps({name: [asdict(item) for item in items] for name, items in shelves.items()}))
        return
    for line in catalog_lines(shelves):
        Console(soft_wrap=True, highlight=False).print(line)


def _attacks(given: list[str] | None) -> tuple[str, ...]:
    return tuple(given or ["gama-pgd"])


def _heed(findings: Sequence[Finding], force: bool) -> None:
    """Say what the doctor found before an evaluation; what makes its numbers worthless ends it."""
    for finding in findings:
        words = f"{finding.check}: {finding.seen} {finding.why} {finding.do}"
        if finding.stops and not force:
            fail(f"{words} (--force goes on)")
        else:
            note(words)
    if any(finding.stops for finding in findings) and not force:
        raise typer.Exit(2)
