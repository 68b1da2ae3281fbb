"""The machine's limit: operations that a network needs, and how many a second a large matrix product gets."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from gamagat.engine.runtime import borrowed, products_in
from gamagat.errors import unknown
from gamagat.pieces.types import Images, Model

KINDS = {"fp32": torch.float32, "tf32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
# Products that are timed; the fastest counts. On a CPU many short ones: some will find the machine free.
ROUNDS = {"cuda": 4, "cpu": 40}
WHILE = 1.0  # seconds that all of them may take on a CPU
FIRST, LARGEST = 512, 8192  # sides of the matrices


class Flops(NamedTuple):
    """Floating-point operations for one image."""

    forward: float
    gradient: float  # a forward pass and the gradient with respect to the image

    def of(self, forwards: float, backwards: float) -> float:
        """The operations of so many forward passes and so many ways back, in images."""
        return forwards * self.forward + backwards * (self.gradient - self.forward)


def flops_during(action: Callable[[], Any]) -> float:
    """The operations of all products and convolutions that happen meanwhile; a product-sum counts as two."""
    counter = FlopCounterMode(display=False)
    # Its book-keeping by module cannot follow a gradient with respect to an image; the sum needs none.
    counter.mod_tracker = _Everywhere()  # type: ignore[assignment]
    with counter:
        action()
    return float(counter.get_total_flops())


class _Everywhere:
    """Stands for the modules of a network: all that happens, happens in one place."""

    parents = frozenset({"Global"})

    def __enter__(self) -> None:
        """Nothing to follow."""

    def __exit__(self, *_: object) -> None:
        """Nothing was followed."""


def flops_of(model: Model, images: Images) -> Flops:
    """What the network needs for one of these images, its parameters being constants."""
    with borrowed(model):
        forward = flops_during(lambda: _forward(model, images))
        gradient = flops_during(lambda: _gradient(model, images))
    return Flops(forward / len(images), gradient / len(images))


@torch.no_grad()
def _forward(model: Model, images: Images) -> Tensor:
    return model(images.clone())


def _gradient(model: Model, images: Images) -> Tensor:
    leaf = images.detach().clone().requires_grad_()
    with torch.enable_grad():
        (grad,) = torch.autograd.grad(model(leaf).sum(), leaf)
    return grad


def machine_rate(device: torch.device, precision: str = "fp32") -> float:
    """Operations a second of a large matrix product in this precision, with the cores of this process."""
    if precision not in KINDS:
        raise unknown("precision", precision, KINDS)
    with products_in(tf32=precision == "tf32"):
        gpu = device.type == "cuda"
        rounds = ROUNDS["cuda" if gpu else "cpu"]
        side = LARGEST if gpu else _side_for(WHILE / rounds, device, precision)
        return 2.0 * side**3 / _seconds(side, device, precision, rounds)


def _side_for(seconds: float, device: torch.device, precision: str) -> int:
    """The side of matrices whose product takes about so long."""
    first = _seconds(FIRST, device, precision, 8)
    side = FIRST * (seconds / first) ** (1 / 3)
    return max(FIRST, min(LARGEST, 64 * int(side / 64)))


def _seconds(side: int, device: torch.device, precision: str, rounds: int) -> float:
    """How long the product takes, at its fastest, after one that does not count."""
    one, other = (torch.rand(side, side, device=device).to(KINDS[precision]) for _ in range(2))
    clock = _events if device.type == "cuda" else _wall
    times = [clock(lambda: one @ other) for _ in range(rounds + 1)]
    return min(times[1:])


def _wall(action: Callable[[], Any]) -> float:
    began = perf_counter()
    action()
    return perf_counter() - began


def _events(action: Callable[[], Any], times: int = 8) -> float:
    """Between two marks on the device itself, so that what the host does meanwhile costs nothing."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    begin.record()
    for _ in range(times):
        action()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) / 1000 / times
