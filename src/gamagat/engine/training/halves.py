"""The network as training passes see it: weights in half precision, cast once a step, not in every pass."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Protocol

import torch
from torch import Tensor, nn

from gamagat.pieces.types import Images

CAST = (nn.Conv2d, nn.Linear)  # layers that autocast gives half precision, as torch has them
CLOSE = 0.02  # of the largest logit: how far a twin's answers may be from the network's


class Working(Protocol):
    """What a training step computes with, and how it comes back to what is trained."""

    net: nn.Module
    parameters: list[Tensor]

    def renew(self) -> None: ...

    def widened(self, grads: Sequence[Tensor]) -> list[Tensor]: ...


class Itself:
    """The network that is trained."""

    def __init__(self, model: nn.Module) -> None:
        self.net, self.parameters = model, trainable(model)

    def renew(self) -> None:
        """It is always new."""

    def widened(self, grads: Sequence[Tensor]) -> list[Tensor]:
        return list(grads)


class Halves:
    """A twin of the network; both have the same tensors, but for the weights that autocast would cast.

    Where a weight is used twice in a step, its gradients are added in half precision.
    """

    def __init__(self, model: nn.Module) -> None:
        layers = [layer for layer in model.modules() if type(layer) in CAST]
        cast = {id(value) for layer in layers for value in layer._parameters.values()}
        tensors = (*model.parameters(), *model.buffers())
        self.net = deepcopy(model, {id(value): value for value in tensors if id(value) not in cast})
        pairs = zip(self.net.parameters(), model.parameters(), strict=True)
        self.copies = [(half, whole) for half, whole in pairs if half is not whole]
        for half, _ in self.copies:
            half.data = half.data.half()
        self.parameters, self.originals = trainable(self.net), trainable(model)

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


def can_be_halved(model: nn.Module, sample: Images) -> bool:
    """Whether a twin does as the network does, tried on these images; the network comes back as it was.

    It does not where the network keeps functions that know its layers, puts new tensors in place of buffers,
    or computes with a layer in another precision.
    """
    kept = [buffer.clone() for buffer in model.buffers()]
    devices = [sample.device] if sample.is_cuda else []
    try:
        looks = []
        for net in (model, Halves(model).net):
            with torch.random.fork_rng(devices), torch.autocast(sample.device.type, torch.float16):
                logits = net(sample)
            grads = torch.autograd.grad(logits.float().sum(), trainable(net), allow_unused=True)
            same = all(one is other for one, other in zip(net.buffers(), model.buffers(), strict=True))
            looks.append((same, [grad is None for grad in grads], logits.detach().float()))
            _put_back(model, kept)
        (_, used, theirs), (same, used_too, ours) = looks
        return same and used == used_too and bool((ours - theirs).abs().amax() <= CLOSE * theirs.abs().amax())
    except Exception:  # one that cannot be copied, or not be asked
        return False
    finally:
        _put_back(model, kept)


@torch.no_grad()
def _put_back(model: nn.Module, kept: Sequence[Tensor]) -> None:
    for buffer, old in zip(model.buffers(), kept, strict=False):
        buffer.copy_(old)


def trainable(model: nn.Module) -> list[Tensor]:
    """The parameters that training moves."""
    return [parameter for parameter in model.parameters() if parameter.requires_grad]
