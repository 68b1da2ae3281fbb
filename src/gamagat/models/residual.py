"""Residual blocks, and the stages that every residual family stacks them in."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import torch.nn.functional as F
from torch import Tensor, nn

MakeBlock = Callable[[int, int, int], nn.Module]  # incoming channels, outgoing channels, stride


def conv(incoming: int, outgoing: int, size: int, stride: int = 1, bias: bool = False) -> nn.Conv2d:
    """A convolution that keeps the size of the image, but for its stride."""
    return nn.Conv2d(incoming, outgoing, size, stride, padding=size // 2, bias=bias)


def stage(make: MakeBlock, incoming: int, outgoing: int, depth: int, stride: int) -> nn.Sequential:
    """`depth` blocks, of which the first changes width and size."""
    first = make(incoming, outgoing, stride)
    return nn.Sequential(first, *(make(outgoing, outgoing, 1) for _ in range(depth - 1)))


def pooled(x: Tensor) -> Tensor:
    """The mean over all positions, for any image size."""
    return F.adaptive_avg_pool2d(x, 1).flatten(1)


class FourStages(nn.Module):
    """layer1 to layer4: each but the first halves the image, and each doubles the width."""

    layer1: nn.Sequential
    layer2: nn.Sequential
    layer3: nn.Sequential
    layer4: nn.Sequential

    def add_stages(self, make: MakeBlock, depths: Sequence[int], width: int = 64) -> int:
        """Make the stages, `width` channels out of the first; returns the channels out of the last."""
        incoming = 64
        for number, depth in enumerate(depths):
            outgoing = width * 2**number
            self.add_module(f"layer{number + 1}", stage(make, incoming, outgoing, depth, min(number, 1) + 1))
            incoming = outgoing
        return incoming

    def stages(self, x: Tensor) -> Tensor:
        """Through all four."""
        out: Tensor = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return out


class Block(nn.Module, ABC):
    """ReLU of residual plus shortcut; checkpoints of different origin name the shortcut differently."""

    _shortcut: str

    def add_shortcut(self, incoming: int, outgoing: int, stride: int, name: str) -> None:
        """A 1x1 convolution where the shapes differ, else the identity."""
        same = stride == 1 and incoming == outgoing
        layers = [] if same else [conv(incoming, outgoing, 1, stride), nn.BatchNorm2d(outgoing)]
        self.add_module(name, nn.Sequential(*layers))
        self._shortcut = name

    @abstractmethod
    def residual(self, x: Tensor) -> Tensor:
        """The branch that the shortcut is added to."""

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.residual(x) + self.get_submodule(self._shortcut)(x))


class TwoConvolutions(Block):
    """3x3 twice."""

    def __init__(self, incoming: int, outgoing: int, stride: int, shortcut: str = "shortcut") -> None:
        super().__init__()
        self.conv1, self.bn1 = conv(incoming, outgoing, 3, stride), nn.BatchNorm2d(outgoing)
        self.conv2, self.bn2 = conv(outgoing, outgoing, 3), nn.BatchNorm2d(outgoing)
        self.add_shortcut(incoming, outgoing, stride, shortcut)

    def branch(self, x: Tensor) -> Tensor:
        """Both convolutions."""
        out: Tensor = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return out


class BasicBlock(TwoConvolutions):
    """The standard block."""

    def residual(self, x: Tensor) -> Tensor:
        return self.branch(x)


class RectifiedBlock(TwoConvolutions):
    """The block of GAT's networks: one more ReLU, before the addition."""

    def residual(self, x: Tensor) -> Tensor:
        return F.relu(self.branch(x))


class Bottleneck(Block):
    """1x1, 3x3 and 1x1 convolutions at a quarter of the width; the 3x3 one carries the stride."""

    def __init__(self, incoming: int, outgoing: int, stride: int, shortcut: str = "shortcut") -> None:
        super().__init__()
        width = outgoing // 4
        self.conv1, self.bn1 = conv(incoming, width, 1), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = conv(width, width, 3, stride), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = conv(width, outgoing, 1), nn.BatchNorm2d(outgoing)
        self.add_shortcut(incoming, outgoing, stride, shortcut)

    def residual(self, x: Tensor) -> Tensor:
        out = F.relu(self.bn1(self.conv1(x)))
        out = F.relu(self.bn2(self.conv2(out)))
        closed: Tensor = self.bn3(self.conv3(out))
        return closed
