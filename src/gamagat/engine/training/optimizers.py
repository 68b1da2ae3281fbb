"""Optimisers as few fused operations on lists of tensors; rates are tensors, so a step can be recorded.

Where the loss is scaled, `overflow` is a number on the device: 1 if a gradient is not finite, and then the
parameters stay where they are, and so does all that the optimiser remembers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from gamagat.engine.training.settings import Settings
from gamagat.errors import ModelError


class Optimizer(Protocol):
    """Moves the parameters in place; all it remembers is in `state`."""

    state: dict[str, list[Tensor]]

    def step(self, grads: Sequence[Tensor], rate: Tensor, overflow: Tensor | None = None) -> None: ...


class Sgd:
    """v = momentum * v + grad + decay * w;  w = w - rate * v."""

    def __init__(self, parameters: Sequence[Tensor], momentum: float, decay: float) -> None:
        self.parameters, self.momentum, self.decay = list(parameters), momentum, decay
        self.state = {"velocity": [torch.zeros_like(parameter) for parameter in parameters]}

    @torch.no_grad()
    def step(self, grads: Sequence[Tensor], rate: Tensor, overflow: Tensor | None = None) -> None:
        moving = self.state["velocity"] if self.momentum else []  # as the fused operation wants it
        torch._fused_sgd_(
            self.parameters, _laid_out(grads, self.parameters), moving, lr=rate, momentum=self.momentum,
            weight_decay=self.decay, dampening=0.0, nesterov=False, maximize=False, is_first_step=False,
            found_inf=overflow,
        )  # fmt: skip


def _laid_out(grads: Sequence[Tensor], parameters: Sequence[Tensor]) -> list[Tensor]:
    """The gradients in the order in memory of their parameters, which is all that a fused operation sees."""
    return [
        grad if grad.stride() == parameter.stride() else torch.empty_like(parameter).copy_(grad)
        for grad, parameter in zip(grads, parameters, strict=True)
    ]


class Adam:
    """Adam with the decay added to the gradient, as torch.optim.Adam has it."""

    def __init__(
        self, parameters: Sequence[Tensor], momentum: float, decay: float, memory: float = 0.999
    ) -> None:
        self.parameters, self.momentum, self.decay = list(parameters), momentum, decay
        self.memory = memory
        zeros = [[torch.zeros_like(parameter) for parameter in parameters] for _ in range(2)]
        count = torch.zeros((), device=self.parameters[0].device)
        self.state = {"mean": zeros[0], "square": zeros[1], "count": [count]}

    @torch.no_grad()
    def step(self, grads: Sequence[Tensor], rate: Tensor, overflow: Tensor | None = None) -> None:
        (count,) = self.state["count"]
        count += 1 if overflow is None else 1 - overflow
        torch._fused_adam_(
            self.parameters, _laid_out(grads, self.parameters), self.state["mean"], self.state["square"], [],
            [count] * len(self.parameters), lr=rate, beta1=self.momentum, beta2=self.memory,
            weight_decay=self.decay, eps=1e-8, amsgrad=False, maximize=False, found_inf=overflow,
        )  # fmt: skip


def make_optimizer(settings: Settings, parameters: Sequence[Tensor]) -> Optimizer:
    """The optimiser that the settings name."""
    if any(torch.empty_like(parameter).stride() != parameter.stride() for parameter in parameters):
        raise ModelError(
            "a parameter of the network is a part of a larger tensor, which training would write over; "
            "make it nn.Parameter(part.clone())"
        )
    kind = Adam if settings.optimizer == "adam" else Sgd
    return kind(parameters, settings.momentum, settings.weight_decay)
