import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from gamagat.engine.checkup.care import untouched
from helpers import seeded, tiny_network


class Restless(nn.Module):
    """Does in its forward pass all that a network should not, and fails at a certain call."""

    def __init__(self, calls: int = 10_000) -> None:
        super().__init__()
        self.norm, self.net, self.left = nn.BatchNorm2d(3), tiny_network(), calls
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, images: Tensor) -> Tensor:
        self.train()
        self.seen = self.seen + len(images)
        images = self.norm(images) + 0 * torch.rand(1) * random.random() * np.random.rand()
        torch.set_grad_enabled(False)
        for parameter in self.parameters():
            parameter.requires_grad_(True)
            parameter.grad = torch.ones_like(parameter) if parameter.grad is None else parameter.grad.add_(1)
        self.left -= 1
        if self.left < 0:
            raise RuntimeError("tired")
        return self.net(images)


def untidy(build: Callable[[], nn.Module]) -> nn.Module:
    """A network with mixed modes, a gradient, a frozen parameter and a hook."""
    model = seeded(build).train()
    first, second, *_ = model.parameters()
    first.grad = torch.full_like(first, 3.0)
    second.requires_grad_(False)
    child = next(model.children()).eval()
    child.register_forward_hook(lambda *_: None)
    return model


def condition(model: nn.Module) -> dict[str, Any]:
    """Everything about a network and the process that an examination might change."""
    parameters = list(model.parameters())
    return {
        "modes": [part.training for part in model.modules()],
        "trainable": [parameter.requires_grad for parameter in parameters],
        "gradients": [(id(p.grad), None if p.grad is None else p.grad.tolist()) for p in parameters],
        "tensors": {name: (id(tensor), tensor.tolist()) for name, tensor in model.named_buffers()},
        "weights": [parameter.tolist() for parameter in parameters],
        "hooks": [[*part._forward_hooks, *part._backward_hooks] for part in model.modules()],
        "dice": (
            torch.get_rng_state().tolist(),
            random.getstate(),
            np.random.get_state(legacy=False)["state"]["pos"],
        ),
        "grad mode": torch.is_grad_enabled(),
    }


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("calls", [0, 1, 3, 5, 10_000])
def test_an_examination_leaves_no_trace_also_after_an_error(findings, own_data, calls, quick):
    model, data = untidy(lambda: Restless(calls)), own_data(seeded(tiny_network))
    before = condition(model)
    findings(model, data, quick=quick)
    assert condition(model) == before


def test_an_interruption_leaves_no_trace_either():
    model = untidy(Restless)
    before = condition(model)

    def interrupt() -> None:
        with untouched(model):
            model(torch.rand(2, 3, 8, 8))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupt()
    # The modes are borrowed, not kept; Restless has set them all.
    assert condition(model) | {"modes": None} == before | {"modes": None}


def test_the_caller_may_have_switched_gradients_off(found, healthy):
    with torch.no_grad():
        assert found(healthy, quick=True) == {}
        assert not torch.is_grad_enabled()
    with torch.inference_mode():
        assert found(healthy, quick=True) == {}
        assert torch.is_inference_mode_enabled()


@pytest.mark.gpu
def test_the_random_state_of_a_gpu_is_left_alone():
    torch.rand(1, device="cuda")
    before = torch.cuda.get_rng_state()
    with untouched(None):
        torch.rand(9, device="cuda")
    assert torch.equal(torch.cuda.get_rng_state(), before)
