"""Optimisers as few fused operations on lists of tensors; rates are tensors, so a step can be recorded.

Where the loss is scaled, `overflow` is a number on the device: 1 if a gradient is not finite, and then the
parameters stay where they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from gamagat.engine.training.settings import Settings


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
        # In double precision: 1 - 0.999 loses four digits in single.
        count = torch.zeros((), dtype=torch.float64, device=self.parameters[0].device)
        self.state = {"mean": zeros[0], "square": zeros[1], "count": [count]}

    @torch.no_grad()
    def step(self, grads: Sequence[Tensor], rate: Tensor, overflow: Tensor | None = None) -> None:
        mean, square, (count,) = self.state["mean"], self.state["square"], self.state["count"]
        count += 1
        if overflow is not None:
            grads, rate = [grad.nan_to_num(0.0, 0.0, 0.0) for grad in grads], rate * (1 - overflow)
        whole = torch._foreach_add(list(grads), self.parameters, alpha=self.decay)
        torch._foreach_lerp_(mean, whole, 1 - self.momentum)
        torch._foreach_mul_(square, self.memory)
        torch._foreach_addcmul_(square, whole, whole, 1 - self.memory)
        kind = square[0].dtype
        spread = torch._foreach_div(square, (1 - self.memory**count).to(kind))
        torch._foreach_sqrt_(spread)
        torch._foreach_add_(spread, 1e-8)
        moves = torch._foreach_div(mean, spread)
        size = (rate / (1 - self.momentum**count)).to(kind)
        torch._foreach_sub_(self.parameters, torch._foreach_mul(moves, size))


def make_optimizer(settings: Settings, parameters: Sequence[Tensor]) -> Optimizer:
    """The optimiser that the settings name."""
    kind = Adam if settings.optimizer == "adam" else Sgd
    return kind(parameters, settings.momentum, settings.weight_decay)
