import pytest
import torch
from torch import Tensor, nn

import gamagat
from gamagat.data.core import Dataset
from gamagat.engine.doctor import examine
from gamagat.engine.plan import read_threat

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def digits() -> Dataset:
    return gamagat.load_data("digits")


@pytest.fixture
def healthy() -> nn.Module:
    return gamagat.load_model("digits-cnn")


@pytest.mark.parametrize("quick", [True, False])
def test_nothing_is_found_in_the_bundled_network(healthy, digits, quick):
    threat = read_threat("linf", None, dict(digits.eps))
    assert examine(healthy, digits, device=CPU, threat=threat, attacks=["autoattack"], quick=quick) == []


@pytest.mark.data
@pytest.mark.parametrize("quick", [True, False])
def test_nothing_is_found_in_the_public_mnist_network(shared, quick):
    model = gamagat.load_model("small-cnn", shared / "models" / "trades_mnist_smallcnn.pt")
    data = gamagat.load_data("mnist", data_dir=shared / "data")
    threat = read_threat("linf", None, dict(data.eps))
    assert examine(model, data, device=CPU, threat=threat, attacks=["apgd-t"], quick=quick) == []


@pytest.mark.parametrize("quick", [True, False])
def test_nothing_is_found_in_a_healthy_program(healthy, digits, tmp_path, quick):
    images, _ = digits.batch(torch.arange(2))
    program = torch.export.export(healthy, (images,), dynamic_shapes=({0: torch.export.Dim("batch")},))
    torch.export.save(program, tmp_path / "net.pt2")
    assert examine(gamagat.load_model(str(tmp_path / "net.pt2")), digits, device=CPU, quick=quick) == []


def test_a_plain_function_and_a_single_image_are_enough(healthy, digits):
    assert examine(healthy.forward, digits.head(1), device=CPU) == []


def test_images_are_taken_from_everywhere_in_sorted_data(healthy, digits):
    by_class = digits.take(digits.labels.argsort())
    assert examine(healthy, by_class, device=CPU, quick=True) == []
    (finding,) = examine(lambda images: healthy(images).roll(1, 1), by_class, device=CPU, quick=True)
    assert finding.check == "label-order"


def test_what_stops_a_run_comes_first(healthy, digits):
    model = nn.Sequential(healthy, nn.Softmax(1)).train()
    threat = read_threat("linf", "0.031")
    findings = examine(model, digits, device=CPU, threat=threat, eps_given="0.031")
    assert [(finding.check, finding.stops) for finding in findings] == [
        ("probabilities", True),
        ("eps", False),
        ("train-mode", False),
    ]


class Tired(nn.Module):
    """Gives up after some calls."""

    def __init__(self, net: nn.Module, calls: int) -> None:
        super().__init__()
        self.net, self.left = net, calls

    def forward(self, images: Tensor) -> Tensor:
        self.left -= 1
        if self.left < 0:
            raise RuntimeError("too tired\nfor more")
        return self.net(images)


@pytest.mark.parametrize("calls", range(6))
def test_an_error_in_the_network_is_a_finding(healthy, digits, calls):
    findings = examine(Tired(healthy, calls).eval(), digits, device=CPU, quick=True)
    assert findings[0].stops
    assert all("RuntimeError: too tired" in finding.seen for finding in findings)


def test_images_that_cannot_be_read_are_a_finding(healthy, digits):
    def fail(_: Tensor) -> Tensor:
        raise OSError("disk gone")

    data = Dataset("broken", fail, digits.labels, digits.ids, digits.classes, digits.shape)
    (finding,) = examine(healthy, data, device=CPU)
    assert (finding.check, finding.severity) == ("data", "stop")
    assert "OSError: disk gone" in finding.seen


def test_a_network_for_other_images_is_a_finding(digits):
    (finding,) = examine(nn.Conv2d(3, 10, 8).eval(), digits, device=CPU)
    assert finding.check == "forward"
