"""Run a plan of attacks over a data set and report what is left standing."""

from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter

import torch
from torch import Tensor

from gamagat.attacks.core import Attack
from gamagat.data.core import Dataset
from gamagat.engine.checks import check_images, check_labels, check_model
from gamagat.engine.judge import judge, predict
from gamagat.engine.plan import PlannedAttack
from gamagat.engine.results import AttackResult, Evaluation, Share
from gamagat.engine.runtime import borrowed
from gamagat.engine.watch import Progress, Watch, silent
from gamagat.errors import ConfigError
from gamagat.pieces.noise import Noise
from gamagat.pieces.threat import ThreatModel
from gamagat.pieces.types import Mask, Model


@dataclass(frozen=True, slots=True)
class Arena:
    """All that stays the same from one attack of an evaluation to the next."""

    model: Model
    data: Dataset
    threat: ThreatModel
    device: torch.device
    batch_size: int
    seed: int = 0
    progress: Progress = silent

    def batches(self, positions: Tensor, what: str, passes: int = 1) -> Iterator[tuple[Tensor, Model]]:
        """Positions in batches, with the network under the onlooker's eyes."""
        watch = Watch(self.progress, what, len(positions), passes)
        for chosen in torch.split(positions, self.batch_size):
            yield chosen, watch.through(self.model, len(chosen))
            watch.finished(len(chosen))


class Tally:
    """Passes through the network, as the attacks count them."""

    def __init__(self) -> None:
        self.forwards = self.backwards = 0


def evaluate(
    model: Model,
    data: Dataset,
    threat: ThreatModel,
    plan: tuple[PlannedAttack, ...],
    *,
    device: torch.device,
    batch_size: int,
    seed: int = 0,
    progress: Progress = silent,
    model_name: str = "model",
) -> Evaluation:
    """Attack every image that the network classifies correctly with each attack of the plan."""
    if batch_size < 1:
        raise ConfigError(f"the batch size must be at least 1, got {batch_size}")
    began = perf_counter()
    arena = Arena(model, data, threat, device, batch_size, seed, progress)
    with borrowed(model):
        check_door(arena)
        clean = classify(arena)
        worst, results = clean.clone(), []
        for planned in plan:
            left, result = run_attack(arena, planned, clean)
            worst &= left
            results.append(result)
    return Evaluation(
        model=model_name,
        data=data.name,
        norm=threat.norm.name,
        eps=threat.eps,
        clean=_share(clean),
        standing=_share(worst),
        attacks=tuple(results),
        seconds=perf_counter() - began,
    )


def check_door(arena: Arena) -> None:
    """Look at the first images, all labels, and what the network makes of them."""
    images, labels = arena.data.batch(torch.arange(min(16, len(arena.data))), arena.device)
    check_images(images, labels)
    check_labels(arena.data.labels, check_model(arena.model, images))


def classify(arena: Arena) -> Mask:
    """Which images of the data set the network gets right."""
    right = torch.zeros(len(arena.data), dtype=torch.bool)
    for chosen, model in arena.batches(torch.arange(len(arena.data)), "clean"):
        images, labels = arena.data.batch(chosen, arena.device)
        right[chosen] = (predict(model, images) == labels).cpu()
    return right


def run_attack(arena: Arena, planned: PlannedAttack, clean: Mask) -> tuple[Mask, AttackResult]:
    """The runs of one attack in turn, each on what is still standing."""
    began, left, tally, curve = perf_counter(), clean.clone(), Tally(), []
    for name, attack in planned.runs:
        run_once(arena, name, attack, left, tally, planned.steps)
        curve.append(_share(left).percent)
    count = len(arena.data)
    return left, AttackResult(
        name=planned.name,
        spec=planned.spec,
        standing=_share(left),
        curve=tuple(curve),
        forwards=tally.forwards / count,
        backwards=tally.backwards / count,
        seconds=perf_counter() - began,
    )


def run_once(arena: Arena, name: str, attack: Attack, left: Mask, tally: Tally, steps: int) -> None:
    """One run over the images still standing; those that the judge finds fooled are struck from `left`."""
    for chosen, model in arena.batches(left.nonzero().squeeze(1), name, passes=steps):
        x, y = arena.data.batch(chosen, arena.device)
        noise = Noise.for_images(arena.data.ids[chosen].to(arena.device), arena.seed)
        outcome = attack(model, x, y, arena.threat, noise)
        left[chosen] = ~judge(model, outcome.images, x, y, arena.threat).fooled.cpu()
        tally.forwards += int(outcome.forwards.sum())
        tally.backwards += int(outcome.backwards.sum())


def _share(mask: Mask) -> Share:
    return Share(int(mask.sum()), len(mask))
