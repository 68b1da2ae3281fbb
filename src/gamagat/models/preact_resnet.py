"""Pre-activation ResNet-18 for 32 px images, in its two public forms."""

from functools import partial

import torch.nn.functional as F
from torch import Tensor, nn

from gamagat.models.core import MODELS
from gamagat.models.normalize import Normalization, normalized
from gamagat.models.residual import FourStages, conv, pooled
from gamagat.pieces.types import Images, Scores


class PreActBlock(nn.Module):
    """BN and ReLU before each convolution; a projecting shortcut reads the raw or the activated input."""

    shortcut: nn.Sequential | None

    def __init__(self, incoming: int, outgoing: int, stride: int, raw: bool) -> None:
        super().__init__()
        self.bn1, self.conv1 = nn.BatchNorm2d(incoming), conv(incoming, outgoing, 3, stride)
        self.bn2, self.conv2 = nn.BatchNorm2d(outgoing), conv(outgoing, outgoing, 3)
        same = stride == 1 and incoming == outgoing
        self.shortcut = None if same else nn.Sequential(conv(incoming, outgoing, 1, stride))
        self._raw = raw

    def forward(self, x: Tensor) -> Tensor:
        active = F.relu(self.bn1(x))
        residual: Tensor = self.conv2(F.relu(self.bn2(self.conv1(active))))
        if self.shortcut is None:
            return residual + x
        projected: Tensor = self.shortcut(x if self._raw else active)
        return residual + projected


class PreActResNet(FourStages):
    """Four stages of two blocks; `final_bn` puts BN and ReLU before the pooling."""

    bn: nn.BatchNorm2d | None

    def __init__(self, classes: int, channels: int, raw: bool, final_bn: bool) -> None:
        super().__init__()
        self.conv1 = conv(channels, 64, 3)
        outgoing = self.add_stages(partial(PreActBlock, raw=raw), (2, 2, 2, 2))
        self.bn = nn.BatchNorm2d(outgoing) if final_bn else None
        self.linear = nn.Linear(outgoing, classes)

    def forward(self, x: Images) -> Scores:
        out = self.stages(self.conv1(x))
        if self.bn is not None:
            out = F.relu(self.bn(out))
        scores: Scores = self.linear(pooled(out))
        return scores


@MODELS.register("preact-resnet18")
def preact_resnet18(classes: int = 10, channels: int = 3, normalize: Normalization = "cifar10") -> nn.Module:
    """PreAct ResNet-18 of Rice and AWP: shortcut on the activated input, final BN; normalises by itself."""
    return normalized(PreActResNet(classes, channels, raw=False, final_bn=True), normalize, channels)


@MODELS.register("preact-resnet18-fbf")
def preact_resnet18_fbf(
    classes: int = 10, channels: int = 3, bn_before_fc: bool = False, normalize: Normalization = "cifar10"
) -> nn.Module:
    """PreAct ResNet-18 of Fast is Better than Free: shortcut on the raw input; normalises by itself.

    The public checkpoint has no BN before the classifier; later versions of its code do: bn_before_fc=true.
    """
    return normalized(PreActResNet(classes, channels, raw=True, final_bn=bn_before_fc), normalize, channels)
