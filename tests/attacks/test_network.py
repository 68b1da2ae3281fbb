"""The network as attacks see it."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from gamagat.attacks.network import Network, full


@given(st.integers(1, 300), st.integers(1, 300))
def test_a_filled_batch_fits_and_takes_no_image_more_than_twice(count, width):
    count = min(count, width)
    assert count <= full(count, width) <= max(width, count)
    assert full(count, width) <= 2 * count


def test_filling_keeps_the_layout_the_answers_and_the_gradients():
    weights = torch.linspace(-1, 1, 3 * 4 * 4).view(3, 4, 4)
    shapes = []

    def model(images):
        shapes.append((len(images), images.is_contiguous(memory_format=torch.channels_last)))
        return (images * weights).sum((2, 3)) ** 2

    images = torch.rand(5, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    images = images.contiguous(memory_format=torch.channels_last).requires_grad_()
    answers = [Network(model, 6400, padded=padded)(images) for padded in (True, False)]
    assert torch.equal(*answers)
    assert torch.equal(*(torch.autograd.grad(answer.sum(), images)[0] for answer in answers))
    assert shapes == [(8, True), (5, True)]
