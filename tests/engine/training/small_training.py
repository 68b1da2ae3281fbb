"""A small training that any process can make: the same images, networks and settings every time."""

import json
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from small_run import spawn
from torch import Tensor, nn

from gamagat.engine.training import checkpoint, course, run
from gamagat.engine.training.run import Listener, Trained, TrainingRequest, train
from gamagat.errors import RunError

CLASSES, PIXELS = 4, 64
HERE = "training.small_training"


def plain() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(PIXELS, 16), nn.ReLU(), nn.Linear(16, CLASSES))


def with_dropout() -> nn.Module:
    return nn.Sequential(
        nn.Flatten(), nn.Linear(PIXELS, 16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, CLASSES)
    )


def with_norm() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(256, CLASSES)
    )


def with_flat_norm() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.BatchNorm1d(PIXELS), nn.Linear(PIXELS, CLASSES))


def too_few_outputs() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(PIXELS, CLASSES - 1))


def write_images(folder: Path, count: int = 150) -> str:
    """Four patterns under noise, in three splits; the words that name them as data."""
    draws = np.random.default_rng(3)
    patterns = draws.uniform(60, 195, (CLASSES, 8, 8))
    arrays = {}
    for split, size in {"train": count, "val": 40, "test": 30}.items():
        labels = draws.integers(0, CLASSES, size)
        noisy = patterns[labels] + draws.normal(0, 40, (size, 8, 8))
        arrays |= {f"x_{split}": noisy.clip(0, 255).astype(np.uint8), f"y_{split}": labels}
    np.savez(folder / "small.npz", **arrays)
    return f"arrays:{folder / 'small.npz'}"


def wanted(
    data: str, out: Path, recipe: str = "gat", model: str = "plain", **changes: Any
) -> TrainingRequest:
    """A request for a short training; options that are no fields of it are settings of the recipe."""
    fields = {key: changes.pop(key) for key in list(changes) if key in TrainingRequest.__dataclass_fields__}
    options = {"epochs": 4, "batch": 32, "rate": 0.05} | changes
    words = {key: str(value) for key, value in options.items()}
    usual = {"eps": "0.05", "device": "cpu"}
    return TrainingRequest(recipe, data, f"{HERE}:{model}", out, options=words, **usual | fields)


def trained(*arguments: Any, listener: Listener = Listener(), **changes: Any) -> Trained:
    torch.set_num_threads(1)
    return train(wanted(*arguments, **changes), listener)


def tensors(path: Path) -> dict[str, Tensor]:
    return load_file(path)


def same(first: Path, second: Path, name: str = "last.safetensors") -> bool:
    """Whether two folders hold the same weights to the last bit."""
    ours, theirs = tensors(first / name), tensors(second / name)
    return ours.keys() == theirs.keys() and all(torch.equal(ours[key], theirs[key]) for key in ours)


def metrics(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def timeless(folder: Path) -> list[dict[str, Any]]:
    """The rows without what a clock has a part in."""
    clocks = ("seconds", "look_seconds", "images_per_second")
    return [{key: value for key, value in row.items() if key not in clocks} for row in metrics(folder)]


def go(request: TrainingRequest, meddle: Callable[..., None] | None = None, *arguments: Any) -> None:
    """Train in a process of its own, perhaps one that somebody has meddled with."""
    torch.set_num_threads(1)
    if meddle is not None:
        meddle(*arguments)
    train(request)


def die_writing(call: int) -> None:
    """Meddle: the process is killed half-way through the writing of its file number `call`."""
    whole, calls = checkpoint.save_file, []

    def half(content: dict[str, Tensor], path: Path, words: dict[str, str]) -> None:
        whole(content, path, words)
        calls.append(path)
        if len(calls) == call:
            os.truncate(path, path.stat().st_size // 2)
            os.kill(os.getpid(), signal.SIGKILL)

    checkpoint.save_file = half


def die_before_metrics(epoch: int) -> None:
    """Meddle: the process is killed after the checkpoint of an epoch and before its metrics."""
    whole = course._write_metrics

    def never(folder: Path, story: checkpoint.Story) -> None:
        if len(story.rows) == epoch + 1:
            os.kill(os.getpid(), signal.SIGKILL)
        whole(folder, story)

    course._write_metrics = never


def slowed() -> None:
    """Meddle: every batch takes a few milliseconds more, so that kills fall between all of them."""
    whole = run.Trainer.batch

    def batch(self: run.Trainer, *arguments: Any) -> None:
        time.sleep(0.004)
        whole(self, *arguments)

    run.Trainer.batch = batch


def kill_at_random(request: TrainingRequest, kills: int, seed: int) -> list[int]:
    """Kill it `kills` times without warning, then let it end; the epochs that were done at each kill."""
    moments, done = random.Random(seed), []
    began = request.out / "checkpoint.safetensors"
    for _ in range(10 * kills):
        process, before = spawn(go, request, slowed), began.stat().st_mtime_ns if began.exists() else 0
        # Wait until it works (it may take long to start), mostly until it has got further than the last one.
        patience = time.monotonic() + moments.choice([0.3, 60.0, 60.0])
        while process.is_alive() and time.monotonic() < patience:
            if began.exists() and began.stat().st_mtime_ns > before:
                break
            time.sleep(0.005)
        process.join(moments.uniform(0.0, 0.08))
        if not process.is_alive():
            break
        os.kill(process.pid or 0, signal.SIGKILL)
        process.join()
        done.append(len(metrics(request.out)) if (request.out / "metrics.jsonl").exists() else 0)
        if len(done) == kills:
            break
    process = spawn(go, request)
    process.join(60)
    assert process.exitcode == 0
    return done


def as_rank(rank: int, count: int, port: int, request: TrainingRequest) -> None:
    """Be one of several processes; any but the first that writes a file fails."""
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(count), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    if rank > 0:

        def forbidden(*_: Any) -> None:
            raise AssertionError("only the first process writes")

        course.save = course.save_checkpoint = course._write_metrics = run.write_json = forbidden
    go(request)


def otherwise(rank: int, count: int, port: int, request: TrainingRequest) -> None:
    """Be one of several processes, of which the first alone sees a sound network."""
    look = course.Probe.look
    if rank > 0:
        course.Probe.look = lambda *given: look(*given) | {"fgsm": 90.0, "pgd-10": 1.0}
    as_rank(rank, count, port, request)


def refused(rank: int, count: int, port: int, request: TrainingRequest) -> None:
    """Be one of several processes that are all told why they cannot begin."""
    with pytest.raises(RunError, match="another process is training in"):
        as_rank(rank, count, port, request)
