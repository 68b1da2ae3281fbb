"""How fast GAT is: the published-style loop and our trainer, epoch about, on the same images in one order."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import nn

from gamagat.data.core import to_unit
from gamagat.engine.bench import published
from gamagat.engine.bench.lesson import Lesson, LessonRequest, make_lesson
from gamagat.engine.bench.limit import flops_during, machine_rate
from gamagat.engine.bench.measure import machine, timed
from gamagat.engine.bench.rows import OURS, PUBLISHED, TRAINING, Bench, Row
from gamagat.engine.evaluate import evaluate
from gamagat.engine.plan import plan_attacks
from gamagat.engine.runtime import default_batch_size, full_precision
from gamagat.engine.training.feed import make_feed
from gamagat.engine.training.posed import means
from gamagat.engine.training.run import choose_precision
from gamagat.engine.training.step import WARM, Trainer
from gamagat.engine.watch import Onlooker
from gamagat.pieces.noise import Noise

STEPS, JUDGED = 20, {"cuda": 1000, "cpu": 200}  # of the GAMA-PGD that looks at the result, and its images
PRECISIONS = {"cpu": ("fp32",), "cuda": ("fp32", "auto")}
RATES = {"auto": "fp16"}


@dataclass(frozen=True, slots=True)
class Pupil:
    """A copy of the network, and how it takes the first batches of an epoch, or all."""

    who: str
    what: str
    model: nn.Module
    epoch: Callable[[int, int | None], None]
    precision: str = "fp32"

    def alone(self) -> AbstractContextManager[None]:
        """Single precision as its name says where that is what is measured."""
        return full_precision() if self.precision == "fp32" else nullcontext()


def train_bench(
    request: LessonRequest, steps: int | None = None, *, onlooker: Onlooker = Onlooker()
) -> Bench:
    """Train copies of one network by both loops and look at what they have learnt.

    `steps` are those of the GAMA-PGD that says what accuracy is left.
    """
    lesson = make_lesson(request)
    devices: list[int] | None = None if lesson.device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        kinds = PRECISIONS["cuda" if lesson.device.type == "cuda" else "cpu"]
        rates = {kind: machine_rate(lesson.device, RATES.get(kind, kind)) for kind in kinds}
        pupils = [_published(lesson), *(_ours(lesson, kind) for kind in kinds)]
        needed = [_flops(lesson, pupil) for pupil in (_published(lesson), _ours(lesson, "fp32", False))]
        rows = _taught(lesson, pupils, onlooker)
        costs = needed[:1] + needed[1:] * len(kinds)
        judged = [_judged(lesson, pupil, steps or STEPS) for pupil in pupils]
        full = [
            replace(row, flops=cost * row.images, accuracy=left, limit=rates[row.precision])
            for row, cost, left in zip(rows, costs, judged, strict=True)
        ]
    return Bench(f"GAT: {request.model} on {lesson.data.name}", _facts(lesson, steps, rates), tuple(full))


# The contestants


def _published(lesson: Lesson) -> Pupil:
    """Batches from the host's memory, torch's optimiser, and the published step."""
    model, settings, own = deepcopy(lesson.model).train(), lesson.plan.settings, lesson.plan.own
    optimizer = published.optimizer_for(settings, list(model.parameters()))
    gat = published.GatSettings(lesson.threat.eps, own["alpha"], own["alternate"])

    def epoch(number: int, most: int | None) -> None:
        (order, keys), (rates, weights) = lesson.order(number), lesson.timetable(number)
        places = torch.split(order, lesson.batch)[:most]
        for count, (place, rate, weight) in enumerate(zip(places, rates, weights, strict=False)):
            raw, noise = lesson.data.read(place).to(lesson.device), Noise(keys[place].to(lesson.device))
            x = to_unit(lesson.augment(raw, noise.fold(0)))
            optimizer.param_groups[0]["lr"] = rate
            y = lesson.data.labels[place].to(lesson.device)
            published.gat_step(model, optimizer, x, y, gat, weight, count)

    return Pupil(PUBLISHED, "published-style GAT", model, epoch)


def _ours(lesson: Lesson, precision: str, record: bool = True) -> Pupil:
    """Our trainer, as `gamagat train gat` has it."""
    model, plan, device = deepcopy(lesson.model).train(), lesson.plan, lesson.device
    if device.type == "cuda":
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    feed, kind = make_feed(lesson.data, lesson.batch, device), choose_precision(precision, device)
    compiled = device.type == "cuda"  # a benchmark of few epochs stands for a long training
    trainer = Trainer(
        model,
        plan.recipe,
        plan.settings,
        lesson.threat,
        feed,
        lesson.batch,
        lesson.augment,
        kind,
        record=record,
        **means(model, lesson.data, device, kind.attack, compiled)._asdict(),
    )

    def epoch(number: int, most: int | None) -> None:
        trainer.begin(*lesson.timetable(number))
        trainer.feed.begin(*lesson.order(number))
        for count, part in enumerate(lesson.parts()[:most]):
            trainer.batch(count, part)
        trainer.told()

    return Pupil(OURS, f"our GAT, {precision}", model, epoch, precision)


# The measurements


def _flops(lesson: Lesson, pupil: Pupil) -> float:
    """Operations for one image, from one batch of each of the recipe's variants."""
    turns = lesson.plan.recipe.turns
    with pupil.alone():
        total = flops_during(partial(pupil.epoch, 0, turns))
    return total / sum(part.images for part in lesson.parts()[:turns])


