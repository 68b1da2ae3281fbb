"""A healthy network, its data, and ways to break them."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import gamagat
from gamagat.data.core import Dataset, from_tensors
from gamagat.engine.doctor import Finding, examine
from helpers import images_like

Change = Callable[[Tensor], Tensor]


def same(tensor: Tensor) -> Tensor:
    return tensor


class Around(nn.Module):
    """A network with something done to its images or its logits."""

    def __init__(self, net: nn.Module, after: Change, before: Change) -> None:
        super().__init__()
        self.net, self.after, self.before = net, after, before

    def forward(self, images: Tensor) -> Tensor:
        return self.after(self.net(self.before(images)))


@pytest.fixture(scope="session")
def digits() -> Dataset:
    return gamagat.load_data("digits")


@pytest.fixture(scope="session")
def healthy() -> nn.Module:
    return gamagat.load_model("digits-cnn")


@pytest.fixture
def broken(healthy: nn.Module) -> Callable[..., nn.Module]:
    """The healthy network, broken before or after."""
    return lambda after=same, before=same: Around(healthy, after, before).eval()


@pytest.fixture
def findings(digits: Dataset) -> Callable[..., dict[str, Finding]]:
    """What the doctor finds, by check."""

    def look(model: Callable[[Tensor], Tensor], data: Dataset = digits, **settings) -> dict[str, Finding]:
        found = examine(model, data, device=torch.device("cpu"), **settings)
        return {finding.check: finding for finding in found}

    return look


@pytest.fixture
def found(findings: Callable[..., dict[str, Finding]]) -> Callable[..., dict[str, str]]:
    """The same as check: severity."""
    return lambda *given, **settings: {
        check: finding.severity for check, finding in findings(*given, **settings).items()
    }


@pytest.fixture
def own_data() -> Callable[[nn.Module], Dataset]:
    """Random colour images with the labels that a network gives them."""

    def make(model: nn.Module) -> Dataset:
        images = images_like(40)
        with torch.no_grad():
            labels = model(images).argmax(1)
        return from_tensors(images, name="random", labels=labels, classes=map(str, range(5)))

    return make
