"""The optimisers are those of torch."""

import pytest
import torch
from torch import Tensor

from gamagat.engine.training.optimizers import Adam, Sgd, make_optimizer
from gamagat.engine.training.settings import Settings
from gamagat.errors import ModelError


def drawn(seed: int, kind: torch.dtype = torch.float64) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(*shape, generator=generator, dtype=kind) for shape in ((4, 3), (5,), (2, 1, 3, 3))]


def compare(ours: Sgd | Adam, theirs: torch.optim.Optimizer, tolerance: float, kind: torch.dtype) -> None:
    pairs = list(zip(ours.parameters, theirs.param_groups[0]["params"], strict=True))
    for step in range(10):
        rate, grads = 0.1 / (step + 1), drawn(100 + step, kind)
        ours.step(grads, torch.tensor(rate, dtype=kind))
        for (_, parameter), grad in zip(pairs, grads, strict=True):
            parameter.grad = grad.clone()
        theirs.param_groups[0]["lr"] = rate
        theirs.step()
        for mine, parameter in pairs:
            assert (mine - parameter).abs().max() <= tolerance


KINDS = pytest.mark.parametrize(("kind", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-6)])


@KINDS
@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("decay", [0.0, 0.02])
def test_ten_steps_of_sgd_are_those_of_torch(momentum, decay, kind, tolerance):
    theirs = torch.optim.SGD(drawn(0, kind), lr=0.1, momentum=momentum, weight_decay=decay)
    compare(Sgd(drawn(0, kind), momentum, decay), theirs, tolerance, kind)


@KINDS
@pytest.mark.parametrize("momentum", [0.5, 0.9])
@pytest.mark.parametrize("decay", [0.0, 0.02])
def test_ten_steps_of_adam_are_those_of_torch(momentum, decay, kind, tolerance):
    theirs = torch.optim.Adam(drawn(0, kind), lr=0.1, betas=(momentum, 0.999), weight_decay=decay)
    compare(Adam(drawn(0, kind), momentum, decay), theirs, tolerance, kind)


def test_the_settings_choose_the_optimiser():
    parameters = drawn(0)
    assert isinstance(make_optimizer(Settings(optimizer="adam"), parameters), Adam)
    chosen = make_optimizer(Settings(momentum=0.3, weight_decay=0.01), parameters)
    assert isinstance(chosen, Sgd)
    assert (chosen.momentum, chosen.decay) == (0.3, 0.01)


def test_a_parameter_with_gaps_is_refused():
    part = torch.zeros(4, 6)[:, :4]
    for parameter in (part, part.T, torch.zeros(3).expand(2, 3)):
        with pytest.raises(ModelError, match="part of a larger tensor"):
            make_optimizer(Settings(), [parameter])
    dense = [torch.zeros(4, 6).T, torch.zeros(2, 1, 5, 5).to(memory_format=torch.channels_last)]
    make_optimizer(Settings(), [*dense, torch.zeros(()), torch.zeros(0, 3)])


def remembered(optimizer: Sgd | Adam) -> list[torch.Tensor]:
    return [*optimizer.parameters, *(value for values in optimizer.state.values() for value in values)]


@pytest.mark.parametrize("kind", [Sgd, Adam])
def test_parameters_and_state_stay_in_place(kind):
    # A recorded step and a checkpoint both know them by where they lie.
    parameters = drawn(0)
    optimizer = kind(parameters, 0.9, 0.0)
    places = [tensor.data_ptr() for tensor in remembered(optimizer)]
    optimizer.step(drawn(1), torch.tensor(0.1, dtype=torch.float64))
    assert [tensor.data_ptr() for tensor in remembered(optimizer)] == places


@pytest.mark.parametrize("kind", [Sgd, Adam])
@pytest.mark.parametrize("bad", [float("inf"), float("nan")])
def test_an_overflow_is_a_step_that_never_was(kind, bad):
    optimizer = kind(drawn(0), 0.9, 0.01)
    rate = torch.tensor(0.1, dtype=torch.float64)
    broken = drawn(1)
    broken[1][2] = bad
    for grads in (broken, drawn(2), broken):  # the first step and a later one
        before = [tensor.clone() for tensor in remembered(optimizer)]
        overflow = torch.tensor(float(grads is broken))
        optimizer.step(grads, rate, overflow)
        same = [torch.equal(*pair) for pair in zip(before, remembered(optimizer), strict=True)]
        assert all(same) if grads is broken else not any(same)


@pytest.mark.parametrize("kind", [Sgd, Adam])
def test_the_order_in_memory_does_not_matter(kind):
    # A compiled backward pass gives the gradients of convolutions in another order than the weights have.
    shape, rate = (4, 3, 5, 5), torch.tensor(0.1)
    weight, grad = (torch.randn(shape, generator=torch.Generator().manual_seed(seed)) for seed in (0, 1))
    usual, turned = kind([weight.clone()], 0.9, 0.01), kind([weight.clone()], 0.9, 0.01)
    for _ in range(2):
        usual.step([grad], rate)
        turned.step([grad.contiguous(memory_format=torch.channels_last)], rate)
    assert torch.allclose(usual.parameters[0], turned.parameters[0])
