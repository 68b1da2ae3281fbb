"""The manifest: every setting of a run, so that it can be resumed, verified and made again."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from gamagat.data.core import Dataset
from gamagat.engine.places import data_in_full, model_in_full
from gamagat.errors import DamagedError, RunError
from gamagat.version import __version__

FORMAT = 1
NAME = "manifest.json"


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a run is. Two runs with the same settings are the same run."""

    model: str
    weights: str | None
    weights_sha256: str
    data: str
    data_dir: str | None
    split: str
    n: int
    data_sha256: str
    norm: str
    eps_given: str
    eps: float
    attacks: list[dict[str, Any]]  # name, spec and the names of its runs
    seed: int
    chunk: int  # images that are recorded together
    shape: tuple[int, ...]
    made: dict[str, str]
    format: int = FORMAT
    answers: list[float] = field(default_factory=list)  # to the first images, as far as they are steady

    def settings(self) -> dict[str, Any]:
        """All that decides the result, by its name."""
        free = {"weights", "data_dir", "chunk", "made", "answers"}
        return {key: value for key, value in asdict(self).items() if key not in free}

    def fingerprint(self) -> str:
        """One word for all settings."""
        return hashlib.sha256(json.dumps(self.settings(), sort_keys=True).encode()).hexdigest()

    def differences(self, other: Manifest) -> list[str]:
        """One clause for each setting that is not the same."""
        ours, theirs = self.settings(), other.settings()
        if self.n != other.n:
            ours.pop("data_sha256")  # of course
        # Of the same file or folder, whatever the way there is called.
        in_full = {"model": model_in_full, "data": data_in_full}
        same = [key for key, whole in in_full.items() if whole(ours[key]) == whole(theirs[key])]
        others = [key for key in ours if key not in same and ours[key] != theirs[key]]
        return [_changed(key, theirs[key], ours[key]) for key in others]

    def runs(self) -> list[tuple[str, list[str]]]:
        """The attacks in order, each with its runs in order."""
        return [(attack["name"], attack["runs"]) for attack in self.attacks]

    def entries(self) -> list[str]:
        """All runs of all attacks in order."""
        return [name for _, runs in self.runs() for name in runs]

    def write(self, folder: Path) -> None:
        """Write it under another name first, so that there is never half of one."""
        write_json(folder / NAME, asdict(self))

    @classmethod
    def read(cls, folder: Path) -> Manifest | None:
        """The manifest of a run folder; None if the folder holds no run."""
        try:
            content = json.loads((folder / NAME).read_text())
            if isinstance(content, dict) and _of_another_version(content):
                raise RunError(
                    f"{folder / NAME} is of another version of gamagat; use that one, or evaluate again with "
                    "another --out"
                )
            manifest = cls(**content | {"shape": tuple(content["shape"])})
            manifest.entries()  # or an attack in it is none
            return manifest
        except FileNotFoundError:
            return None
        except OSError as error:
            raise RunError(f"cannot read {folder / NAME}: {error}") from None
        except (ValueError, TypeError, KeyError) as error:
            raise DamagedError(f"cannot read {folder / NAME}, it is damaged: {error}") from None


def _of_another_version(content: dict[str, Any]) -> bool:
    known = {one.name for one in fields(Manifest)}
    return content.get("format", FORMAT) != FORMAT or not known.issuperset(content)


def _changed(key: str, before: Any, now: Any) -> str:
    """A setting that is another in a few words: of attacks those that are, of a hash its beginning."""
    if not isinstance(now, list):
        was, is_ = (str(value)[:12] if len(str(value)) == 64 else str(value) for value in (before, now))
        return f"{key} was {was} and is {is_}"
    gone, new = (
        " ".join(item["spec"] for item in some if item not in others)
        for some, others in ((before, now), (now, before))
    )
    if gone and new:
        return f"{key} was {gone} and is {new}"
    if gone or new:
        return f"{key} had {gone} as well" if gone else f"{key} has {new} as well now"
    return f"{key} came in another order"


def write_json(path: Path, content: Any) -> None:
    """Write under a temporary name and rename."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        partial.write_text(json.dumps(content, indent=2) + "\n")
        partial.replace(path)
    except OSError as error:
        raise RunError(f"cannot write {path}: {error.strerror or error}") from None


def circumstances(device: torch.device, batch_size: int, ranks: int) -> dict[str, str]:
    """When, where and with what: recorded, and free to differ when a run goes on."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "gamagat": __version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else str(device),
        "batch_size": str(batch_size),
        "ranks": str(ranks),
    }


def weights_hash(model: Any) -> str:
    """A fingerprint of every parameter and buffer with its name, whatever file they came from."""
    total = hashlib.sha256()
    tensors = model.state_dict() if isinstance(model, nn.Module) else {}
    for name in sorted(tensors):
        if isinstance(tensors[name], Tensor):
            value = tensors[name].detach().cpu().contiguous()
            total.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
            total.update(value.flatten().view(torch.uint8).numpy())
    return total.hexdigest()


def data_hash(data: Dataset) -> str:
    """A fingerprint of the images as they are stored, their labels and their ids."""
    total = hashlib.sha256(f"{tuple(data.shape)} {len(data)}".encode())
    total.update(data.labels.numpy().tobytes())
    total.update(data.ids.numpy().tobytes())
    for positions in torch.split(torch.arange(len(data)), 1024):
        total.update(data.read(positions).contiguous().numpy().data)
    return total.hexdigest()
