"""The two MNIST networks of the paper, for 28 px images."""

import torch.nn.functional as F
from torch import nn

from gamagat.models.core import MODELS
from gamagat.pieces.types import Images, Scores


class MLeNet(nn.Module):
    """Four 5x5 convolutions in two pairs, each followed by a max-pool, and two linear layers."""

    def __init__(self, classes: int, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 32, 5, padding=2)
        self.conv11 = nn.Conv2d(32, 32, 5, padding=2)
        self.conv2 = nn.Conv2d(32, 64, 5, padding=2)
        self.conv21 = nn.Conv2d(64, 64, 5, padding=2)
        self.fc1 = nn.Linear(64 * 7 * 7, 512)
        self.fc2 = nn.Linear(512, classes)

    def forward(self, x: Images) -> Scores:
        x = F.max_pool2d(F.relu(self.conv11(F.relu(self.conv1(x)))), 2)
        x = F.max_pool2d(F.relu(self.conv21(F.relu(self.conv2(x)))), 2)
        scores: Scores = self.fc2(F.relu(self.fc1(x.flatten(1))))
        return scores


class BlackBoxMnist(nn.Module):
    """Two unpadded 5x5 convolutions and two linear layers, with dropout."""

    def __init__(self, classes: int, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 64, 5)
        self.conv2 = nn.Conv2d(64, 64, 5)
        self.fc1 = nn.Linear(64 * 20 * 20, 128)
        self.fc2 = nn.Linear(128, classes)

    def forward(self, x: Images) -> Scores:
        features = F.relu(self.conv2(F.relu(self.conv1(x)))).flatten(1)
        hidden = F.relu(self.fc1(F.dropout(features, 0.25, self.training)))
        scores: Scores = self.fc2(F.dropout(hidden, 0.5, self.training))
        return scores


@MODELS.register("m-lenet")
def m_lenet(classes: int = 10, channels: int = 1) -> nn.Module:
    """M-LeNet, the paper's network for MNIST."""
    return MLeNet(classes, channels)


@MODELS.register("bb-mnist")
def bb_mnist(classes: int = 10, channels: int = 1) -> nn.Module:
    """The paper's black-box source on MNIST (model A of Tramer et al.)."""
    return BlackBoxMnist(classes, channels)
