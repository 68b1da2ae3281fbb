"""From named tensors to a network: matches names and shapes, and says precisely what does not fit."""

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from gamagat.errors import CheckpointError
from gamagat.models.loading.checkpoint import State
from gamagat.models.normalize import Normalize

Hint = Callable[[State], str]

# Copies that public checkpoints carry and no forward pass uses: TRADES' unused block, Madry's attacker.
_UNUSED = ("sub_block1.", "attacker.")
_INPUT_STATISTICS = {"mean", "std", "mu", "sigma", "new_mean", "new_std"}


def sizes_told(state: State, net: nn.Module) -> dict[str, int]:
    """The number of classes and of channels that the tensors of a file are made for, where they tell."""
    wanted = net.state_dict()
    found = aligned(split_statistics(_used(state, wanted), wanted)[0], wanted)
    head, stem = classifier(wanted), next((key for key in wanted if wanted[key].dim() == 4), "")
    told = {"classes": (head, 2, 0), "channels": (stem, 4, 1)}
    return {
        size: found[key].shape[axis]
        for size, (key, dimensions, axis) in told.items()
        if key in found and found[key].dim() == dimensions and key in wanted
    }


def load_weights(net: nn.Module, state: State, file: Path, name: str, hint: Hint) -> None:
    """Put the tensors of `file` into the network called `name`; `hint` says what else they might fit."""
    wanted = net.state_dict()
    found = _used(state, wanted)
    core, statistics = split_statistics(found, wanted)
    state = aligned(core, wanted)
    if classes := _other_classes(state, wanted):
        raise CheckpointError(f"{file} does not fit model {name!r}: {classes}")
    if whole := _only_whole(state, wanted):
        raise CheckpointError(f"{file} does not fit model {name!r}: {whole}")
    faults = _faults(state, wanted)
    wrong = next((key for key in statistics if not _has_statistic(net, key, statistics[key])), None)
    if wrong is not None:
        faults.append(_other_normalisation(wrong, statistics[wrong]))
    if faults:
        raise CheckpointError(f"{file} does not fit model {name!r}: {'; '.join(faults)}. {hint(found)}")
    net.load_state_dict(state, strict=False)


def _used(state: State, wanted: State) -> State:
    """Without the copies that this network does not know either."""
    unused = [part for part in _UNUSED if not any(f".{part}" in f".{key}" for key in wanted)]
    return {key: value for key, value in state.items() if not any(f".{part}" in f".{key}" for part in unused)}


def split_statistics(state: State, wanted: State) -> tuple[State, State]:
    """Apart: the tensors of the network, and the numbers of an input normalisation it does not save."""
    loose = {
        key: value
        for key, value in state.items()
        if key not in wanted and key.rpartition(".")[2] in _INPUT_STATISTICS and value.numel() <= 4
    }
    return {key: value for key, value in state.items() if key not in loose}, loose


def _has_statistic(net: nn.Module, key: str, value: Tensor) -> bool:
    """Whether the network's own input layer uses the same numbers."""
    layer = next((module for module in net.modules() if isinstance(module, Normalize)), None)
    if layer is None:
        return False
    own = layer.std if key.endswith(("std", "sigma")) else layer.mean
    return value.numel() in (1, own.numel()) and torch.allclose(
        value.flatten().float(), own.flatten(), atol=1e-4
    )


def _other_normalisation(key: str, value: Tensor) -> str:
    numbers = ", ".join(f"{number:.4g}" for number in value.flatten().tolist())
    return (
        f"it was trained behind an input normalisation ({key} = {numbers}) that this network lacks, "
        "and would answer wrongly without; see the option normalize"
    )


def aligned(state: State, wanted: State) -> State:
    """The state under the network's names, where only one leading component makes the difference."""
    forms = [state, _stripped(state)]
    if prefix := _common(wanted):
        forms += [{f"{prefix}.{key}": value for key, value in form.items()} for form in forms]
    return max(forms, key=lambda form: len(form.keys() & wanted.keys()))


def _common(state: State) -> str | None:
    """The first component of the names, if all share it."""
    first = {key.partition(".")[0] for key in state if "." in key}
    return first.pop() if len(first) == 1 and all("." in key for key in state) else None


def _stripped(state: State) -> State:
    return {key.partition(".")[2]: value for key, value in state.items()} if _common(state) else state


def _faults(state: State, wanted: State) -> list[str]:
    """What keeps the tensors from fitting, one clause for each kind of fault."""
    missing, unexpected = _lone_names(state, wanted)
    odd = [f"{key} is {_form(state[key])}, should be {_form(wanted[key])}" for key in _odd(state, wanted)]
    kinds = {"missing": missing, "unexpected": unexpected, "of another form": odd}
    return [f"{kind}: {_few(names)}" for kind, names in kinds.items() if names]


def _lone_names(state: State, wanted: State) -> tuple[list[str], list[str]]:
    """Names that only the network has, and names that only the file has; old files lack BN's counters."""
    missing = [key for key in wanted if key not in state and not key.endswith("num_batches_tracked")]
    return missing, [key for key in state if key not in wanted]


def _odd(state: State, wanted: State) -> list[str]:
    """Names on both sides whose tensors differ in shape, or are no weights because they are whole numbers."""
    both = [key for key in wanted if key in state]
    return [
        key for key in both if state[key].shape != wanted[key].shape or _is_whole(state[key], wanted[key])
    ]


def _is_whole(found: Tensor, wanted: Tensor) -> bool:
    return wanted.is_floating_point() and not found.is_floating_point()


def _form(value: Tensor) -> str:
    shape = str(tuple(value.shape))
    return shape if value.is_floating_point() else f"{shape} of {value.dtype}"


def _other_classes(state: State, wanted: State) -> str | None:
    """One clause, if the last layer is all that differs and only in its number of outputs."""
    odd, head = _odd(state, wanted), classifier(wanted).rpartition(".")[0]
    if not odd or any(_lone_names(state, wanted)) or any(key.rpartition(".")[0] != head for key in odd):
        return None
    if any(state[key].shape[1:] != wanted[key].shape[1:] for key in odd):
        return None
    found, asked = state[odd[0]].shape[0], wanted[odd[0]].shape[0]
    return (
        f"its weights tell {found} classes apart, the network is asked for {asked}; "
        f"use data of {found} classes or weights for {asked}"
    )


def _only_whole(state: State, wanted: State) -> str | None:
    """One clause, if names and shapes fit and yet some weights are whole numbers."""
    odd = _odd(state, wanted)
    if not odd or any(_lone_names(state, wanted)) or any(state[k].shape != wanted[k].shape for k in odd):
        return None
    kinds = [f"{key} is of {state[key].dtype}" for key in odd]
    return f"{_few(kinds)}, should be floats; save the weights as they were before they were quantized"


def classifier(state: State) -> str:
    """The name of the last layer's weight in a network's state."""
    return next((key for key in reversed(list(state)) if state[key].dim() == 2), "")


def _few(names: list[str], most: int = 3) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
