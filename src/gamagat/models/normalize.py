"""Input normalisation as a layer, so that attacks always see pixels in [0, 1]."""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from gamagat.errors import ConfigError, unknown
from gamagat.pieces.types import Images, Scores

Normalization = Literal["none", "cifar10", "cifar10-madry", "imagenet", "half"]

_CIFAR10_MEAN = (0.4914, 0.4822, 0.4465)
NORMALIZATIONS: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "cifar10": (_CIFAR10_MEAN, (0.2471, 0.2435, 0.2616)),
    "cifar10-madry": (_CIFAR10_MEAN, (0.2023, 0.1994, 0.2010)),
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "half": ((0.5,), (0.5,)),
}


class Normalize(nn.Module):
    """(x - mean) / std for each channel; one number serves every channel.

    The numbers are not saved with the weights: public checkpoints keep their names.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        if len(mean) != len(std) or not mean or min(std) <= 0:
            raise ConfigError(f"mean and std need one number a channel and std > 0, got {mean} and {std}")
        self.numbers = (tuple(mean), tuple(std))  # known also where there is no memory for tensors
        self.register_buffer("mean", torch.tensor(mean).view(-1, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(std).view(-1, 1, 1), persistent=False)

    def forward(self, x: Images) -> Images:
        return (x - self.mean) / self.std

    def extra_repr(self) -> str:
        return f"mean={self.mean.flatten().tolist()}, std={self.std.flatten().tolist()}"


class Normalized(nn.Module):
    """A network that is handed normalised images; weights go into `net`, under the names they have there."""

    def __init__(self, net: nn.Module, normalize: Normalize) -> None:
        super().__init__()
        self.normalize = normalize
        self.net = net

    def forward(self, x: Images) -> Scores:
        scores: Scores = self.net(self.normalize(x))
        return scores


def normalized(net: nn.Module, name: str, channels: int = 3) -> nn.Module:
    """The network behind the normalisation of that name; `none` gives the network itself."""
    if name == "none":
        return net
    if name not in NORMALIZATIONS:
        raise unknown("normalisation", name, [*NORMALIZATIONS, "none"])
    mean, std = NORMALIZATIONS[name]
    if len(mean) not in (1, channels):
        raise ConfigError(
            f"normalisation {name!r} is for images of {len(mean)} channels, the network takes {channels}; "
            "use normalize=half or normalize=none"
        )
    return Normalized(net, Normalize(mean, std))
