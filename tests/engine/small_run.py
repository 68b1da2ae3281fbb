"""A small evaluation that any process can make: the same model, data and plan every time."""

import os
import signal
import sqlite3
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from gamagat.data.core import Dataset, from_tensors
from gamagat.engine.evaluate import Words, evaluate
from gamagat.engine.plan import plan_attacks
from gamagat.engine.results import Evaluation
from gamagat.pieces.threat import LINF, ThreatModel
from helpers import images_like

SPECS = ("fgsm", "gama-pgd:steps=12,restarts=2", "gama-mt:steps=8,top=3")
CLASSES = 4


class RowByRow(nn.Module):
    """A small network whose arithmetic does not depend on the batch: every image is summed by itself."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(5)
        self.first = nn.Parameter(torch.randn(8, 64, generator=generator) / 8)
        self.second = nn.Parameter(torch.randn(CLASSES, 8, generator=generator) / 2)

    def forward(self, images: Tensor) -> Tensor:
        hidden = (images.flatten(1)[:, None] * self.first).sum(2).relu()
        return (hidden[:, None] * self.second).sum(2)


def small_data(count: int = 60) -> Dataset:
    images = images_like(count, channels=1)
    with torch.no_grad():
        labels = RowByRow()(images).argmax(1)
    labels[::10] = (labels[::10] + 1) % CLASSES
    # Ids that are neither positions nor sorted.
    ids = (torch.arange(count) * 7919 + 13) % 10007
    return from_tensors(images, name="small", labels=labels, ids=ids, classes=map(str, range(CLASSES)))


def small_run(out: Path | None, batch_size: int = 7, count: int = 60, **options: Any) -> Evaluation:
    torch.set_num_threads(1)
    options.setdefault("precision", "fp32")  # the network as it is: it answers row by row
    return evaluate(
        options.pop("model", None) or RowByRow(),
        small_data(count),
        ThreatModel(LINF, options.pop("eps", 0.04)),
        plan_attacks(options.pop("specs", SPECS)),
        device=torch.device("cpu"),
        batch_size=batch_size,
        words=Words(model="row-by-row", data="small"),
        out=out,
        **options,
    )


def rows(folder: Path) -> list[tuple[Any, ...]]:
    """All verdicts with their images, from all ledgers, in order."""
    found = []
    for path in folder.glob("ledger-*.sqlite"):
        base = sqlite3.connect(path)
        found += base.execute(
            "SELECT v.*, i.image FROM verdicts v LEFT JOIN images i USING (entry, id)"
        ).fetchall()
        base.close()
    return sorted(found)


def as_rank(
    rank: int, count: int, port: int, folder: Path, batch_size: int, seconds: float | None = None
) -> None:
    """Be one of several processes."""
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(count), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    small_run(folder, batch_size, max_seconds=seconds)


def spawn(target: Any, *arguments: Any) -> BaseProcess:
    """A process of its own, quick to start: it is forked from a server that has imported everything."""
    context = get_context("forkserver")
    context.set_forkserver_preload(["torch", "numpy", "gamagat", "small_run"])
    process = context.Process(target=target, args=arguments)
    process.start()
    return process


def killed(process: BaseProcess, after: float) -> bool:
    """Kill the process without warning after a while; whether it was still running."""
    process.join(after)
    alive = process.is_alive()
    if alive and process.pid is not None:
        os.kill(process.pid, signal.SIGKILL)
    process.join()
    return alive
