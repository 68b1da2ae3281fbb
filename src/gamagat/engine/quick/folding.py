"""Rewriting a copy of a network: batch norms into convolutions, ReLUs behind them."""

from __future__ import annotations

from copy import deepcopy
from inspect import Parameter, signature
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval
from torch.nn.utils.parametrize import is_parametrized

from gamagat.engine.quick.convolution import conv_relu

RELU = (F.relu, torch.relu, F.relu_, torch.relu_)


def folded(model: nn.Module) -> fx.GraphModule:
    """A copy in which every batch norm right behind a convolution is part of it.

    Python code inside the network runs once, now. Whoever uses the copy must check that it still does what
    the network does.
    """
    net = _traced(_settled(deepcopy(model).eval()))
    for node in list(net.graph.nodes):
        before = _only_input(net, node, nn.Conv2d)
        norm = _module(net, node)
        if before is not None and isinstance(norm, nn.BatchNorm2d) and norm.track_running_stats:
            conv = _module(net, before)
            assert isinstance(conv, nn.Conv2d)
            _bypass(net, node, before, fuse_conv_bn_eval(conv, norm))
    net.delete_all_unused_submodules()
    net.recompile()
    return net


def halved(net: fx.GraphModule) -> fx.GraphModule:
    """The same network with its convolutions and all linear layers but the last in half precision."""
    last = _last_linear(net)
    for module in net.modules():
        if isinstance(module, nn.Conv2d | nn.Linear) and module is not last:
            module.half()
    for node in list(net.graph.nodes):
        before = _only_input(net, node, nn.Conv2d) if _is_relu(net, node) else None
        conv = None if before is None else _module(net, before)
        if before is not None and isinstance(conv, nn.Conv2d) and _plain(conv):
            _bypass(net, node, before, RectifiedConv(conv))
    if last is not None:
        _put(net, _name_of(net, last), FullLinear(last))
    net.recompile()
    return net


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


def _traced(model: nn.Module) -> fx.GraphModule:
    tracer = fx.Tracer()
    graph = tracer.trace(model, _defaults(model))
    for node in graph.nodes:
        node.type = None  # annotations are ours, not the tracer's
        if node.op == "call_method" and node.target == "view":
            node.target = "reshape"  # a view may not be had of images whose channels come last
    return fx.GraphModule(tracer.root, graph)


def _defaults(model: nn.Module) -> dict[str, Any]:
    """What the network takes besides images, as it is when nobody says otherwise."""
    others = list(signature(type(model).forward).parameters.values())[2:]
    return {other.name: other.default for other in others if other.default is not Parameter.empty}


class RectifiedConv(nn.Module):
    """A convolution and the ReLU behind it in one pass over memory."""

    weight: Tensor
    bias: Tensor

    def __init__(self, conv: nn.Conv2d) -> None:
        super().__init__()
        self.stride, self.padding = list(conv.stride), _padding(conv)
        bias = conv.weight.new_zeros(conv.out_channels) if conv.bias is None else conv.bias.detach()
        self.register_buffer("bias", bias.clone())
        self.register_buffer("weight", conv.weight.detach())

    def forward(self, input: Tensor) -> Tensor:  # as in torch: some call it by name
        out: Tensor = conv_relu(
            input.to(self.weight.dtype), self.weight, self.bias, self.stride, self.padding
        )
        return out


class FullLinear(nn.Module):
    """The layer that makes the logits, in single precision: images fall by small differences of these."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.linear = linear

    def forward(self, input: Tensor) -> Tensor:
        with torch.autocast(input.device.type, enabled=False):
            scores: Tensor = self.linear(input.float())
        return scores


def _padding(conv: nn.Conv2d) -> list[int]:
    return [int(side) for side in conv.padding]  # `_plain` has seen that they are numbers


def _plain(conv: nn.Conv2d) -> bool:
    """Whether the fused operation knows this kind of convolution."""
    zeros = conv.padding_mode == "zeros" and not isinstance(conv.padding, str)
    return zeros and conv.groups == 1 and tuple(conv.dilation) == (1, 1)


def _module(net: fx.GraphModule, node: fx.Node) -> nn.Module | None:
    """The module that is called here; None also for one with hooks: nobody knows what they do."""
    module = net.get_submodule(str(node.target)) if node.op == "call_module" else None
    return None if module is None or _hooked(module) else module


def _hooked(module: nn.Module) -> bool:
    before, behind = module._forward_pre_hooks, module._forward_hooks
    return bool(before or behind or module._backward_pre_hooks or module._backward_hooks)


def _is_relu(net: fx.GraphModule, node: fx.Node) -> bool:
    method = node.op == "call_method" and node.target in ("relu", "relu_")
    function = node.op == "call_function" and node.target in RELU
    return method or function or isinstance(_module(net, node), nn.ReLU)


def _only_input(net: fx.GraphModule, node: fx.Node, kind: type[nn.Module]) -> fx.Node | None:
    """The module of this kind whose output goes into the node and nowhere else; used in no other place."""
    before = node.args[0] if node.args else None
    if not isinstance(before, fx.Node) or not isinstance(_module(net, before), kind):
        return None
    return before if len(before.users) == 1 and _used_once(net, before) else None


def _used_once(net: fx.GraphModule, node: fx.Node) -> bool:
    """Whether the module is called here and nowhere else, nor its weights are taken by themselves."""
    return sum(f"{other.target}.".startswith(f"{node.target}.") for other in net.graph.nodes) == 1


def _bypass(net: fx.GraphModule, node: fx.Node, before: fx.Node, module: nn.Module) -> None:
    """Let the module stand for `before` and `node` together."""
    _put(net, str(before.target), module)
    node.replace_all_uses_with(before)
    net.graph.erase_node(node)


def _put(net: fx.GraphModule, name: str, module: nn.Module) -> None:
    parent, _, leaf = name.rpartition(".")
    setattr(net.get_submodule(parent), leaf, module.eval())


def _last_linear(net: fx.GraphModule) -> nn.Linear | None:
    """The linear layer whose output is the network's, if it ends in one."""
    (output,) = (node for node in net.graph.nodes if node.op == "output")
    last = output.args[0]
    module = _module(net, last) if isinstance(last, fx.Node) else None
    return module if isinstance(module, nn.Linear) else None


def _name_of(net: fx.GraphModule, wanted: nn.Module) -> str:
    return next(str(name) for name, module in net.named_modules() if module is wanted)
