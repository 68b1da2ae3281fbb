"""What every test may use."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

ROOT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("GAMAGAT_SHARED", ROOT.parent / "shared"))


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real data and public weights; tests that need it skip where it is absent."""
    if not SHARED.is_dir():
        pytest.skip("no folder of real data: set GAMAGAT_SHARED to it")
    return SHARED


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


@pytest.fixture
def small_model() -> nn.Module:
    return seeded(tiny_network)


@pytest.fixture
def batch(small_model: nn.Module) -> tuple[Tensor, Tensor]:
    """Twelve images that the small network classifies correctly, by definition."""
    images = images_like(12)
    with torch.no_grad():
        return images, small_model(images).argmax(1)
