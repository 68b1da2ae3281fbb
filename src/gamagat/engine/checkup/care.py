"""Look at a network without leaving a trace, even where the network itself would leave one."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn

from gamagat.engine.runtime import awake_gpus


def named_parts(model: Any) -> list[tuple[str, nn.Module]]:
    """The modules of a network by name; a plain function has none."""
    return list(model.named_modules()) if isinstance(model, nn.Module) else []


def parameters_of(model: Any) -> list[tuple[str, nn.Parameter]]:
    """The parameters of a network by name; a plain function has none."""
    return list(model.named_parameters()) if isinstance(model, nn.Module) else []


class Keepsake:
    """The buffers and gradients of a network as they were."""

    def __init__(self, model: Any) -> None:
        self._buffers = [
            (f"{part}.{name}".lstrip("."), owner, name, buffer, buffer.clone())
            for part, owner in named_parts(model)
            for name, buffer in owner.named_buffers(recurse=False)
        ]
        self._gradients = [
            (parameter, parameter.requires_grad, parameter.grad, _copy(parameter.grad))
            for _, parameter in parameters_of(model)
        ]

    def moved(self) -> list[str]:
        """The names of the buffers that are not what they were."""
        return [
            full for full, owner, name, _, values in self._buffers if not _same(getattr(owner, name), values)
        ]

    @torch.no_grad()
    def rewind(self) -> None:
        """Put the buffers back: the same tensors, with the same numbers in them."""
        for _, owner, name, buffer, values in self._buffers:
            if getattr(owner, name) is not buffer:
                setattr(owner, name, buffer)
            if not _same(buffer, values):
                buffer.copy_(values)

    @torch.no_grad()
    def restore(self) -> None:
        """Put everything back."""
        self.rewind()
        for parameter, wanted, gradient, numbers in self._gradients:
            parameter.requires_grad_(wanted)
            parameter.grad = gradient
            if gradient is not None and numbers is not None and not _same(gradient, numbers):
                gradient.copy_(numbers)


@contextmanager
def untouched(model: Any) -> Iterator[Keepsake]:
    """Afterwards buffers, gradients, random states and gradient mode are as before, also after an error."""
    kept = Keepsake(model)
    dice, arrays = random.getstate(), np.random.get_state()
    # Leaving inference_mode(False) also brings back the gradient mode, whatever the network has set.
    with torch.inference_mode(False), torch.random.fork_rng(awake_gpus()):
        try:
            yield kept
        finally:
            kept.restore()
            random.setstate(dice)
            np.random.set_state(arrays)


def _copy(gradient: torch.Tensor | None) -> torch.Tensor | None:
    return None if gradient is None else gradient.clone()


def _same(left: Any, right: torch.Tensor) -> bool:
    """Whether two tensors hold the same numbers; NaN equals itself."""
    if not isinstance(left, torch.Tensor) or left.shape != right.shape or left.dtype != right.dtype:
        return False
    if left.device != right.device:
        return False
    return bool(((left == right) | ((left != left) & (right != right))).all())  # noqa: PLR0124 - NaN
