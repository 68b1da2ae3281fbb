"""VGG-11 for 32 px images."""

from torch import nn

from gamagat.models.core import MODELS
from gamagat.pieces.types import Images, Scores

_WIDTHS = (64, None, 128, None, 256, 256, None, 512, 512, None, 512, 512, None)  # None is a max-pool


def _features(channels: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for width in _WIDTHS:
        if width is None:
            layers.append(nn.MaxPool2d(2))
        else:
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
            channels = width
    return nn.Sequential(*layers)


class Vgg(nn.Module):
    """Convolutions with BN, five max-pools, one linear layer."""

    def __init__(self, classes: int, channels: int) -> None:
        super().__init__()
        self.features = _features(channels)
        self.classifier = nn.Linear(512, classes)

    def forward(self, x: Images) -> Scores:
        scores: Scores = self.classifier(self.features(x).flatten(1))
        return scores


@MODELS.register("vgg11")
def vgg11(classes: int = 10, channels: int = 3) -> nn.Module:
    """VGG-11 with BN for 32 px, the paper's black-box source on CIFAR-10."""
    return Vgg(classes, channels)
