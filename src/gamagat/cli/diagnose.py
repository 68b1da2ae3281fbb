"""gamagat diagnose: is a network robust, or does it only hide its gradients?"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from gamagat.cli.app import app
from gamagat.cli.options import (
    BATCH,
    DATA,
    DATA_DIR,
    DEVICE,
    EPS,
    JSON,
    MODEL,
    OWN_NORM,
    SEED,
    SPLIT,
    WEIGHTS,
)  # fmt: skip
from gamagat.engine.manifest import write_json
from gamagat.engine.masking.diagnose import Diagnosis, DiagnosisRequest
from gamagat.engine.masking.diagnose import diagnose as run_diagnosis
from gamagat.engine.masking.result import Verdict
from gamagat.engine.request import EvaluationRequest
from gamagat.errors import RunError
from gamagat.reports.diagnosis import diagnosis_view
from gamagat.reports.folders import DIAGNOSIS
from gamagat.reports.terminal import console, onlooker, show

# 2 is for bad input, 3 for an evaluation whose time was over, in every command.
EXIT = {Verdict.SOUND: 0, Verdict.SUSPICIOUS: 1, Verdict.MASKED: 4}


@app.command()
def diagnose(
    model: MODEL,
    weights: WEIGHTS = None,
    data: DATA = None,
    data_dir: DATA_DIR = None,
    n: Annotated[int, typer.Option("--n", "--images", help="Only the first N images.")] = 500,
    split: SPLIT = "test",
    norm: OWN_NORM = None,
    eps: EPS = None,
    source: Annotated[
        str | None, typer.Option(help="Another network, for transferred images. (default: not checked)")
    ] = None,
    source_weights: WEIGHTS = None,
    seed: SEED = 0,
    batch_size: BATCH = None,
    device: DEVICE = "auto",
    quick: Annotated[bool, typer.Option("--quick", help="Fewer steps, restarts and queries.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Go on with a network of probabilities.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="A run folder: its report will show the diagnosis, too.")
    ] = None,
    as_json: JSON = False,
) -> None:
    """Say whether gradient masking makes a network look robust.

    Exit codes: 0 sound, 1 suspicious, 4 masked, 2 for bad input.
    """
    if out is not None:
        _check_place(out)
    evaluation = EvaluationRequest(
        model,
        weights,
        data,
        data_dir,
        split,
        n,
        norm,
        eps,
        seed=seed,
        batch_size=batch_size,
        device=device,
        force=force,
    )
    with onlooker(quiet=as_json) as watching:
        found = run_diagnosis(DiagnosisRequest(evaluation, source, source_weights, quick), watching)
    show(found.as_json(), [diagnosis_view(found)], as_json)
    if out is not None:
        _keep(found, out)
        if not as_json:
            console().print(Text(f"{out / DIAGNOSIS}: the report of a run in {out} shows it"))
    if code := EXIT[found.verdict]:
        raise typer.Exit(code)


def _check_place(out: Path) -> None:
    """Refuse a folder that cannot be written to before anything runs."""
    try:
        there = next(place for place in (out, *out.parents) if place.is_symlink() or place.exists())
        why = "" if os.access(there, os.W_OK | os.X_OK) else f"{there} cannot be written to"
        why = why if there.is_dir() else f"{there} is no folder"
    except OSError as error:  # no name that the system knows
        why = str(error.strerror)
    if why:
        raise RunError(f"cannot keep a diagnosis in {out}: {why}; give a folder with --out DIR")


def _keep(found: Diagnosis, out: Path) -> None:
    """Write the diagnosis into the folder; it has been shown already, whatever comes of this."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        write_json(out / DIAGNOSIS, found.as_json())
    except (OSError, RunError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise RunError(
            f"the diagnosis is shown but not kept in {out}: {why}; put that right, or give another --out"
        ) from None
