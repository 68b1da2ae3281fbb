"""The network as attacks in evaluation mode see it while it is trained: folded, fused, in half precision."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized

from gamagat.data.core import Dataset
from gamagat.engine.quick.agreement import doubt
from gamagat.engine.quick.folding import folded, folded_weights
from gamagat.engine.quick.halving import FullLinear, RectifiedConv, halved
from gamagat.engine.runtime import borrowed
from gamagat.pieces.types import Images, Scores

SAMPLE = 32  # images that a stand-in is tried on
CLOSE = (5e-2, 0.95)  # error of logits, likeness of gradients


class Posed:
    """A stand-in that takes over the weights of the network whenever it is asked to."""

    def __init__(self, model: nn.Module, compiled: bool = True) -> None:
        made = folded(model)
        self.live = dict(model.named_modules())
        self.norms = {conv: self.live[norm] for conv, norm in made.norms.items()}
        self.net = halved(made).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.answer, self.renew = self.net.forward, self._renew
        if compiled:
            self.answer = torch.compile(self.net, dynamic=False)
            self.renew = torch.compile(self._renew, dynamic=False)

    def __call__(self, images: Images) -> Scores:
        with torch.autocast(images.device.type, torch.float16, cache_enabled=False):
            scores: Scores = self.answer(images)
        return scores

    @torch.no_grad()
    def _renew(self) -> None:
        for name, layer in self.net.named_modules():
            if isinstance(layer, RectifiedConv | nn.Conv2d) and name in self.live:
                conv = self.live[name]
                assert isinstance(conv, nn.Conv2d)
                _take(layer, *folded_weights(conv, self.norms.get(name)))
            elif name in self.live:
                for old, new in _pairs(layer, self.live[name]):
                    old.copy_(new)


def _take(layer: RectifiedConv | nn.Conv2d, weight: Tensor, bias: Tensor | None) -> None:
    if isinstance(layer, RectifiedConv):
        layer.take(weight, bias)
        return
    layer.weight.copy_(weight)
    if layer.bias is not None and bias is not None:
        layer.bias.copy_(bias)


def _pairs(layer: nn.Module, live: nn.Module) -> Iterator[tuple[Tensor, Tensor]]:
    """The tensors of a layer itself, not of those inside it, beside those that they are copies of."""
    layer = layer.linear if isinstance(layer, FullLinear) else layer
    for tensors, others in ((layer._parameters, live._parameters), (layer._buffers, live._buffers)):
        for name, old in tensors.items():
            new = others.get(name)
            if old is not None and new is not None:
                yield old, new


def pose(model: nn.Module, sample: Images, compiled: bool = True) -> Posed | None:
    """A stand-in for the network if one can be made that says the same of the sample."""
    if any(is_parametrized(layer) for layer in model.modules()):
        return None  # weights that are computed from others would have to be computed anew
    try:
        with borrowed(model), warnings.catch_warnings(action="ignore"):
            made = Posed(model, compiled=False)
            reason = doubt(model, made, sample, *CLOSE)
            return None if reason else Posed(model, compiled)
    except Exception:  # a network that cannot be traced is attacked as it is
        return None


def posed_for(
    model: nn.Module, data: Dataset, device: torch.device, kind: torch.dtype | None
) -> Posed | None:
    """A stand-in tried on the first images of the data, if attacks are to compute in half precision."""
    if kind != torch.float16:
        return None
    sample, _ = data.batch(torch.arange(min(SAMPLE, len(data))), device)
    return pose(model, sample)
