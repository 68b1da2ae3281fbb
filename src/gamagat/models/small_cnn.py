"""The MNIST network of TRADES, for 28 px images."""

from collections import OrderedDict

from torch import nn

from gamagat.models.core import MODELS
from gamagat.pieces.types import Images, Scores


def _named(**layers: nn.Module) -> nn.Sequential:
    return nn.Sequential(OrderedDict(layers))


class SmallCnn(nn.Module):
    """Four unpadded 3x3 convolutions in two pairs and three linear layers; the last one starts at zero."""

    def __init__(self, classes: int, channels: int) -> None:
        super().__init__()
        self.feature_extractor = _named(
            conv1=nn.Conv2d(channels, 32, 3), relu1=nn.ReLU(),
            conv2=nn.Conv2d(32, 32, 3), relu2=nn.ReLU(), maxpool1=nn.MaxPool2d(2),
            conv3=nn.Conv2d(32, 64, 3), relu3=nn.ReLU(),
            conv4=nn.Conv2d(64, 64, 3), relu4=nn.ReLU(), maxpool2=nn.MaxPool2d(2),
        )  # fmt: skip
        last = nn.Linear(200, classes)
        self.classifier = _named(
            fc1=nn.Linear(64 * 4 * 4, 200), relu1=nn.ReLU(), drop=nn.Dropout(0.5),
            fc2=nn.Linear(200, 200), relu2=nn.ReLU(),
            fc3=last,
        )  # fmt: skip
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)

    def forward(self, x: Images) -> Scores:
        scores: Scores = self.classifier(self.feature_extractor(x).flatten(1))
        return scores


@MODELS.register("small-cnn")
def small_cnn(classes: int = 10, channels: int = 1) -> nn.Module:
    """SmallCNN, the network of TRADES' public MNIST checkpoint."""
    return SmallCnn(classes, channels)
