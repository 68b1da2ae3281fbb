import pytest
import torch
from torch import Tensor

from gamagat.engine.judge import in_pieces, judge, predict
from gamagat.pieces.threat import LINF, ThreatModel
from gamagat.pieces.types import Images, Scores

THREAT = ThreatModel(LINF, 0.1)
X = torch.full((1, 1, 2, 2), 0.5)
Y = torch.tensor([0])


def fooled_model(images: Tensor) -> Tensor:
    """Always class 1."""
    return torch.tensor([[0.0, 1.0]]).expand(len(images), 2)


def verdict(images: Tensor) -> bool:
    return bool(judge(fooled_model, images, X, Y, THREAT).fooled)


def test_a_wrong_class_inside_the_ball_is_fooled():
    assert verdict(X + 0.1)


def test_nothing_outside_the_ball_or_the_pixels_counts():
    assert not verdict(X + 0.11)
    assert not verdict(X.clone().fill_(float("nan")))
    assert not bool(judge(fooled_model, X * 0 - 0.01, X * 0, Y, THREAT).fooled)


def test_the_right_class_is_not_fooled():
    assert not bool(judge(fooled_model, X, X, torch.tensor([1]), THREAT).fooled)


def test_the_distance_is_kept_also_outside():
    assert abs(float(judge(fooled_model, X + 0.3, X, Y, THREAT).distance) - 0.3) < 1e-6


def test_a_network_that_returns_nan_gives_no_class():
    assert predict(lambda images: torch.full((1, 2), float("nan")), X).tolist() == [-1]


@pytest.mark.parametrize("count", [0, 3, 4, 8, 11])
def test_answers_in_pieces_are_the_answers_and_only_whole_pieces_are_worth_a_search(count):
    seen = []

    def model(images: Images) -> Scores:
        seen.append((len(images), torch.backends.cudnn.benchmark))
        return 3 * images.flatten(1) - 1

    images = torch.rand(count, 1, 2, 2)
    assert in_pieces(model, images, 4).equal(3 * images.flatten(1) - 1)
    rest = [(count % 4, False)] if count % 4 or count == 0 else []
    assert seen == [(4, True)] * (count // 4) + rest
    assert not torch.backends.cudnn.benchmark
