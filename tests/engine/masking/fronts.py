"""Layers around a network that hide its gradients, or spoil them."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Around(nn.Module):
    """One function before a network and one behind it."""

    def __init__(
        self,
        net: nn.Module,
        before: Callable[[Tensor], Tensor] = lambda x: x,
        after: Callable[[Tensor], Tensor] = lambda z: z,
    ) -> None:
        super().__init__()
        self.net, self.before, self.after = net, before, after

    def forward(self, images: Tensor) -> Tensor:
        return self.after(self.net(self.before(images)))


def rounded(net: nn.Module) -> nn.Module:
    """Five grey levels."""
    return Around(net, before=lambda x: (4 * x).round() / 4)


def decided(net: nn.Module) -> nn.Module:
    """Only the class that wins."""
    return Around(net, after=lambda z: 5 * F.one_hot(z.argmax(1), z.shape[1]).float())


def noisy_images(net: nn.Module) -> nn.Module:
    return Around(net, before=lambda x: x + 0.3 * torch.randn_like(x))


def noisy_logits(net: nn.Module) -> nn.Module:
    return Around(net, after=lambda z: z + 0.3 * torch.randn_like(z))


def inflated(net: nn.Module) -> nn.Module:
    return Around(net, after=lambda z: 1000 * z)


def in_numpy(net: nn.Module) -> nn.Module:
    """A defence that leaves torch on its way."""
    return Around(net, before=lambda x: torch.from_numpy(x.numpy().copy()))


def squashed(net: nn.Module) -> nn.Module:
    """Answers as before, in a range whose end most winners are near to."""
    return Around(net, after=lambda z: 10 * z.tanh())
