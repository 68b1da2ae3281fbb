"""A folded network in half precision, with as few passes over memory as a GPU can be asked for."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from gamagat.engine.easing import EasedConv, ease, is_plain
from gamagat.engine.quick.convolution import conv_relu, turned
from gamagat.engine.quick.graph import module_at, put
from gamagat.engine.quick.rectifying import Rectified, rectify


def halved(net: fx.GraphModule) -> fx.GraphModule:
    """The same network with its convolutions and all linear layers but the last in half precision."""
    last = _last_linear(net)
    for module in net.modules():
        if isinstance(module, nn.Conv2d | nn.Linear) and module is not last:
            module.half()
    ease(net)
    rectify(net, is_plain, RectifiedConv)  # what the fused operation knows
    if last is not None:
        put(net, _name_of(net, last), FullLinear(last))
    net.recompile()
    return net


class RectifiedConv(Rectified):
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
