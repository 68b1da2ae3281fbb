"""What both sides of the benchmark of training are given: network, images, recipe, order and rates."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from gamagat.data.core import Dataset
from gamagat.engine.checks import check_door
from gamagat.engine.plan import read_threat
from gamagat.engine.ranks import Ranks
from gamagat.engine.runtime import borrowed, choose_device
from gamagat.engine.training.feed import Part, divided, shuffled
from gamagat.engine.training.settings import Plan, make_plan
from gamagat.engine.training.splits import split_data
from gamagat.errors import ConfigError
from gamagat.models.core import build_model, load_model
from gamagat.models.loading.card import read_card
from gamagat.pieces.augment import Augment, crop_flip, resized_crop_flip, untouched
from gamagat.pieces.noise import Noise
from gamagat.pieces.threat import ThreatModel
from gamagat.pieces.types import Labels

USUAL = {"cuda": None, "cpu": 2000}  # training images, where nothing is said


@dataclass(frozen=True, slots=True)
class LessonRequest:
    """What a user asks for; None leaves the choice to the data set or the machine."""

    model: str
    weights: Path | None = None
    data: str = "digits"
    data_dir: Path | None = None
    n: int | None = None
    eps: str | None = None
    epochs: int = 3
    batch_size: int | None = None
    device: str = "auto"
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Lesson:
    """One network and everything that it is to learn from."""

    request: LessonRequest
    model: nn.Module
    data: Dataset
    test: Dataset
    plan: Plan
    threat: ThreatModel
    device: torch.device

    @property
    def batch(self) -> int:
        return self.plan.settings.batch

    @property
    def augment(self) -> Augment:
        """The usual augmentation of these data, the same for all."""
        return {"cifar10": crop_flip(), "imagenet": resized_crop_flip()}.get(
            self.plan.family or "", untouched
        )

    def parts(self) -> list[Part]:
        """The batches of an epoch."""
        return divided(len(self.data), self.batch, Ranks())

    def order(self, epoch: int) -> tuple[Tensor, Labels]:
        """The positions of an epoch, and the keys of each image's random numbers in it."""
        keys = Noise.for_images(self.data.ids, self.request.seed).fold(epoch).keys
        return shuffled(len(self.data), self.request.seed, epoch), keys

    def timetable(self, epoch: int) -> tuple[list[float], list[float]]:
        """The rate and the weight of every batch of an epoch."""
        settings, count = self.plan.settings, len(self.parts())
        rate, done = settings.rate_at(), epoch / settings.epochs
        flows = settings.cycle == "triangle" or bool(settings.warmup)
        moments = [done + (number / count / settings.epochs if flows else 0.0) for number in range(count)]
        return [rate(moment) for moment in moments], [self.plan.recipe.weight(done + 1e-9)] * count


def make_lesson(request: LessonRequest) -> Lesson:
    """Find everything, so that mistakes show before anything runs."""
    if request.epochs < 1:
        raise ConfigError(
            f"a benchmark of training needs at least one epoch, got {request.epochs}; such as --epochs 3"
        )
    device = choose_device(request.device)
    usual = USUAL["cuda" if device.type == "cuda" else "cpu"]
    data = split_data(request.data, "train", request.data_dir).head(usual if request.n is None else request.n)
    test = split_data(request.data, "test", request.data_dir)
    threat = read_threat("linf", request.eps, dict(data.eps))
    size = {} if request.batch_size is None else {"batch": request.batch_size}
    model = _network(request, data).to(device)
    plan = make_plan("gat", data.preset or data.name, request.model, epochs=request.epochs, **size)
    with borrowed(model):
        check_door(model, data, device)
    return Lesson(request, model, data, test, plan, threat, device)


def _network(request: LessonRequest, data: Dataset) -> nn.Module:
    """The network with the weights that were given, or with fresh ones."""
    card = read_card(request.model)
    spec, sizes = request.model if card is None else card.model, (len(data.classes), data.shape[0])
    if request.weights is not None:
        return load_model(spec, request.weights, classes=sizes[0], channels=sizes[1])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(request.seed)
        return build_model(spec, *sizes)
