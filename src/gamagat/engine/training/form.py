"""The form in which a network trains fastest on a GPU: the same function, parameters and names."""

import torch.nn.functional as F
from torch import Tensor, nn

from gamagat.defenses.views import can_be_joined

EIGHT = 8  # channels that a tensor core takes at a time


class FilledConv(nn.Conv2d):
    """A convolution of few channels, such as colours, filled up with zeros to as many as the GPU likes."""

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self._conv_forward(_filled(x), _filled(self.weight), self.bias)
        return out


def _filled(values: Tensor) -> Tensor:
    return F.pad(values, (0, 0, 0, 0, 0, EIGHT - values.shape[1]))


def reformed(model: nn.Module) -> bool:
    """Change the layers in place; whether several views of a batch may go through as one."""
    for layer in model.modules():
        if type(layer) is nn.Conv2d and layer.in_channels < EIGHT and layer.groups == 1:
            layer.__class__ = FilledConv
    return can_be_joined(model)
