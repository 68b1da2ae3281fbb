"""Whether a stand-in says what the network says, and whether the network always says the same."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from gamagat.engine.runtime import full_precision
from gamagat.pieces.gradients import logits_of
from gamagat.pieces.types import Images, Model, Scores

SAMPLE = 32  # images that a stand-in is tried on
CLOSE = {torch.float32: (1e-3, 0.999), torch.float16: (5e-2, 0.95)}  # error of logits, likeness of gradients
LOOKS = 6  # at a network, to see whether it answers by chance


def doubt(model: Model, made: Model, sample: Images, error: float, likeness: float) -> str | None:
    """In what the stand-in differs from the network; None if it does not."""
    with full_precision():
        logits, grad = pulled(model, sample)
    for part in (sample, sample[: max(1, len(sample) // 3)]):  # it must not remember a batch size
        other, slope = pulled(made, part)
        size = (logits - logits.mean(1, keepdim=True)).abs().amax().clamp_min(1e-6)
        off = (other - logits[: len(part)]).abs().amax() / size
        if not bool(off <= error):
            return f"its logits are off by {float(off):.1%}" if off.isfinite() else "its logits overflow"
        likes = torch.cosine_similarity(slope.flatten(1), grad[: len(part)].flatten(1), eps=1e-30)
        flat = grad[: len(part)].flatten(1).abs().amax(1) == 0
        share = float((flat | (likes >= likeness)).float().mean())
        if share < 0.9:
            return f"its gradients point elsewhere on {1 - share:.0%} of {len(part)} images"
    return None


@torch.no_grad()
def error_of(model: Model, made: Model, sample: Images) -> float:
    """By how much a logit of the stand-in is off at the most."""
    with full_precision():
        exact = logits_of(model, sample)
    return float((logits_of(made, sample) - exact).abs().amax())


def pulled(model: Model, images: Images) -> tuple[Scores, Images]:
    """The logits, and the gradient of the lead of the best class over the second."""
    images = images.detach().clone().requires_grad_()
    with torch.enable_grad():
        logits = logits_of(model, images)
        top = logits.topk(2, 1).indices
        lead = (logits.gather(1, top) * logits.new_tensor([1.0, -1.0])).sum()
    (grad,) = torch.autograd.grad(lead, images, allow_unused=True, materialize_grads=True)
    return logits.detach(), grad.float()


@torch.no_grad()
def steady(model: Model, images: Images) -> bool:
    """Whether the network always gives the same answer and draws no random numbers; else it is left alone."""
    with _rewound(images.device):
        untouched = _throw(images.device)
    try:
        with _rewound(images.device), full_precision():
            first, *others = (logits_of(model, images) for _ in range(LOOKS))
            thrown = _throw(images.device)
    except Exception:  # whoever attacks the network itself will see why
        return False
    same = (torch.allclose(first, other, rtol=1e-4, atol=1e-5, equal_nan=True) for other in others)
    return all(same) and thrown == untouched


def _throw(device: torch.device) -> list[float]:
    """The next number of every generator; another one than before if somebody has drawn in between."""
    return [random.random(), np.random.random(), float(torch.rand(())), float(torch.rand((), device=device))]


@contextmanager
def _rewound(device: torch.device) -> Iterator[None]:
    """Afterwards random numbers go on as if none had been drawn: a look changes no result."""
    states = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
