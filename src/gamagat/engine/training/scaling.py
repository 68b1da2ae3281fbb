"""Loss scaling: small gradients vanish in half precision, so the loss is multiplied first."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

FIRST, PATIENCE = 2.0**12, 1000  # the factor at the start; steps without overflow before it is doubled


class Scaler:
    """Keeps the factor as large as it may be: an overflow halves it, and the step is left out.

    All that it knows lies in tensors and nothing is asked of the host, so a step can be recorded.
    """

    def __init__(self, device: torch.device) -> None:
        self.state = {
            "factor": torch.full((), FIRST, device=device),
            "age": torch.zeros((), dtype=torch.int32, device=device),
        }

    @property
    def factor(self) -> Tensor:
        return self.state["factor"]

    @torch.no_grad()
    def settle(self, grads: Sequence[Tensor]) -> Tensor:
        """Bring the gradients back to size in place; 1 if one of them is not finite, else 0."""
        overflow = torch.zeros((), device=self.factor.device)
        torch._amp_foreach_non_finite_check_and_unscale_(list(grads), overflow, self.factor.reciprocal())
        torch._amp_update_scale_(self.factor, self.state["age"], overflow, 2.0, 0.5, PATIENCE)
        return overflow
