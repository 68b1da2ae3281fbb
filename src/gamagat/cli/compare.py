"""gamagat compare: two runs image by image, or attacks at equal cost; and verify, which makes a run again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from gamagat.cli.app import app
from gamagat.cli.options import (
    ATTACK,
    BATCH,
    COUNT,
    DATA,
    DATA_DIR,
    DEVICE,
    EPS,
    JSON,
    OUT,
    OWN_NORM,
    SEED,
    SPLIT,
    WEIGHTS,
    attacks_of,
)  # fmt: skip
from gamagat.engine.compare import compare_runs
from gamagat.engine.request import EvaluationRequest, run_at_budget
from gamagat.engine.verify import verify_folder
from gamagat.errors import ConfigError
from gamagat.reports.comparison import (
    budget_json,
    budget_table,
    comparison_lines,
    comparison_tables,
    cost_table,
    paired_table,
    shared_plan,
)
from gamagat.reports.folders import check_run, run_in
from gamagat.reports.terminal import onlooker, show
from gamagat.reports.verification import verification_lines


@app.command()
def compare(
    runs: Annotated[list[str], typer.Argument(help="Two folders of --out; with --budget, a model.")],
    budget: Annotated[
        int | None,
        typer.Option(
            help="Gradient evaluations per image; two queries for each, of attacks without gradients."
        ),
    ] = None,
    weights: WEIGHTS = None,
    data: DATA = None,
    data_dir: DATA_DIR = None,
    n: COUNT = None,
    split: SPLIT = "test",
    norm: OWN_NORM = None,
    eps: EPS = None,
    attack: ATTACK = None,
    seed: SEED = 0,
    batch_size: BATCH = None,
    device: DEVICE = "auto",
    out: OUT = None,
    as_json: JSON = False,
) -> None:
    """Compare two runs image by image, or attacks on a model at equal cost."""
    if budget is not None:
        if len(runs) != 1:
            raise ConfigError(f"compare --budget takes one model, got {len(runs)}: {' '.join(runs)}")
        request = EvaluationRequest(
            runs[0], weights, data, data_dir, split, n, norm, eps, attacks_of(attack), seed=seed,
            batch_size=batch_size, device=device, out=out,
        )  # fmt: skip
        with onlooker(quiet=as_json) as watching:
            run = run_at_budget(request, budget, watching)
        show(budget_json(run, budget), [budget_table(run, budget), cost_table(run)], as_json)
        return
    if len(runs) != 2:
        raise ConfigError(f"compare takes two run folders, got {len(runs)}: {' '.join(runs)}")
    a, b = (run_in(Path(folder)) for folder in runs)
    result, plan = compare_runs(a, b), shared_plan(a, b)
    lines = [Text(line) for line in comparison_lines(result, plan)]
    paired = [paired_table(result.worst)] if plan.same and result.worst is not None else []
    show(result.as_json(), [*paired, *comparison_tables(result, plan), *lines], as_json)


@app.command()
def verify(
    run: Annotated[Path, typer.Argument(help="The folder of --out.")],
    weights: Annotated[
        Path | None, typer.Option(help="Weights, or the file of a whole network, if they lie elsewhere now.")
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="The data, if it lies elsewhere now: folder:PATH, arrays:FILE.npz.")
    ] = None,
    data_dir: DATA_DIR = None,
    device: DEVICE = "auto",
    as_json: JSON = False,
) -> None:
    """Make every claim of a run again; exit code 1 if one does not hold."""
    check_run(run)
    found = verify_folder(run, weights, data_dir, device, data)
    show(found.as_json(), [Text(line) for line in verification_lines(run, found)], as_json)
    if not found.sound:
        raise typer.Exit(1)
