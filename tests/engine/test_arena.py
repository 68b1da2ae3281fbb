"""What the judge looks at when an attack saw a stand-in."""

import pytest
import torch
from torch import Tensor

from gamagat.attacks.network import Network
from gamagat.attacks.outcome import Outcome
from gamagat.engine.arena import _looked_at
from gamagat.pieces.threat import LINF, ThreatModel


class Pixels:
    """The first two pixels are the logits; counts the images that it sees."""

    def __init__(self) -> None:
        self.seen = 0

    def __call__(self, images: Tensor) -> Tensor:
        self.seen += len(images)
        return images.flatten(1)[:, :2]


def test_the_judge_sees_what_fell_and_what_may_have_fallen_at_the_end():
    # Of class 0 all of them: fell on the way; stands clearly; stands barely; fell with the last step.
    pixels = torch.tensor([[0.2, 0.9], [0.9, 0.1], [0.6, 0.5], [0.4, 0.6]]).view(4, 1, 1, 2)
    step = torch.tensor([3, -1, -1, -1])
    outcome = Outcome(pixels, step, step, step)
    exact, quick = Pixels(), Pixels()
    stand_in = Network(quick, 4, look=None, slack=0.3)
    y = torch.zeros(4, dtype=torch.int64)
    judged = _looked_at(Network(exact, 4), stand_in, outcome, pixels, y, ThreatModel(LINF, 0.1))
    assert judged.fooled.tolist() == [True, False, False, True]
    assert judged.prediction.tolist() == [1, 0, 0, 1]
    assert (quick.seen, exact.seen) == (3, 3)


@pytest.mark.parametrize(("step", "pixels", "looks"), [(-1, [0.9, 0.1], (2, 0)), (3, [0.2, 0.9], (0, 2))])
def test_nobody_is_asked_about_no_images(step, pixels, looks):
    images = torch.tensor([pixels] * 2).view(2, 1, 1, 2)
    steps, y = torch.full((2,), step), torch.zeros(2, dtype=torch.int64)
    exact, quick = Pixels(), Pixels()
    stand_in = Network(quick, 8, padded=True, look=None, slack=0.1)
    outcome = Outcome(images, steps, steps, steps)
    network = Network(exact, 8, padded=True)
    judged = _looked_at(network, stand_in, outcome, images, y, ThreatModel(LINF, 0.1))
    assert judged.fooled.tolist() == [step >= 0] * 2
    assert (quick.seen, exact.seen) == looks


def test_an_answer_that_is_no_number_is_the_judges_to_see():
    pixels = torch.tensor([[0.9, 0.1]]).view(1, 1, 1, 2)
    step = torch.tensor([-1])
    exact = Pixels()
    stand_in = Network(lambda images: torch.full((len(images), 2), torch.nan), 1, look=None, slack=0.1)
    y = torch.zeros(1, dtype=torch.int64)
    outcome = Outcome(pixels, step, step, step)
    assert not bool(
        _looked_at(Network(exact, 1), stand_in, outcome, pixels, y, ThreatModel(LINF, 0.1)).fooled
    )
    assert exact.seen == 1
