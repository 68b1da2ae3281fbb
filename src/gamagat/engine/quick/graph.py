"""Looking around in the graph of a network, and changing it."""

from __future__ import annotations

import operator
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import fx, nn

RELU = (F.relu, torch.relu, F.relu_, torch.relu_)
SUM = (operator.add, operator.iadd, torch.add)


def module_at(net: fx.GraphModule, node: fx.Node) -> nn.Module | None:
    """The module that is called here; None also for one with hooks: nobody knows what they do."""
    module = net.get_submodule(str(node.target)) if node.op == "call_module" else None
    return None if module is None or _hooked(module) else module


def _hooked(module: nn.Module) -> bool:
    before, behind = module._forward_pre_hooks, module._forward_hooks
    return bool(before or behind or module._backward_pre_hooks or module._backward_hooks)


def is_relu(net: fx.GraphModule, node: fx.Node) -> bool:
    """Whether a ReLU is called here, in one of the ways in which one can."""
    method = node.op == "call_method" and node.target in ("relu", "relu_")
    function = node.op == "call_function" and node.target in RELU
    return method or function or isinstance(module_at(net, node), nn.ReLU)


def summands(node: fx.Node) -> tuple[fx.Node, fx.Node] | None:
    """The two tensors that are added here, if that is what happens."""
    method = node.op == "call_method" and node.target in ("add", "add_")
    function = node.op == "call_function" and node.target in SUM
    if not (method or function) or node.kwargs or len(node.args) != 2:
        return None
    first, second = node.args
    if not (isinstance(first, fx.Node) and isinstance(second, fx.Node)):
        return None
    written = node.target in (operator.iadd, "add_")  # what others see of the first one, too
    return None if written and len(first.users) > 1 else (first, second)


def only_input(net: fx.GraphModule, node: fx.Node, kind: type[nn.Module]) -> fx.Node | None:
    """The module of this kind whose output goes into the node and nowhere else; used in no other place."""
    before = node.args[0] if node.args else None
    return before if isinstance(before, fx.Node) and is_own(net, before, kind) else None


def is_own(net: fx.GraphModule, node: fx.Node, kind: type[nn.Module]) -> bool:
    """Whether this is a module of this kind, used once, whose output is used once."""
    return isinstance(module_at(net, node), kind) and len(node.users) == 1 and _used_once(net, node)


def _used_once(net: fx.GraphModule, node: fx.Node) -> bool:
    """Whether the module is called here and nowhere else, nor its weights are taken by themselves."""
    return sum(f"{other.target}.".startswith(f"{node.target}.") for other in net.graph.nodes) == 1


def bypass(net: fx.GraphModule, node: fx.Node, before: fx.Node, module: nn.Module) -> None:
    """Let the module stand for `before` and `node` together."""
    put(net, str(before.target), module)
    node.replace_all_uses_with(before)
    net.graph.erase_node(node)


def put(net: fx.GraphModule, name: str, module: nn.Module) -> None:
    """Let the module stand where another was."""
    parent, _, leaf = name.rpartition(".")
    setattr(net.get_submodule(parent), leaf, module.eval())


def replaced(
    net: fx.GraphModule, fits: Callable[[nn.Conv2d], bool], make: Callable[[nn.Conv2d], nn.Module]
) -> None:
    """Let others stand for the convolutions that fit, and whose weights nobody takes by themselves."""
    taken = {str(node.target).rpartition(".")[0] for node in net.graph.nodes if node.op == "get_attr"}
    for node in list(net.graph.nodes):
        conv = module_at(net, node)
        if isinstance(conv, nn.Conv2d) and fits(conv) and str(node.target) not in taken:
            put(net, str(node.target), make(conv))
