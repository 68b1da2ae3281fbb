"""The one public checkpoint at hand reaches the accuracy that its authors state."""

import gzip
from pathlib import Path

import pytest
import torch
from torch import Tensor

from gamagat.models.core import load_model

pytestmark = pytest.mark.data


def idx(file: Path) -> Tensor:
    """An idx file of bytes: a header with the number of dimensions, the sizes, then the bytes."""
    content = gzip.decompress(file.read_bytes())
    sizes = [int.from_bytes(content[4 * n + 4 : 4 * n + 8], "big") for n in range(content[3])]
    return torch.tensor(bytearray(content[4 * len(sizes) + 4 :])).view(sizes)


def test_trades_small_cnn_reaches_its_clean_accuracy(shared: Path) -> None:
    net = load_model("small-cnn", shared / "models/trades_mnist_smallcnn.pt", classes=10, channels=1)
    images = idx(shared / "data/mnist/t10k-images-idx3-ubyte.gz")[:, None].float() / 255
    labels = idx(shared / "data/mnist/t10k-labels-idx1-ubyte.gz")
    with torch.no_grad():
        answers = torch.cat([net(batch).argmax(1) for batch in torch.split(images, 500)])
    assert int((answers == labels).sum()) == 9948
