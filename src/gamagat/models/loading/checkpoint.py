"""From a file of weights to named tensors, without running anything that the file may contain."""

import pickle
import re
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from gamagat.errors import CheckpointError
from gamagat.models.loading.numbers import check_finite, check_plain

State = dict[str, Tensor]

# Where training scripts put the weights among other things, the most telling name first.
_CONTAINERS = (
    "state_dict",
    "model_state_dict",
    "model_state",
    "model",
    "net",
    "network",
    "weights",
    "params",
)
_WRAPPERS = ("module.", "_orig_mod.")  # data parallel training and torch.compile
_DEEPEST = 20  # dictionaries in dictionaries; one that contains itself has no end
_RESAVE = "load it where you trust it and save its state dict with safetensors.torch.save_file"


def read_state(file: Path) -> State:
    """The named tensors in a safetensors or torch file, free of containers and wrappers."""
    head = _head(file)
    if file.suffix == ".safetensors" or _is_safetensors(head):
        content: Any = _read_safetensors(file)
    else:
        content = _read_torch(file, head)
    state = _unwrapped(_tensors(content, file), file)
    check_plain(state, file)
    check_finite(state, file)
    return state


def _head(file: Path) -> bytes:
    """The first bytes; what is plainly no checkpoint is refused here, each in its own words."""
    if file.is_dir():
        raise CheckpointError(f"{file} is a folder; give the file of weights in it")
    if not file.is_file():
        raise CheckpointError(f"weights file {file} does not exist")
    try:
        with file.open("rb") as stream:
            head = stream.read(64)
    except OSError as error:
        raise CheckpointError(f"{file} cannot be read: {error.strerror}") from None
    if not head:
        raise CheckpointError(f"{file} is empty; download or save it again")
    if head.lstrip()[:1] == b"<" and not _is_safetensors(head):
        raise CheckpointError(f"{file} is a web page, not weights: the download failed; download it again")
    if head.startswith(b"version https://git-lfs"):
        raise CheckpointError(f"{file} is a Git LFS pointer, not weights; run: git lfs pull")
    return head


def _is_safetensors(head: bytes) -> bool:
    """Whether a header follows its own length, which may begin with any byte."""
    return head[8:9] == b"{" and not head.startswith(b"PK")


def _read_safetensors(file: Path) -> State:
    try:
        state: State = load_file(file)
    except Exception as error:
        raise CheckpointError(f"{file} is no safetensors file or is damaged ({error})") from None
    return state


def _read_torch(file: Path, head: bytes) -> Any:
    if head.startswith(b"PK"):
        _check_archive(file)
    elif not head.startswith(b"\x80"):  # neither a zip archive nor a pickle
        raise _refused(file)
    try:
        with warnings.catch_warnings():
            # An unusual pickle protocol is no reason to worry: what cannot be read is refused below.
            warnings.simplefilter("ignore", UserWarning)
            return torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise _refused(file, str(error)) from None
    except Exception as error:
        first = (str(error) or type(error).__name__).split(". ")[0]
        raise CheckpointError(
            f"{file} is damaged or cut short ({first}); download or save it again"
        ) from None


def _check_archive(file: Path) -> None:
    """torch files are zip archives, and so are other things."""
    try:
        with zipfile.ZipFile(file) as archive:
            inside = {name.partition("/")[2] for name in archive.namelist()}
    except Exception:
        raise CheckpointError(f"{file} is damaged or cut short; download or save it again") from None
    if "constants.pkl" in inside or "models/model.json" in inside:
        raise CheckpointError(
            f"{file} is a whole program, not weights; give it as the model, without weights"
        )
    if "data.pkl" not in inside:
        raise CheckpointError(f"{file} is a zip archive without a torch checkpoint in it")


def _refused(file: Path, reason: str = "") -> CheckpointError:
    """Say which code the file wanted to run, if that is why it was refused."""
    wanted = re.search(r"GLOBAL (\S+)", reason)
    if wanted is None:
        return CheckpointError(f"{file} is no checkpoint: neither safetensors nor a file of torch.save")
    return CheckpointError(
        f"{file} is refused: reading it would run code ({wanted[1]}), which may be anything; {_RESAVE}"
    )


def _tensors(content: Any, file: Path, depth: int = 0) -> State:
    """The dictionary of tensors, which may lie in other dictionaries."""
    if depth > _DEEPEST:
        raise CheckpointError(
            f"{file} holds dictionaries inside each other without end, no named tensors; {_RESAVE}"
        )
    if not isinstance(content, Mapping):
        raise CheckpointError(f"{file} holds a {type(content).__name__}, not named tensors; {_RESAVE}")
    inner = {key: value for key, value in content.items() if _may_hold_tensors(value)}
    state = {str(key): value for key, value in content.items() if isinstance(value, Tensor)}
    named = [inner[key] for key in _CONTAINERS if key in inner]
    if named:
        return _tensors(named[0], file, depth + 1)
    if state:
        return state
    if len(inner) == 1:
        return _tensors(next(iter(inner.values())), file, depth + 1)
    names = ", ".join(map(str, content)) or "nothing"
    brief = names if len(names) <= 200 else f"{names[:200]}..."
    raise CheckpointError(f"{file} holds no weights, only {brief}; {_RESAVE}")


def _may_hold_tensors(value: Any) -> bool:
    return isinstance(value, Mapping) and any(isinstance(item, Tensor | Mapping) for item in value.values())


def _unwrapped(state: State, file: Path) -> State:
    """Drop the prefixes that wrappers put in front of every name."""
    plain: State = {}
    for key, value in state.items():
        name = key
        while name.startswith(_WRAPPERS):
            name = name.partition(".")[2]
        if name in plain:
            raise CheckpointError(
                f"{file} holds {name!r} both with and without a wrapper's prefix; save it again"
            )
        plain[name] = value
    return plain
