"""Checkpoints: all that training needs to go on, in one file that runs no code when it is read."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from gamagat.engine.training.step import Trainer
from gamagat.errors import CheckpointError, RunError

NAME, SOUND = "checkpoint.safetensors", "sound.safetensors"


@dataclass(slots=True)
class Story:
    """What has happened so far: one row for every epoch, and how often training went back."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    attempt: int = 0
    ended: str | None = None  # why it ended before its last epoch
    sound: int | None = None  # the last epoch that had not collapsed

    def best(self, selected_by: str) -> int:
        """The epoch of the highest accuracy of that name on the validation images; the first of equals.

        One that had collapsed is taken only where all have.
        """

        def worth(epoch: int) -> tuple[bool, float, int]:
            row = self.rows[epoch]
            return not row["collapsed"], row["val"][selected_by], -epoch

        return max(range(len(self.rows)), key=worth)


def tensors_of(trainer: Trainer) -> dict[str, Tensor]:
    """Everything that changes while training, by name, as it lies in memory."""
    found = {f"model.{name}": value for name, value in trainer.model.state_dict().items()}
    if trainer.average is not None:
        found |= {f"average.{name}": value for name, value in trainer.average.state_dict().items()}
    for kind, values in trainer.optimizer.state.items():
        found |= {f"optimizer.{kind}.{place}": value for place, value in enumerate(values)}
    if trainer.scaler is not None:
        found |= {f"scaler.{name}": value for name, value in trainer.scaler.state.items()}
    return found | {f"memory.{name}": value for name, value in trainer.memory.items()}


def set_aside(tensors: Mapping[str, Tensor]) -> Callable[[], dict[str, Tensor]]:
    """Copies beside the originals, which may change at once; called, the result brings them to the host.

    They lie as files want them, which a GPU does faster than its host, and no two names mean one tensor.
    """
    plain = torch.contiguous_format
    copies = {name: value.detach().clone(memory_format=plain) for name, value in tensors.items()}
    device = next((copy.device for copy in copies.values() if copy.is_cuda), None)
    if device is None:
        return lambda: copies
    ready = torch.cuda.current_stream(device).record_event()

    def brought() -> dict[str, Tensor]:
        # Of its own kind: torch deals its usual ones out in turn, and this must not be one that is recorded.
        aside = torch.cuda.Stream(device, priority=-1)  # type: ignore[no-untyped-call]
        aside.wait_event(ready)
        # Not in line with the training, and without waiting for each, which takes memory that is locked in
        # place: while a copy into any other is made, the training may not be able to ask for its next step.
        with torch.cuda.stream(aside):
            found = {name: copy.to("cpu", non_blocking=True) for name, copy in copies.items()}
        aside.synchronize()
        return found

    return brought


def save(path: Path, copies: dict[str, Tensor], words: Mapping[str, str] | None = None) -> None:
    """Write under a temporary name and rename, so that there is never half of a file."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        save_file(copies, partial, dict(words or {}))
        partial.chmod(0o644)  # safetensors lets only the owner read
        partial.replace(path)
    except (OSError, SafetensorError) as error:
        partial.unlink(missing_ok=True)
        raise RunError(f"cannot write {path}: {error}; free some space or give another --out") from None


def save_checkpoint(folder: Path, copies: dict[str, Tensor], story: Story, name: str = NAME) -> None:
    """All of the trainer and the story so far."""
    words = {"rows": story.rows, "attempt": story.attempt, "ended": story.ended, "sound": story.sound}
    save(folder / name, copies, {"story": json.dumps(words)})


def keep_sound(folder: Path) -> None:
    """Let the checkpoint just written be the last sound one, too; it is never written to again."""
    partial = folder / f".{SOUND}.{os.getpid()}.part"
    try:
        partial.unlink(missing_ok=True)
        partial.hardlink_to(folder / NAME)
    except OSError:  # not every file system has links
        shutil.copyfile(folder / NAME, partial)
    partial.replace(folder / SOUND)


def load_checkpoint(folder: Path, trainer: Trainer, name: str = NAME) -> Story | None:
    """Fill the trainer from its last checkpoint, in place; None if there is none."""
    path = folder / name
    if not path.is_file():
        return None
    kept, story = _read(path)
    wanted = tensors_of(trainer)
    _check_names(path, kept.keys(), wanted.keys())
    with torch.no_grad():
        for key, place in wanted.items():
            if kept[key].shape == place.shape:
                place.copy_(kept[key])
            # A perturbation that is carried along has the size of one process's batch.
            elif not key.startswith("memory."):
                raise CheckpointError(f"{path} is of another network or recipe; give another --out")
    return story


def _read(path: Path) -> tuple[dict[str, Tensor], Story]:
    """All that is in the file."""
    try:
        with safe_open(path, "pt") as file:
            return {key: file.get_tensor(key) for key in file.keys()}, Story(  # noqa: SIM118 - it is no dict
                **json.loads(file.metadata()["story"])
            )
    except (OSError, SafetensorError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise CheckpointError(f"cannot read {path}: {error}; remove it to begin again") from None


def _check_names(path: Path, kept: Set[str], wanted: Set[str]) -> None:
    """Refuse what this training cannot go on from."""
    if kept == wanted:
        return
    if all(name.startswith("scaler.") for name in kept ^ wanted):
        began, goes = ("half", "single") if kept > wanted else ("single", "half")
        raise CheckpointError(
            f"{path} was written in {began} precision and this run computes in {goes}; go on with the "
            "--device that it began on (half precision is a GPU's), or give another --out"
        )
    raise CheckpointError(f"{path} is of another network or recipe; give another --out")


def weights_of(trainer: Trainer) -> nn.Module:
    """The network that is measured and kept: the average of the weights where there is one."""
    return trainer.model if trainer.average is None else trainer.average