def _taught(lesson: Lesson, pupils: list[Pupil], onlooker: Onlooker) -> list[Row]:
    """The fastest epoch of each; they take their epochs in turns, after a few batches that do not count."""
    warm = (WARM + 1) * lesson.plan.recipe.turns  # so many until every variant of the step is recorded
    best: list[Row | None] = [None] * len(pupils)
    for epoch in range(lesson.plan.settings.epochs):
        images = len(lesson.data)
        onlooker.progress("epochs", epoch * images, lesson.plan.settings.epochs * images)
        for place, pupil in enumerate(pupils):
            with pupil.alone():
                torch.manual_seed(lesson.request.seed + epoch)
                if epoch == 0:
                    pupil.epoch(0, warm)
                _, seconds, most, busy = timed(partial(pupil.epoch, epoch, None), lesson.device)
            count = sum(part.images for part in lesson.parts())
            row = Row(
                TRAINING,
                pupil.who,
                pupil.what,
                count,
                seconds,
                peak=most,
                precision=pupil.precision,
                cpu_seconds=busy,
            )
            best[place] = row.fastest(best[place])
    return [row for row in best if row is not None]


def _judged(lesson: Lesson, pupil: Pupil, steps: int) -> float:
    """The accuracy that GAMA-PGD leaves of the trained copy, in percent."""
    kind = "cuda" if lesson.device.type == "cuda" else "cpu"
    data = lesson.test.head(JUDGED[kind])
    result = evaluate(
        pupil.model.eval(),
        data,
        lesson.threat,
        plan_attacks((f"gama-pgd:steps={steps}",), data.preset),
        device=lesson.device,
        batch_size=default_batch_size(data.shape, lesson.device),
        precision="fp32",
    )
    return result.standing.percent


def _facts(lesson: Lesson, steps: int | None, rates: dict[str, float]) -> dict[str, str]:
    settings, kind = lesson.plan.settings, "cuda" if lesson.device.type == "cuda" else "cpu"
    limits = ", ".join(f"{rate / 1e9:.4g} GFLOP/s in {name}" for name, rate in rates.items())
    judged = min(JUDGED[kind], len(lesson.test))
    return {
        "images": f"{len(lesson.data)} of {lesson.data.name}, batch {settings.batch}, {settings.optimizer}",
        "budget": f"linf, eps {lesson.threat.eps:.6g}, {settings.epochs} epochs, the fastest counts",
        "left": f"{judged} test images after GAMA-PGD with {steps or STEPS} steps on the trained copy",
        "peers": "none of the packages that are compared for attacks trains by GAT",
        "limit": f"{limits} (large matrix product)",
        "machine": f"{machine(lesson.device)}, torch {torch.__version__}",
    }
