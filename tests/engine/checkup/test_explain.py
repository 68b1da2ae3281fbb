from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import gamagat
from gamagat.data.core import Dataset, from_tensors


def normalised_as_mnist(x: Tensor) -> Tensor:
    """Normalise; a network that blanks what it takes for impossible pixels cannot live with that."""
    x = (x - 0.1307) / 0.3081
    return torch.where((x >= 0) & (x <= 1), x, 0 * x)


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize(
    ("before", "check", "words"),
    [
        (lambda x: x / 255, "missing-normalisation", "255 * x"),
        (lambda x: (x + 1) / 2, "missing-normalisation", "normalize=half"),
        (normalised_as_mnist, "double-normalisation", "MNIST"),
        (lambda x: 1 - x, "inverted-images", "1 - x"),
        (lambda x: x.mT, "transposed-images", "x.mT"),
    ],
)
def test_images_that_the_network_was_not_trained_on_stop(findings, broken, before, check, words, quick):
    finding = next(iter(findings(broken(before=before), quick=quick).values()))
    assert (finding.check, finding.severity) == (check, "stop")
    assert words in finding.seen


@pytest.fixture(scope="module")
def public(shared: Path) -> tuple[nn.Module, Dataset]:
    """TRADES' network for MNIST, and MNIST."""
    model = gamagat.load_model("small-cnn", shared / "models" / "trades_mnist_smallcnn.pt")
    return model, gamagat.load_data("mnist", data_dir=shared / "data")


@pytest.mark.data
@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize(
    ("before", "check"),
    [
        (lambda x: (x - 0.5) / 0.5, "double-normalisation"),
        (lambda x: 0.5 * x + 0.5, "missing-normalisation"),
        (lambda x: x / 255, "missing-normalisation"),
    ],
)
def test_a_public_network_behind_the_wrong_normalisation_stops(findings, public, before, check, quick):
    model, data = public
    assert findings(lambda x: model(before(x)), data, quick=quick)[check].stops


def test_blue_before_red_is_found(found, broken, digits):
    # The digit is in the first channel, other digits in the rest, and the network looks at the last.
    raw = digits.read(torch.arange(len(digits)))
    images = torch.cat([raw, raw.flip(0), raw.roll(7, 0)], 1)
    data = from_tensors(images, name="colour", labels=digits.labels)
    assert found(broken(before=lambda x: x[:, 2:]), data)["channel-order"] == "stop"


def test_a_network_that_takes_a_transform_in_its_stride_is_not_accused(found, broken):
    assert found(broken(before=lambda x: 2 * x - 1)) == {}
