"""Residual networks: for 32 px images as in TRADES, MART and GAT, and for 224 px images as in torchvision.

A checkpoint of GAT has exactly the names and shapes of the standard ResNet-18, yet another network behind
them: loaded into the wrong one of the two it answers worse. Files of ours say what they are
(`loading/origin.py`); of others know where they come from.
"""

from collections.abc import Sequence
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gamagat.models.core import MODELS
from gamagat.models.normalize import NORMALIZATIONS
from gamagat.models.residual import (
    BasicBlock,
    Bottleneck,
    FourStages,
    MakeBlock,
    RectifiedBlock,
    conv,
    pooled,
)
from gamagat.pieces.types import Images, Scores


class SmallResNet(FourStages):
    """The form for 32 px images: a 3x3 stem and no pooling before the stages."""

    def __init__(
        self, make: MakeBlock, depths: Sequence[int], classes: int, channels: int, width: int = 64
    ) -> None:
        super().__init__()
        self.conv1, self.bn1 = conv(channels, 64, 3), nn.BatchNorm2d(64)
        self.linear = nn.Linear(self.add_stages(make, depths, width), classes)

    def forward(self, x: Images) -> Scores:
        scores: Scores = self.linear(pooled(self.stages(F.relu(self.bn1(self.conv1(x))))))
        return scores


class ImageNetResNet(FourStages):
    """The form for 224 px images: a 7x7 stem with stride 2, and a max-pool."""

    def __init__(
        self, make: MakeBlock, depths: Sequence[int], classes: int, channels: int, width: int = 64
    ) -> None:
        super().__init__()
        self.conv1, self.bn1 = conv(channels, 64, 7, stride=2), nn.BatchNorm2d(64)
        self.fc = nn.Linear(self.add_stages(make, depths, width), classes)
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Images) -> Scores:
        stem = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, stride=2, padding=1)
        scores: Scores = self.fc(pooled(self.stages(stem)))
        return scores


class ClampedNormalizer(nn.Module):
    """Madry's input layer: clamps to [0, 1], then normalises with numbers that the checkpoint holds."""

    new_mean: Tensor
    new_std: Tensor

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        self.register_buffer("new_mean", torch.tensor(mean).view(-1, 1, 1))
        self.register_buffer("new_std", torch.tensor(std).view(-1, 1, 1))

    def forward(self, x: Images) -> Images:
        return (x.clamp(0, 1) - self.new_mean) / self.new_std


class MadryNet(nn.Module):
    """A network behind Madry's input layer, under the names of the `robustness` library."""

    def __init__(self, model: nn.Module, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        self.normalizer = ClampedNormalizer(mean, std)
        self.model = model

    def forward(self, x: Images) -> Scores:
        scores: Scores = self.model(self.normalizer(x))
        return scores


@MODELS.register("resnet18")
def resnet18(classes: int = 10, channels: int = 3) -> nn.Module:
    """ResNet-18 for 32 px, standard block (TRADES, MART); GAT's files fit by name but need resnet18-gat."""
    return SmallResNet(BasicBlock, (2, 2, 2, 2), classes, channels)


@MODELS.register("resnet18-gat")
def resnet18_gat(classes: int = 10, channels: int = 3) -> nn.Module:
    """ResNet-18 of GAT and NuAT: a ReLU before each addition; other files fit by name but need resnet18."""
    return SmallResNet(RectifiedBlock, (2, 2, 2, 2), classes, channels)


@MODELS.register("resnet50")
def resnet50(classes: int = 10, channels: int = 3) -> nn.Module:
    """ResNet-50 for 32 px, without normalisation."""
    return SmallResNet(Bottleneck, (3, 4, 6, 3), classes, channels, width=256)


@MODELS.register("resnet50-madry")
def resnet50_madry(classes: int = 10) -> nn.Module:
    """ResNet-50 for CIFAR-10 as MadryLab publishes it: clamps and normalises its input itself."""
    mean, std = NORMALIZATIONS["cifar10-madry"]
    return MadryNet(resnet50(classes), mean, std)


@MODELS.register("resnet18-imagenet")
def resnet18_imagenet(classes: int = 100, channels: int = 3) -> nn.Module:
    """ResNet-18 for 224 px, torchvision's names (ImageNet-100); torchvision's weights: normalize=imagenet."""
    make = partial(BasicBlock, shortcut="downsample")
    return ImageNetResNet(make, (2, 2, 2, 2), classes, channels)


@MODELS.register("resnet50-imagenet")
def resnet50_imagenet(classes: int = 1000, channels: int = 3) -> nn.Module:
    """ResNet-50 for 224 px, torchvision's names; torchvision's and Madry's weights: normalize=imagenet."""
    make = partial(Bottleneck, shortcut="downsample")
    return ImageNetResNet(make, (3, 4, 6, 3), classes, channels, width=256)
