"""A copy of a network as a graph that can be rewritten, its batch norms part of its convolutions."""

from __future__ import annotations

from copy import deepcopy
from inspect import Parameter, signature
from typing import Any

from torch import Tensor, fx, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval
from torch.nn.utils.parametrize import is_parametrized

from gamagat.defenses.views import ViewNorm
from gamagat.engine.easing import EasedConv
from gamagat.engine.quick.graph import bypass, module_at, only_input


class Folded(fx.GraphModule):
    """The graph of a network, and by name which batch norm went into which convolution."""

    _norms_of: dict[str, str]  # a name that no network has


def folded(model: nn.Module) -> Folded:
    """A copy in which every batch norm right behind a convolution is part of it.

    Python code inside the network runs once, now. Whoever uses the copy must check that it still does what
    the network does.
    """
    net = _traced(_settled(deepcopy(model).eval()))
    for node in list(net.graph.nodes):
        before = only_input(net, node, nn.Conv2d)
        norm = module_at(net, node)
        if before is not None and isinstance(norm, nn.BatchNorm2d) and norm.track_running_stats:
            conv = module_at(net, before)
            assert isinstance(conv, nn.Conv2d)
            net._norms_of[str(before.target)] = str(node.target)
            bypass(net, node, before, fuse_conv_bn_eval(conv, norm))
    net.delete_all_unused_submodules()
    net.recompile()
    return net


def folded_weights(conv: nn.Conv2d, norm: nn.BatchNorm2d | None) -> tuple[Tensor, Tensor | None]:
    """Weights and bias of the convolution that does what these two do."""
    if norm is None:
        return conv.weight, conv.bias
    assert norm.running_mean is not None
    assert norm.running_var is not None
    scale = (norm.running_var + norm.eps).rsqrt() * (1.0 if norm.weight is None else norm.weight)
    shift = (0.0 if conv.bias is None else conv.bias) - norm.running_mean
    bias = shift * scale + (0.0 if norm.bias is None else norm.bias)
    return conv.weight * scale[:, None, None, None], bias


def _settled(model: nn.Module) -> nn.Module:
    """The network with weights that are computed from others (weight norm and its like) computed for good."""
    for module in filter(is_parametrized, list(model.modules())):
        names = dict(module.get_submodule("parametrizations").named_children())
        weights = {name: getattr(module, name).detach() for name in names}
        del module.parametrizations
        module.__class__ = type(module).__bases__[0]  # torch's own remover spoils the original's class
        for name, weight in weights.items():
            module.register_parameter(name, nn.Parameter(weight, requires_grad=False))
    return model


class Tracer(fx.Tracer):
    """Sees the layers of a network that was trained here as the layers that they stand for."""

    proxy_buffer_attributes = True  # what a network computes from its buffers is computed anew each time

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return isinstance(m, EasedConv | ViewNorm) or super().is_leaf_module(m, module_qualified_name)


def _traced(model: nn.Module) -> Folded:
    tracer = Tracer()
    graph = tracer.trace(model, _defaults(model))
    for node in graph.nodes:
        node.type = None  # annotations are ours, not the tracer's
        if node.op == "call_method" and node.target == "view":
            node.target = "reshape"  # a view may not be had of images whose channels come last
    net = Folded(tracer.root, graph)
    net._norms_of = {}
    return net


def _defaults(model: nn.Module) -> dict[str, Any]:
    """What the network takes besides images, as it is when nobody says otherwise."""
    others = list(signature(type(model).forward).parameters.values())[2:]
    return {other.name: other.default for other in others if other.default is not Parameter.empty}
