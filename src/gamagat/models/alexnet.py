"""AlexNet for 224 px images, with torchvision's layout and names."""

from torch import nn

from gamagat.models.core import MODELS
from gamagat.pieces.types import Images, Scores


def _features(channels: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels, 64, 11, stride=4, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2),
        nn.Conv2d(64, 192, 5, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2),
        nn.Conv2d(192, 384, 3, padding=1), nn.ReLU(),
        nn.Conv2d(384, 256, 3, padding=1), nn.ReLU(),
        nn.Conv2d(256, 256, 3, padding=1), nn.ReLU(), nn.MaxPool2d(3, 2),
    )  # fmt: skip


def _classifier(classes: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Dropout(0.5), nn.Linear(256 * 6 * 6, 4096), nn.ReLU(),
        nn.Dropout(0.5), nn.Linear(4096, 4096), nn.ReLU(),
        nn.Linear(4096, classes),
    )  # fmt: skip


class AlexNet(nn.Module):
    """Five convolutions, pooling to 6x6, three linear layers."""

    def __init__(self, classes: int, channels: int) -> None:
        super().__init__()
        self.features = _features(channels)
        self.avgpool = nn.AdaptiveAvgPool2d(6)
        self.classifier = _classifier(classes)

    def forward(self, x: Images) -> Scores:
        scores: Scores = self.classifier(self.avgpool(self.features(x)).flatten(1))
        return scores


@MODELS.register("alexnet")
def alexnet(classes: int = 100, channels: int = 3) -> nn.Module:
    """AlexNet for 224 px, the paper's source on ImageNet-100; torchvision's weights: normalize=imagenet."""
    return AlexNet(classes, channels)
