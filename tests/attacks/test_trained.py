"""GAMA on a normally trained network, as it is and with its logits blown up fiftyfold."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import gamagat
from gamagat.models.core import build_model


@pytest.fixture(scope="module")
def trained() -> nn.Module:
    """A small network trained on the digits without any adversary."""
    data = gamagat.load_data("digits", "train")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = build_model("digits-cnn").train()
        optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
        for _ in range(12):
            for chosen in torch.split(torch.randperm(len(data)), 64):
                images, labels = data.batch(chosen)
                optimizer.zero_grad()
                F.cross_entropy(model(images), labels).backward()
                optimizer.step()
    return model.eval()


@pytest.mark.parametrize("scale", [1.0, 50.0])
def test_gama_leaves_nothing_standing(trained, scale):
    def blown_up(images: Tensor) -> Tensor:
        return scale * trained(images)

    data = gamagat.load_data("digits")
    images, labels = data.batch(torch.arange(len(data)))
    right = trained(images).argmax(1) == labels
    assert right.float().mean() > 0.95
    adversarial = gamagat.attack("gama-pgd", blown_up, eps=0.3)(images[right], labels[right])
    assert not (trained(adversarial).argmax(1) == labels[right]).any()
