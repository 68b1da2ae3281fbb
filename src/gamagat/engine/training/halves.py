"""The network as training passes see it: weights in half precision, cast once a step, not in every pass."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Protocol

import torch
from torch import Tensor, nn

CAST = (nn.Conv2d, nn.Linear)  # layers that autocast gives half precision, as torch has them


class Working(Protocol):
    """What a training step computes with, and how it comes back to what is trained."""

    net: nn.Module
    parameters: list[Tensor]

    def renew(self) -> None: ...

    def widened(self, grads: Sequence[Tensor]) -> list[Tensor]: ...


class Itself:
    """The network that is trained."""

    def __init__(self, model: nn.Module) -> None:
        self.net, self.parameters = model, _trainable(model)

    def renew(self) -> None:
        """It is always new."""

    def widened(self, grads: Sequence[Tensor]) -> list[Tensor]:
        return list(grads)


class Halves:
    """A twin of the network; both have the same tensors, but for the weights that autocast would cast."""

    def __init__(self, model: nn.Module, kind: torch.dtype) -> None:
        layers = [layer for layer in model.modules() if type(layer) in CAST]
        cast = {id(value) for layer in layers for value in layer._parameters.values()}
        tensors = (*model.parameters(), *model.buffers())
        self.net = deepcopy(model, {id(value): value for value in tensors if id(value) not in cast})
        for value in self.net.parameters():
            if not any(value is other for other in model.parameters()):
                value.data = value.data.to(kind)
        self.parameters, self.originals = _trainable(self.net), _trainable(model)
        pairs = zip(self.net.parameters(), model.parameters(), strict=True)
        self.copies = [(half, whole) for half, whole in pairs if half is not whole]

    @torch.no_grad()
    def renew(self) -> None:
        """Take over the weights as they are now."""
        if self.copies:
            torch._foreach_copy_([half for half, _ in self.copies], [whole for _, whole in self.copies])

    def widened(self, grads: Sequence[Tensor]) -> list[Tensor]:
        """Gradients as the network's own weights want them: their precision, their order in memory."""
        found = [
            grad if grad.dtype == whole.dtype else torch.empty_like(whole, requires_grad=False)
            for grad, whole in zip(grads, self.originals, strict=True)
        ]
        pairs = [(wide, grad) for wide, grad in zip(found, grads, strict=True) if wide is not grad]
        alike = [(wide, grad) for wide, grad in pairs if wide.stride() == grad.stride()]
        if alike:  # one operation for all
            torch._foreach_copy_([wide for wide, _ in alike], [grad for _, grad in alike])
        for wide, grad in pairs:
            if wide.stride() != grad.stride():
                wide.copy_(grad)
        return found


def _trainable(model: nn.Module) -> list[Tensor]:
    return [parameter for parameter in model.parameters() if parameter.requires_grad]
