"""How fast images go through a network on this device, measured in about a second."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from time import perf_counter
from typing import NamedTuple

import torch

from gamagat.engine.checks import said
from gamagat.engine.quick.agreement import SAMPLE
from gamagat.engine.quick.network import check_precision, quickened
from gamagat.engine.runtime import borrowed, choose_device, fitted
from gamagat.engine.training.run import choose_precision
from gamagat.errors import ModelError
from gamagat.experiments.core import Network
from gamagat.experiments.workshop import Workshop
from gamagat.models.core import build_model, load_model
from gamagat.pieces.types import Images, Model

LOOK = 0.25  # seconds that each pace is measured for
MOST, ROOM = 4096, 1 << 26  # images at a time, and numbers in them
GAIN = 3  # four times as many images are worth it where they take less than so many times as long


class Pace(NamedTuple):
    """Seconds that an image takes forward through a network, and back."""

    forward: float
    backward: float


@dataclass(slots=True)
class Paces:
    """The pace of every network, measured once."""

    shop: Workshop
    known: dict[tuple[str, str, bool], Pace | ModelError] = field(default_factory=dict)

    def of(self, network: Network, training: bool = False) -> Pace:
        """Its pace; one that fails is asked once, too."""
        key = (network.model, network.data, training)
        if key not in self.known:
            if key[:2] not in {(model, data) for model, data, _ in self.known}:
                self.shop.say(f"looking at the pace of {network.model} on {network.data}")
            try:
                self.known[key] = self._measured(network, training)
            except ModelError as error:
                self.known[key] = error
        found = self.known[key]
        if isinstance(found, ModelError):
            raise found
        return found

    def _measured(self, network: Network, training: bool) -> Pace:
        facts, device = self.shop.cache.facts(network.data), choose_device(self.shop.device)
        kind = choose_precision(self.shop.cache.precision, device).train if training else None
        sizes = (facts.classes, facts.shape[0])
        if network.given:
            spec, weights = self.shop.files(network)
            model = load_model(spec, weights, classes=sizes[0], channels=sizes[1])
        else:
            model = build_model(network.model, *sizes)
        count = max(1, min(MOST, ROOM // prod(facts.shape)))
        images = torch.rand(count, *facts.shape, device=device)
        with borrowed(model.to(device)), torch.autocast(device.type, kind, enabled=kind is not None):
            ask = fitted(model)
            return _pace(ask if training else _attacked(ask, images), images)


def _attacked(model: Model, images: Images) -> Model:
    """What attacks will see of the network on a GPU; not compiled, which would take longer than to look.

    On a CPU a stand-in is worth a factor of two at most, and takes more memory than a look should.
    """
    if images.device.type != "cuda":
        return model
    quick = quickened(model, check_precision("auto", images.device), images[:SAMPLE], 0, lambda words: None)
    return model if quick is None else quick.model


def _pace(model: Model, images: Images) -> Pace:
    """With as many of the images at a time as pass through in a moment."""

    def forward() -> None:
        with torch.no_grad():
            model(images)

    def both() -> None:
        x = images.clone().requires_grad_()
        torch.autograd.grad(model(x).sum(), x)

    try:
        images = images[: _size(model, images)]
        ahead, whole = _seconds(forward, images), _seconds(both, images)
    except RuntimeError as error:  # a network that does not take these images
        raise ModelError(
            f"the network cannot take images of shape {tuple(images.shape[1:])}: {said(error)}"
        ) from None
    return Pace(ahead, max(whole - ahead, 0.0))


def _size(model: Model, images: Images) -> int:
    """As many images as it takes to keep the device busy: from there on more images only take longer."""

    def look(size: int) -> float:
        return _shortest(lambda: model(images[:size]), images)

    with torch.no_grad():
        size, took = 4, look(4)
        while 4 * size <= len(images) and took < LOOK:
            larger = look(4 * size)
            if larger > GAIN * took:
                break
            size, took = 4 * size, larger
    return size


def _seconds(work: Callable[[], None], images: Images) -> float:
    """Of one image, over as many turns as fit into a moment."""
    work()
    return _shortest(work, images, LOOK) / len(images)


def _shortest(work: Callable[[], object], images: Images, moment: float = 0.0) -> float:
    """Seconds of the shortest of at least three turns: other processes only make turns longer."""
    began, turns = perf_counter(), list[float]()
    while len(turns) < 3 or perf_counter() - began < moment:
        start = perf_counter()
        work()
        _wait(images)
        turns.append(perf_counter() - start)
    return min(turns)


def _wait(images: Images) -> None:
    if images.device.type == "cuda":
        torch.cuda.synchronize(images.device)
