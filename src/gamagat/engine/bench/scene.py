"""What everyone in a benchmark is given: one network, the same images, the same budget."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from torch import nn

from gamagat.attacks.core import ATTACKS
from gamagat.data.core import Dataset, from_tensors
from gamagat.engine.bench.peers import Budget
from gamagat.engine.checks import check_door
from gamagat.engine.judge import judge, predict
from gamagat.engine.plan import read_threat
from gamagat.engine.request import EvaluationRequest, prepare
from gamagat.engine.runtime import borrowed, choose_device, default_batch_size, full_precision
from gamagat.errors import ConfigError, ModelError
from gamagat.models.core import build_model
from gamagat.pieces.gradients import answer
from gamagat.pieces.threat import ThreatModel
from gamagat.pieces.types import Images, Labels, Mask

USUAL = {"cuda": (None, 100), "cpu": (128, 20)}  # images and steps, where nothing is said
BLIND_CLASSES, BLIND_SHAPE, BLIND_EPS = 10, (3, 32, 32), "8/255"


@dataclass(frozen=True, slots=True)
class Scene:
    """The network, the images and the budget; `blind` where random images say nothing about accuracy."""

    title: str
    model: nn.Module
    data: Dataset
    threat: ThreatModel
    device: torch.device
    batch_size: int
    steps: int
    x: Images
    y: Labels
    right: Mask  # classified correctly untouched
    seed: int = 0
    blind: bool = False

    @property
    def budget(self) -> Budget:
        """What a peer is told; the step size is that of our PGD on these data."""
        rate = float(ATTACKS.settings("pgd", self.data.preset)["rate"])
        shape, classes = self.data.shape, len(self.data.classes)
        return Budget(
            self.threat.eps, self.steps, rate, classes, shape, self.batch_size, self.device, self.seed
        )

    def short(self, size: int) -> Scene:
        """Two steps on one batch and on what is left over at the end: every shape, and little work."""
        count = len(self.y) if len(self.y) <= size else size + len(self.y) % size
        return replace(
            self,
            steps=min(2, self.steps),
            data=self.data.head(count),
            x=self.x[:count],
            y=self.y[:count],
            right=self.right[:count],
        )

    def standing(self, images: Images) -> Mask:
        """Which images the network gets right untouched and as they came back, by the judge's word."""
        # A pixel of 1.0000001 is rounding, and not to be held against anyone.
        images = images.to(self.x).clamp(self.threat.low, self.threat.high)
        parts = zip(*(torch.split(each, self.batch_size) for each in (images, self.x, self.y)), strict=True)
        verdicts = [judge(self.model, image, x, y, self.threat) for image, x, y in parts]
        return self.right & ~torch.cat([verdict.fooled for verdict in verdicts])

    def look(self) -> Mask:
        """Which images the network gets right untouched."""
        return _right(self.model, self.x, self.y, self.batch_size)


def _right(model: nn.Module, x: Images, y: Labels, size: int) -> Mask:
    return torch.cat([predict(model, part) for part in torch.split(x, size)]) == y


def percent(which: Mask) -> float:
    """How many of them, in percent."""
    return 100 * int(which.sum()) / len(which)


@contextmanager
def scene(request: EvaluationRequest, steps: int | None = None, blind: bool = False) -> Iterator[Scene]:
    """Everything loaded; within, the network is frozen and computes in single precision.

    `blind` takes random weights and random images of CIFAR-10's shape: enough to measure how fast loops are.
    """
    kind = choose_device(request.device).type
    usual_images, usual_steps = USUAL["cuda" if kind == "cuda" else "cpu"]
    steps = usual_steps if steps is None else steps
    if steps < 1:
        raise ConfigError(f"a benchmark needs at least one step, got {steps}; such as --steps 20")
    request = replace(request, n=usual_images if request.n is None else request.n)
    made = _blind(request, steps) if blind else _seeing(request, steps)
    with borrowed(made.model), full_precision():
        yield replace(made, right=made.look())


def _seeing(request: EvaluationRequest, steps: int) -> Scene:
    found = prepare(replace(request, norm="linf", attacks=(f"gama-pgd:steps={steps}",)))
    kinds = {parameter.dtype for parameter in found.model.parameters() if parameter.is_floating_point()}
    if kinds - {torch.float32}:
        known = ", ".join(sorted(str(kind).removeprefix("torch.") for kind in kinds))
        raise ModelError(
            f"{request.model} computes in {known}, and packages are compared in float32; give it in float32"
        )
    x, y = found.data.batch(torch.arange(len(found.data)), found.device)
    with borrowed(found.model):
        check_door(found.model, found.data, found.device)
        answer(found.model, x[:1].clone().requires_grad_())  # or it says that it cuts the gradient
    return Scene(
        f"{request.model} on {found.data.name}",
        found.model,
        found.data,
        found.threat,
        found.device,
        found.batch_size,
        steps,
        x,
        y,
        torch.ones_like(y, dtype=torch.bool),
        request.seed,
    )


def _blind(request: EvaluationRequest, steps: int) -> Scene:
    """Random weights and images; the labels are what the network says, so that every image is attacked."""
    device = choose_device(request.device)
    size = request.batch_size or default_batch_size(BLIND_SHAPE, device)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(request.seed)
        model = build_model(request.model, BLIND_CLASSES, BLIND_SHAPE[0]).to(device).eval()
        x = torch.rand(request.n or 1024, *BLIND_SHAPE).to(device)
    with borrowed(model):
        y = torch.cat([predict(model, part) for part in torch.split(x, size)])
    data = from_tensors(
        x.cpu(),
        name="random images",
        labels=y.cpu(),
        classes=map(str, range(BLIND_CLASSES)),
        preset="cifar10",
    )
    threat = read_threat("linf", request.eps or BLIND_EPS)
    title = f"{request.model}, random weights and images"
    right = torch.ones_like(y, dtype=torch.bool)
    return Scene(title, model, data, threat, device, size, steps, x, y, right, request.seed, blind=True)
