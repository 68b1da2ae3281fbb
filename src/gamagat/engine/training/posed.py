"""The network as attacks in evaluation mode see it while it is trained: folded, fused, in half precision."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from copy import deepcopy
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized

from gamagat.data.core import Dataset
from gamagat.defenses.views import ViewNorm, can_be_joined
from gamagat.engine.easing import EasedConv
from gamagat.engine.quick.agreement import CLOSE, SAMPLE, doubt
from gamagat.engine.quick.folding import folded, folded_weights
from gamagat.engine.quick.halving import FullLinear, RectifiedConv, halved
from gamagat.engine.runtime import borrowed
from gamagat.engine.training.halves import can_be_halved
from gamagat.pieces.types import Images, Scores


class Posed:
    """A stand-in that takes over the weights of the network whenever it is asked to."""

    def __init__(self, model: nn.Module, compiled: bool = True) -> None:
        made = folded(model)
        self.live = dict(model.named_modules())
        self.norms = {conv: self.live[norm] for conv, norm in made._norms_of.items()}
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
            conv = self.live.get(name)
            if isinstance(conv, nn.Conv2d) and (isinstance(layer, RectifiedConv) or name in self.norms):
                _take(layer, *folded_weights(conv, self.norms.get(name)))
            elif conv is not None:
                for old, new in _pairs(layer, conv):
                    old.copy_(new)


def _take(layer: nn.Module, weight: Tensor, bias: Tensor | None) -> None:
    if isinstance(layer, RectifiedConv):
        layer.take(weight, bias)
        return
    assert isinstance(layer, nn.Conv2d)
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
    """A stand-in for the network if one can be made that says the same of the sample.

    It is tried on a copy whose weights have moved since: at the start of a training zeros may hide a fault.
    """
    if any(is_parametrized(layer) for layer in model.modules()):
        return None  # weights that are computed from others would have to be computed anew
    try:
        trial = deepcopy(model)
        with borrowed(trial), warnings.catch_warnings(action="ignore"):
            made = Posed(trial, compiled=False)  # compiling would take longer than all the rest
            _shaken(trial)
            made.renew()
            if doubt(trial, made, sample, *CLOSE[torch.float16]):
                return None
        with borrowed(model), warnings.catch_warnings(action="ignore"):
            return Posed(model, compiled)
    except Exception:  # a network that cannot be traced is attacked as it is
        return None


@torch.no_grad()
def _shaken(model: nn.Module) -> None:
    """Move all weights and statistics a little, and zeros up to one; what is positive stays so."""
    dice = torch.Generator().manual_seed(0)
    for value in (*model.parameters(), *model.buffers()):
        if value.is_floating_point():
            share = torch.rand(value.shape, generator=dice).to(value)
            value.add_(0.1 * share * value if bool(value.any()) else share)


def given_back(model: nn.Module) -> None:
    """Its layers as they were before it was trained: who brought the network along has a use for it yet."""
    for layer in model.modules():
        for changed, usual in ((EasedConv, nn.Conv2d), (ViewNorm, nn.BatchNorm2d)):
            if isinstance(layer, changed):
                layer.__class__ = usual  # type: ignore[assignment]


class Means(NamedTuple):
    """How a network is trained faster."""

    compiled: bool
    joined: bool  # whether the views of a batch go through it together
    halved: bool  # whether its passes see weights in half precision
    posed: Posed | None


def means(
    model: nn.Module, data: Dataset, device: torch.device, kind: torch.dtype | None, compiled: bool
) -> Means:
    """All that a compiled step can have with this network, tried on the first images of the data.

    A stand-in for attacks, and weights that are cast once, are had only where it computes in half precision.
    """
    if not compiled:
        return Means(compiled, joined=False, halved=False, posed=None)
    sample, _ = data.batch(torch.arange(min(SAMPLE, len(data))), device)
    joined = can_be_joined(model, sample)
    if kind != torch.float16:
        return Means(compiled, joined, halved=False, posed=None)
    return Means(compiled, joined, joined and can_be_halved(model, sample), pose(model, sample))
