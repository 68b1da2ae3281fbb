"""A small network for 8x8 grey digits."""

import torch.nn.functional as F
from torch import nn

from gamagat.models.core import MODELS
from gamagat.pieces.types import Images, Scores


class DigitsCnn(nn.Module):
    """Three padded 3x3 convolutions, one max-pool, two linear layers."""

    def __init__(self, classes: int, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.conv3 = nn.Conv2d(32, 32, 3, padding=1)
        self.fc1 = nn.Linear(32 * 4 * 4, 64)
        self.fc2 = nn.Linear(64, classes)

    def forward(self, x: Images) -> Scores:
        x = F.max_pool2d(F.relu(self.conv2(F.relu(self.conv1(x)))), 2)
        scores: Scores = self.fc2(F.relu(self.fc1(F.relu(self.conv3(x)).flatten(1))))
        return scores


@MODELS.register("digits-cnn")
def digits_cnn(classes: int = 10, channels: int = 1) -> nn.Module:
    """A small network for the 8x8 digits that come with scikit-learn."""
    return DigitsCnn(classes, channels)
