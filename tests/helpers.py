"""Small networks and images that tests build on."""

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

ROOT = Path(__file__).resolve().parent.parent


def seeded(build: Callable[[], nn.Module], seed: int = 0) -> nn.Module:
    """A network with the same random weights every time; the global random state stays as it was."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return build().eval()


def tiny_network(classes: int = 5, channels: int = 3) -> nn.Module:
    """A network with a bend in it, for 8 x 8 images."""
    return nn.Sequential(
        nn.Conv2d(channels, 6, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(6 * 64, classes)
    )


def images_like(count: int, channels: int = 3, seed: int = 1) -> Tensor:
    """Random images, 8 x 8."""
    return torch.rand(count, channels, 8, 8, generator=torch.Generator().manual_seed(seed))
