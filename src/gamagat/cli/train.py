"""gamagat train: a robust network by one of the paper's methods."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from gamagat.cli.app import app
from gamagat.cli.options import DATA, DATA_DIR, DEVICE, EPS, JSON, NORM, SEED
from gamagat.engine.ranks import Ranks
from gamagat.engine.training.card import FAMILIES, measure, selection_attack, write_card
from gamagat.engine.training.probe import OnCollapse
from gamagat.engine.training.run import TrainingRequest, usual_model
from gamagat.engine.training.run import train as run_training
from gamagat.engine.training.settings import parse_settings
from gamagat.reports.terminal import note, onlooker, show
from gamagat.reports.training import final_table, training_listener


@app.command()
def train(
    recipe: Annotated[str, typer.Argument(help="A name (gamagat list recipes), or gat:epochs=30,weight=10.")],
    out: Annotated[Path, typer.Option(help="The folder of the training; the same command goes on with it.")],
    data: DATA = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="A name (gamagat list models) or package.module:callable; else the paper's for the data."
        ),
    ] = None,
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
    precision: Annotated[str, typer.Option(help="auto (fp16 on a GPU) or fp32.")] = "auto",
    on_collapse: Annotated[
        OnCollapse, typer.Option(help="What to do about catastrophic overfitting.")
    ] = OnCollapse.WARN,
    test_images: Annotated[
        int | None, typer.Option(min=0, help="Test images of the final table; 0: no table. (default: all)")
    ] = None,
    compile_: Annotated[
        bool | None,
        typer.Option(
            "--compile/--no-compile",
            help="Compile the step first: up to two minutes, then faster. (default: on a GPU, if it pays)",
        ),
    ] = None,
    preset: Annotated[
        str | None, typer.Option(help="Settings for another family of data: mnist, cifar10, imagenet.")
    ] = None,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Write event files, too.")] = False,
    as_json: JSON = False,
) -> None:
    """Train a robust network with one of the paper's methods."""
    data = data or "digits"
    model = model or usual_model(data)
    request = TrainingRequest(
        recipe, data, model, out, data_dir, parse_settings(option), norm, eps, n, seed, device,
        precision, on_collapse, tensorboard, compile_, preset,
    )  # fmt: skip
    try:
        selection = selection_attack(preset or FAMILIES.get(data)).lower()
        with training_listener(as_json, selection) as listener:
            trained = run_training(request, listener)
    except KeyboardInterrupt:
        note("stopped: it was interrupted; the same command goes on after the last finished epoch")
        raise typer.Exit(130) from None
    if not Ranks.here().first:
        return
    os.environ.pop("WORLD_SIZE", None)  # the others go home; what follows is for this process alone
    figures = {}
    if test_images != 0:
        with onlooker(quiet=as_json) as watching:
            figures = measure(trained, test_images, watching)
    card = write_card(trained, figures)
    views = [final_table(figures, f"{model} after {trained.plan.name} on {request.data}")] if figures else []
    place = out if len(out.parts) > 1 else f"./{out}"  # a single word may be the name of a model
    words = f"{out}: {trained.seconds:.1f} s of training; measure it again with: gamagat evaluate {place}"
    show(json.loads(card.read_text()), [*views, Text(words)], as_json)
