"""Loss scaling leaves the gradients as they are and tells when one overflows."""

import pytest
import torch

from gamagat.engine.training.scaling import FIRST, PATIENCE, Scaler


def grads_of(*values):
    return [torch.tensor(value) for value in values]


def test_gradients_come_back_to_size():
    scaler = Scaler(torch.device("cpu"))
    grads = grads_of([FIRST, -2 * FIRST], [0.5 * FIRST])
    assert float(scaler.settle(grads)) == 0.0
    assert [grad.tolist() for grad in grads] == [[1.0, -2.0], [0.5]]
    assert float(scaler.factor) == FIRST


@pytest.mark.parametrize("bad", [float("inf"), float("-inf"), float("nan")])
def test_an_overflow_is_told_and_halves_the_factor(bad):
    scaler = Scaler(torch.device("cpu"))
    assert float(scaler.settle(grads_of([1.0, bad], [3.0]))) == 1.0
    assert float(scaler.factor) == FIRST / 2


def test_the_factor_grows_when_nothing_overflows_for_long():
    scaler = Scaler(torch.device("cpu"))
    for _ in range(PATIENCE):
        scaler.settle(grads_of([1.0]))
    assert float(scaler.factor) == 2 * FIRST
