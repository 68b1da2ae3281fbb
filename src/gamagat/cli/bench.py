"""gamagat bench: how fast a network is attacked or trained here, beside others and the machine's limit."""

from __future__ import annotations

from typing import Annotated

import typer

from gamagat.cli.app import app
from gamagat.cli.options import BATCH, COUNT, DATA, DATA_DIR, DEVICE, EPS, JSON, MODEL, SEED, WEIGHTS
from gamagat.engine.bench.attack import attack_bench
from gamagat.engine.bench.lesson import LessonRequest
from gamagat.engine.bench.train import train_bench
from gamagat.engine.request import EvaluationRequest
from gamagat.reports.bench import bench_json, bench_views
from gamagat.reports.terminal import onlooker, show


@app.command()
def bench(
    model: MODEL,
    weights: WEIGHTS = None,
    data: DATA = None,
    data_dir: DATA_DIR = None,
    n: COUNT = None,
    eps: EPS = None,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Steps of every attack. (default: 100 on a GPU, 20 on a CPU)")
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Everyone's turns; the fastest counts.")] = 3,
    train: Annotated[
        bool, typer.Option("--train", help="Measure training by GAT, from fresh weights or those given.")
    ] = False,
    epochs: Annotated[int, typer.Option(min=1, help="Epochs of --train; the fastest counts.")] = 3,
    batch_size: BATCH = None,
    seed: SEED = 0,
    device: DEVICE = "auto",
    as_json: JSON = False,
) -> None:
    """Measure how fast GAMA-PGD (or GAT) is on a network, beside published loops and other packages.

    Without --n, all images on a GPU; on a CPU the first 128, or 2,000 training images.
    """
    with onlooker(quiet=as_json) as watching:
        if train:
            lesson = LessonRequest(
                model, weights, data or "digits", data_dir, n, eps, epochs, batch_size, device, seed
            )
            found = train_bench(lesson, steps, onlooker=watching)
        else:
            request = EvaluationRequest(
                model, weights, data, data_dir, n=n, eps=eps, seed=seed, batch_size=batch_size, device=device
            )
            found = attack_bench(request, steps, rounds=rounds, onlooker=watching)
    show(bench_json([found]), bench_views([found]), as_json)
