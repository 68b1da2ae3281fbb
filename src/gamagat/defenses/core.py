"""The contract of defences: a recipe says what one training step minimises, given a stage to act on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from gamagat.defenses import objectives
from gamagat.defenses.adversary import Adversary
from gamagat.defenses.views import seeing
from gamagat.pieces.noise import Noise
from gamagat.pieces.threat import ThreatModel
from gamagat.pieces.types import Images, Labels, Model, Scores
from gamagat.registry import Registry

DEFENSES: Registry[Recipe] = Registry("recipe", "gamagat.defenses")

# The built-in digits are few and small: any recipe learns them in seconds, with these settings.
DIGITS = {
    "epochs": 30, "batch": 64, "optimizer": "adam", "cycle": "triangle", "rate": 5e-3, "peak": 0.3,
    "weight_decay": 0.0,
}  # fmt: skip


class Precision(NamedTuple):
    """What the passes of a step compute in; None is the type of the parameters.

    Half precision (fp16) serves the attack. bfloat16 does not: its coarse gradients let training collapse.
    fp16 in the training passes wants its loss scaled.
    """

    attack: torch.dtype | None = None
    train: torch.dtype | None = None


class Tick(NamedTuple):
    """Where training is."""

    turn: int = 0  # which of the recipe's variants is next
    weight: Tensor | float = 1.0  # of the recipe's regulariser, by its schedule


class Terms(NamedTuple):
    """What a step minimises: the sum of the terms, and what is worth telling besides."""

    terms: dict[str, Tensor]
    clean: Scores | None = None  # logits of the clean images, where the recipe needs them
    adversarial: Scores | None = None
    leaf: Images | None = None  # a perturbation that the same backward pass differentiates
    carry: Callable[[Images], None] | None = None  # what to do with its gradient

    @property
    def loss(self) -> Tensor:
        return torch.stack([term.float() for term in self.terms.values()]).sum()


class Stand(Protocol):
    """A network that stands for another one, and takes over its weights when it is asked to."""

    renew: Callable[[], None]

    def __call__(self, images: Images) -> Scores: ...


@dataclass(slots=True)
class Stage:
    """One batch and all that a recipe may do with it."""

    model: nn.Module
    x: Images
    y: Labels
    threat: ThreatModel
    noise: Noise
    tick: Tick = field(default_factory=Tick)
    precision: Precision = field(default_factory=Precision)
    smoothing: float = 0.0
    memory: dict[str, Tensor] = field(default_factory=dict)  # what a recipe carries from batch to batch
    views: list[Images] = field(default_factory=list)  # the adversarial images so far
    seen: int | None = None  # how many of the views have been handed out again, when a step is made twice
    joined: bool = False  # whether several views go through the network as one batch
    compiled: bool = False  # whether what an attack does between two passes is compiled
    posed: Stand | None = None  # what attacks in evaluation mode see in place of the network
    renewed: bool = False  # whether that has the weights of this step

    def logits(self, images: Images) -> Scores:
        """The network's answer in its training mode and precision, with a graph to go back through."""
        with _cast(images, self.precision.train):
            scores: Scores = self.model(images)
        return _at_least_single(scores)

    def logits_of(self, *views: Images) -> tuple[Scores, ...]:
        """The network's answers to several views, each normalised by itself, in this order."""
        if not self.joined or len({len(view) for view in views}) > 1:
            return tuple(self.logits(view) for view in views)
        with seeing(self.model, len(views)):
            return self.logits(torch.cat(views)).chunk(len(views))

    def answer(self, images: Images, training: bool = False) -> Scores:
        """What an attack compares with: logits without a graph, in the attack's mode and precision."""
        with torch.no_grad(), self._posing(training) as network:
            return _at_least_single(network(images))

    def attack(self, adversary: Adversary, reference: Scores | None = None, training: bool = False) -> Images:
        """Adversarial images for the batch, made in evaluation mode unless `training` is said."""
        if self.seen is not None:
            self.seen += 1
            return self.views[self.seen - 1]
        stream = self.noise.fold(1 + len(self.views))
        made = {"made": torch.compile} if self.compiled else {}
        with self._posing(training) as network:
            images = adversary(network, self.x, self.y, self.threat, stream, reference, training, **made)
        self.views.append(images)
        return images

    def cross_entropy(self, logits: Scores) -> Tensor:
        """CE(z, y), with the label smoothing of the run."""
        return objectives.cross_entropy(logits, self.y, self.smoothing)

    def _attacked(self, images: Images) -> Scores:
        with _cast(images, self.precision.attack):
            scores: Scores = self.model(images)
        return scores

    @contextmanager
    def _posing(self, training: bool) -> Iterator[Model]:
        """The network in the mode of the attack, its weights constants; afterwards all as it was."""
        if self.posed is not None and not training:
            if not self.renewed:
                self.posed.renew()
                self.renewed = True
            yield self.posed
            return
        modes = [(module, module.training) for module in self.model.modules()]
        free = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        if not training:
            self.model.eval()
        for parameter in free:
            parameter.requires_grad_(False)
        try:
            yield self._attacked
        finally:
            for parameter in free:
                parameter.requires_grad_(True)
            for module, mode in modes:
                module.training = mode


def _at_least_single(scores: Scores) -> Scores:
    return scores if scores.dtype == torch.float64 else scores.float()


def _cast(images: Images, kind: torch.dtype | None) -> torch.autocast:
    # A recorded step must not keep cast weights from one replay to the next.
    return torch.autocast(images.device.type, kind, enabled=kind is not None, cache_enabled=False)


@runtime_checkable
class Recipe(Protocol):
    """Everything in which one defence differs from another.

    Called with a stage, it returns what to minimise. `turns` variants alternate from batch to batch;
    `weight` is the schedule of its regulariser over training; `selected_by` names the accuracy on validation
    images that says which epoch is the best; one that `carries` finds a perturbation in the stage's memory.
    """

    @property
    def turns(self) -> int: ...

    @property
    def selected_by(self) -> str: ...

    @property
    def carries(self) -> bool: ...

    def weight(self, done: float) -> float: ...

    def __call__(self, stage: Stage) -> Terms: ...


@dataclass(frozen=True, slots=True)
class Made:
    """A recipe made of a function."""

    step: Callable[[Stage], Terms]
    schedule: Callable[[float], float] = lambda done: 1.0
    turns: int = 1
    selected_by: str = "selection"  # which accuracy on validation images says that an epoch is the best
    carries: bool = False  # whether it remembers a perturbation from batch to batch

    def weight(self, done: float) -> float:
        return self.schedule(done)

    def __call__(self, stage: Stage) -> Terms:
        return self.step(stage)


def stepped_up(start: float, at: tuple[float, ...], factor: float) -> Callable[[float], float]:
    """Multiply by `factor` from each share of the training on."""
    return lambda done: start * factor ** sum(done >= place for place in at)
