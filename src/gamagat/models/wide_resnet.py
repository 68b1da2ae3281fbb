"""Wide residual networks for 32 px images, in two families whose checkpoints do not mix."""

from functools import partial

import torch.nn.functional as F
from torch import Tensor, nn

from gamagat.errors import ConfigError
from gamagat.models.core import MODELS
from gamagat.models.residual import MakeBlock, conv, pooled, stage
from gamagat.pieces.types import Images, Scores

DEEPEST = 1_000
LARGEST = 100_000  # depth x width x width; about 5 GB of weights


def _blocks(depth: int) -> int:
    """How many blocks each of the three stages has."""
    if depth < 10 or (depth - 4) % 6:
        raise ConfigError(f"the depth of a WideResNet must be 6n + 4 (10, 16, 28, 34, ...), got {depth}")
    if depth > DEEPEST:
        raise ConfigError(f"the depth of a WideResNet must be at most {DEEPEST:,}, got {depth:,}")
    return (depth - 4) // 6


def _dropout(share: float) -> nn.Dropout:
    if not 0 <= share <= 1:
        raise ConfigError(f"the dropout of a WideResNet must lie between 0 and 1, got {share}")
    return nn.Dropout(share)


class Group(nn.Module):
    """One stage, one name deeper than elsewhere."""

    def __init__(self, layer: nn.Sequential) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layer(x)
        return out


class TradesBlock(nn.Module):
    """Where the width changes, the activated input feeds both branches; elsewhere only the residual one."""

    convShortcut: nn.Conv2d | None  # noqa: N815 - the name in public checkpoints

    def __init__(self, incoming: int, outgoing: int, stride: int, dropout: float) -> None:
        super().__init__()
        self.bn1, self.conv1 = nn.BatchNorm2d(incoming), conv(incoming, outgoing, 3, stride)
        self.bn2, self.conv2 = nn.BatchNorm2d(outgoing), conv(outgoing, outgoing, 3)
        self.convShortcut = None if incoming == outgoing else conv(incoming, outgoing, 1, stride)
        self.dropout = _dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        active = F.relu(self.bn1(x))
        shortcut = x if self.convShortcut is None else self.convShortcut(active)
        residual: Tensor = self.conv2(self.dropout(F.relu(self.bn2(self.conv1(active)))))
        return residual + shortcut


class GatBlock(nn.Module):
    """Convolutions with bias; the second one carries the stride; the shortcut reads the raw input."""

    def __init__(self, incoming: int, outgoing: int, stride: int, dropout: float) -> None:
        super().__init__()
        self.bn1, self.conv1 = nn.BatchNorm2d(incoming), conv(incoming, outgoing, 3, bias=True)
        self.dropout = _dropout(dropout)
        self.bn2, self.conv2 = nn.BatchNorm2d(outgoing), conv(outgoing, outgoing, 3, stride, bias=True)
        same = stride == 1 and incoming == outgoing
        self.shortcut = nn.Sequential(*([] if same else [conv(incoming, outgoing, 1, stride, bias=True)]))

    def forward(self, x: Tensor) -> Tensor:
        inner = self.dropout(self.conv1(F.relu(self.bn1(x))))
        residual: Tensor = self.conv2(F.relu(self.bn2(inner)))
        shortcut: Tensor = self.shortcut(x)
        return residual + shortcut


def _stages(make: MakeBlock, depth: int, width: int) -> list[nn.Sequential]:
    """The three stages, of 16, 32 and 64 channels times the width."""
    count = _blocks(depth)
    if depth * width**2 > LARGEST:
        raise ConfigError(
            f"a WideResNet of depth {depth} and width {width:,} is too large: "
            f"depth x width x width must be at most {LARGEST:,}"
        )
    sizes = (16, 16 * width, 32 * width, 64 * width)
    return [stage(make, sizes[n], sizes[n + 1], count, stride) for n, stride in enumerate((1, 2, 2))]


class TradesWideResNet(nn.Module):
    """Names conv1, block1 to block3, bn1, fc."""

    def __init__(self, depth: int, width: int, classes: int, channels: int, dropout: float) -> None:
        super().__init__()
        self.conv1 = conv(channels, 16, 3)
        stages = _stages(partial(TradesBlock, dropout=dropout), depth, width)
        self.block1, self.block2, self.block3 = map(Group, stages)
        self.bn1 = nn.BatchNorm2d(64 * width)
        self.fc = nn.Linear(64 * width, classes)
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
        nn.init.zeros_(self.fc.bias)

    def forward(self, x: Images) -> Scores:
        out = self.block3(self.block2(self.block1(self.conv1(x))))
        scores: Scores = self.fc(pooled(F.relu(self.bn1(out))))
        return scores


class GatWideResNet(nn.Module):
    """Names conv1, layer1 to layer3, bn1, linear."""

    def __init__(self, depth: int, width: int, classes: int, channels: int, dropout: float) -> None:
        super().__init__()
        self.conv1 = conv(channels, 16, 3, bias=True)
        self.layer1, self.layer2, self.layer3 = _stages(partial(GatBlock, dropout=dropout), depth, width)
        self.bn1 = nn.BatchNorm2d(64 * width, momentum=0.9)
        self.linear = nn.Linear(64 * width, classes)

    def forward(self, x: Images) -> Scores:
        out = self.layer3(self.layer2(self.layer1(self.conv1(x))))
        scores: Scores = self.linear(pooled(F.relu(self.bn1(out))))
        return scores


@MODELS.register("wrn")
def wrn(
    depth: int = 34, width: int = 10, classes: int = 10, channels: int = 3, dropout: float = 0.0
) -> nn.Module:
    """WideResNet of any depth and width, TRADES family."""
    return TradesWideResNet(depth, width, classes, channels, dropout)


@MODELS.register("wrn-28-10")
def wrn_28_10(classes: int = 10, channels: int = 3) -> nn.Module:
    """WideResNet-28-10, TRADES family (RST, HYDRA, MART); Hendrycks' weights: normalize=half."""
    return wrn(28, 10, classes, channels)


@MODELS.register("wrn-34-10")
def wrn_34_10(classes: int = 10, channels: int = 3) -> nn.Module:
    """WideResNet-34-10, TRADES family."""
    return wrn(34, 10, classes, channels)


@MODELS.register("wrn-34-20")
def wrn_34_20(classes: int = 10, channels: int = 3) -> nn.Module:
    """WideResNet-34-20, TRADES family; Rice's weights: normalize=cifar10."""
    return wrn(34, 20, classes, channels)


@MODELS.register("wrn-gat")
def wrn_gat(
    depth: int = 34, width: int = 10, classes: int = 10, channels: int = 3, dropout: float = 0.0
) -> nn.Module:
    """WideResNet of any depth and width, GAT and NuAT family (convolutions with bias)."""
    return GatWideResNet(depth, width, classes, channels, dropout)


@MODELS.register("wrn-28-10-gat")
def wrn_28_10_gat(classes: int = 10, channels: int = 3) -> nn.Module:
    """WideResNet-28-10, GAT and NuAT family."""
    return wrn_gat(28, 10, classes, channels)


@MODELS.register("wrn-34-10-gat")
def wrn_34_10_gat(classes: int = 10, channels: int = 3) -> nn.Module:
    """WideResNet-34-10, GAT and NuAT family."""
    return wrn_gat(34, 10, classes, channels)


@MODELS.register("wrn-34-20-gat")
def wrn_34_20_gat(classes: int = 10, channels: int = 3) -> nn.Module:
    """WideResNet-34-20, GAT and NuAT family."""
    return wrn_gat(34, 20, classes, channels)
