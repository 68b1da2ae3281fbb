"""ReLUs that are done together with the convolution, or the convolution and the sum, before them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from torch import fx, nn

from gamagat.engine.quick.graph import bypass, is_own, is_relu, module_at, only_input, put, summands


class Rectified(nn.Module):
    """A layer that ends in a ReLU, before which it may be given something to add."""


class Fusion(NamedTuple):
    """Which convolutions can be done with their ReLU, and what does both."""

    knows: Callable[[nn.Conv2d], bool]
    make: Callable[[nn.Conv2d], Rectified]

    def fits(self, module: nn.Module | None) -> bool:
        return isinstance(module, nn.Conv2d) and self.knows(module)

    def made(self, net: fx.GraphModule, node: fx.Node) -> Rectified:
        conv = module_at(net, node)
        assert isinstance(conv, nn.Conv2d)
        return self.make(conv)


def rectify(
    net: fx.GraphModule, knows: Callable[[nn.Conv2d], bool], make: Callable[[nn.Conv2d], Rectified]
) -> None:
    """Do this in the whole network, wherever the convolution is known."""
    for node in [node for node in net.graph.nodes if is_relu(net, node)]:
        _rectified(net, node, Fusion(knows, make))


def _rectified(net: fx.GraphModule, relu: fx.Node, fusion: Fusion) -> None:
    before = only_input(net, relu, nn.Conv2d)
    if before is not None and fusion.fits(module_at(net, before)):
        bypass(net, relu, before, fusion.made(net, before))
        return
    total = relu.args[0] if relu.args else None
    terms = summands(total) if isinstance(total, fx.Node) and len(total.users) == 1 else None
    if not isinstance(total, fx.Node) or terms is None:
        return
    if all(_is_positive(net, term) for term in terms):  # the ReLU changes neither values nor gradients
        relu.replace_all_uses_with(total)
        net.graph.erase_node(relu)
        return
    for conv, other in (terms, terms[::-1]):
        if conv is not other and is_own(net, conv, nn.Conv2d) and fusion.fits(module_at(net, conv)):
            _joined(net, relu, total, conv, other, fusion)
            return


def _joined(
    net: fx.GraphModule, relu: fx.Node, total: fx.Node, conv: fx.Node, other: fx.Node, fusion: Fusion
) -> None:
    """One node for the convolution, the sum and the ReLU, where the sum was: there both terms are known."""
    put(net, str(conv.target), fusion.made(net, conv))
    with net.graph.inserting_before(total):
        node = net.graph.call_module(str(conv.target), conv.args, {**conv.kwargs, "other": other})
    relu.replace_all_uses_with(node)
    for old in (relu, total, conv):
        net.graph.erase_node(old)


def _is_positive(net: fx.GraphModule, node: fx.Node) -> bool:
    """Whether this comes from ReLUs, which let no gradient pass at zero either."""
    terms = summands(node)
    if terms is not None:
        return all(_is_positive(net, term) for term in terms)
    return is_relu(net, node) or isinstance(module_at(net, node), Rectified)
