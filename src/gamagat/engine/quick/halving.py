"""A folded network in half precision, with as few passes over memory as a GPU can be asked for."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from gamagat.engine.easing import EasedConv, ease, is_plain
from gamagat.engine.quick.convolution import conv_relu, turned
from gamagat.engine.quick.graph import bypass, is_own, is_relu, module_at, only_input, put, summands


def halved(net: fx.GraphModule) -> fx.GraphModule:
    """The same network with its convolutions and all linear layers but the last in half precision."""
    last = _last_linear(net)
    for module in net.modules():
        if isinstance(module, nn.Conv2d | nn.Linear) and module is not last:
            module.half()
    ease(net)
    for node in [node for node in net.graph.nodes if is_relu(net, node)]:
        _rectified(net, node)
    if last is not None:
        put(net, _name_of(net, last), FullLinear(last))
    net.recompile()
    return net


def _rectified(net: fx.GraphModule, relu: fx.Node) -> None:
    """Do the ReLU together with the convolution, or the convolution and the sum, before it where one is."""
    before = only_input(net, relu, nn.Conv2d)
    if before is not None and _known(module_at(net, before)):
        bypass(net, relu, before, RectifiedConv(_conv(net, before)))
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
        if is_own(net, conv, nn.Conv2d) and _known(module_at(net, conv)):
            _joined(net, relu, total, conv, other)
            return


def _joined(net: fx.GraphModule, relu: fx.Node, total: fx.Node, conv: fx.Node, other: fx.Node) -> None:
    """One node for the convolution, the sum and the ReLU, where the sum was: there both terms are known."""
    put(net, str(conv.target), RectifiedConv(_conv(net, conv)))
    with net.graph.inserting_before(total):
        node = net.graph.call_module(str(conv.target), (*conv.args, other))
    relu.replace_all_uses_with(node)
    for old in (relu, total, conv):
        net.graph.erase_node(old)


def _is_positive(net: fx.GraphModule, node: fx.Node) -> bool:
    """Whether this comes from ReLUs, which let no gradient pass at zero either."""
    terms = summands(node)
    if terms is not None:
        return all(_is_positive(net, term) for term in terms)
    return is_relu(net, node) or isinstance(module_at(net, node), RectifiedConv)


def _known(module: nn.Module | None) -> bool:
    """Whether the fused operation knows this kind of convolution."""
    return isinstance(module, nn.Conv2d) and is_plain(module)


def _conv(net: fx.GraphModule, node: fx.Node) -> nn.Conv2d:
    conv = module_at(net, node)
    assert isinstance(conv, nn.Conv2d)
    return conv


class RectifiedConv(nn.Module):
    """A convolution, perhaps something added, and a ReLU in one pass over memory."""

    weight: Tensor
    turned: Tensor
    bias: Tensor

    def __init__(self, conv: nn.Conv2d) -> None:
        super().__init__()
        self.eased = conv if isinstance(conv, EasedConv) else None
        weight = conv.weight if self.eased is None else self.eased.matrix(conv.weight)[:, :, None, None]
        bias = weight.new_zeros(conv.out_channels) if conv.bias is None else conv.bias
        for name, value in {"weight": weight, "turned": turned(weight), "bias": bias}.items():
            self.register_buffer(name, value.detach().clone())
        self.stride = [1, 1] if self.eased else list(conv.stride)
        self.padding = [0, 0] if self.eased else [int(side) for side in conv.padding]
        for name in ("weight", "bias"):  # what is left of an eased one lays images out
            conv.register_parameter(name, None)

    @torch.no_grad()
    def take(self, weight: Tensor, bias: Tensor | None) -> None:
        """Go on with other weights."""
        weight = weight if self.eased is None else self.eased.matrix(weight)[:, :, None, None]
        self.weight.copy_(weight)
        self.turned.copy_(turned(weight))
        if bias is not None:
            self.bias.copy_(bias)

    def _shape(self, x: Tensor) -> list[int]:
        """Of what the convolution makes of an image: channels, height, width."""
        sides = zip(x.shape[2:], self.weight.shape[2:], self.padding, self.stride, strict=True)
        return [len(self.weight), *((side + 2 * more - kernel) // by + 1 for side, kernel, more, by in sides)]

    # `input` as torch has it: some call it by name.
    def forward(self, input: Tensor, other: Tensor | None = None) -> Tensor:
        input, other = input.to(self.weight.dtype), None if other is None else other.to(self.weight.dtype)
        if self.eased is not None:
            input = self.eased.laid_out(input).permute(0, 3, 1, 2)
        if other is not None and list(other.shape[1:]) != self._shape(input):  # it is added to many positions
            return torch.relu(F.conv2d(input, self.weight, self.bias, self.stride, self.padding) + other)
        out: Tensor = conv_relu(input, self.weight, self.turned, self.bias, self.stride, self.padding, other)
        return out


class FullLinear(nn.Module):
    """The layer that makes the logits, not in half precision: images fall by small differences of these.

    It is in double precision, which autocast leaves alone. To switch that off in here would do as well, but
    what has such a switch inside is compiled anew in every process.
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.linear = linear

    def forward(self, input: Tensor) -> Tensor:
        bias = self.linear.bias
        scores = F.linear(
            input.double(), self.linear.weight.double(), None if bias is None else bias.double()
        )
        return scores.float()


def _last_linear(net: fx.GraphModule) -> nn.Linear | None:
    """The linear layer whose output is the network's, if it ends in one."""
    (output,) = (node for node in net.graph.nodes if node.op == "output")
    last = output.args[0]
    module = module_at(net, last) if isinstance(last, fx.Node) else None
    return module if isinstance(module, nn.Linear) else None


def _name_of(net: fx.GraphModule, wanted: nn.Module) -> str:
    return next(str(name) for name, module in net.named_modules() if module is wanted)
