"""GAMA on TRADES' public MNIST network, against figures measured elsewhere."""

import pytest

import gamagat
from gamagat.engine.results import Evaluation

pytestmark = pytest.mark.data

EARLIER = 91.4  # GAMA-PGD as published on the first 500 test images, single precision, another implementation


@pytest.fixture(scope="module")
def run(shared):
    model = gamagat.load_model("small-cnn", shared / "models" / "trades_mnist_smallcnn.pt")

    def run(count: int, *attacks: str) -> Evaluation:
        data = gamagat.load_data("mnist", data_dir=shared / "data").head(count)
        return gamagat.evaluate(model, data, attacks)

    return run


def test_clean_accuracy_on_the_whole_test_set(run):
    result = run(10_000, "fgsm")
    assert result.clean.percent == 99.48
    assert result.eps == 0.3
    assert result.standing.percent > 90


def test_one_run_as_published_leaves_what_it_left_elsewhere(run):
    published, default = run(500, "gama-pgd:as_published=true", "gama-pgd").attacks
    assert abs(published.standing.percent - EARLIER) <= 0.6
    assert default.standing.percent <= published.standing.percent + 0.2
    assert default.backwards < published.backwards
