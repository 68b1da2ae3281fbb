"""gamagat transfer: images made on one network, judged on others."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gamagat.cli.app import app
from gamagat.cli.heeding import heed
from gamagat.cli.options import (
    BATCH,
    COUNT,
    DATA,
    DATA_DIR,
    DEVICE,
    EPS,
    JSON,
    NORM,
    PRECISION,
    SEED,
    SPLIT,
    WEIGHTS,
)  # fmt: skip
from gamagat.engine.transfer_request import TransferRequest, prepare_transfer
from gamagat.reports.terminal import busy, onlooker, show
from gamagat.reports.transfer import transfer_table

LOOKING = "looking at the networks and their data"


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
        list[str] | None, typer.Option(help="As in evaluate. (default: fgsm and pgd:steps=7)")
    ] = None,
    seed: SEED = 0,
    batch_size: BATCH = None,
    device: DEVICE = "auto",
    precision: PRECISION = "auto",
    force: Annotated[bool, typer.Option("--force", help="Go on whatever the doctor says.")] = False,
    as_json: JSON = False,
) -> None:
    """Make adversarial images on one network and judge them on others (black-box transfer)."""
    prepared = prepare_transfer(
        TransferRequest(
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
            precision,
            force,
        )
    )
    with busy(LOOKING):
        found = prepared.check()
    heed(found, force)
    with onlooker(quiet=as_json) as watching:
        result = prepared.run(watching)
    show(result.as_json(), [transfer_table(result)], as_json)
