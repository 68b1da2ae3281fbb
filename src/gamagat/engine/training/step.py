"""The training step on the device: read, augment, attack, differentiate, move; on a GPU from a recording."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from gamagat.data.core import to_unit
from gamagat.defenses.core import Precision, Recipe, Stage, Stand, Terms, Tick
from gamagat.defenses.step import gradients
from gamagat.engine.easing import ease
from gamagat.engine.ranks import Ranks
from gamagat.engine.runtime import searched
from gamagat.engine.training.feed import Feed, Part
from gamagat.engine.training.halves import Halves, Itself, Working, trainable
from gamagat.engine.training.optimizers import make_optimizer
from gamagat.engine.training.scaling import Scaler
from gamagat.engine.training.settings import Settings
from gamagat.pieces.augment import Augment
from gamagat.pieces.noise import Noise
from gamagat.pieces.threat import ThreatModel

WARM = 3  # times that a step runs before it is recorded, so that everything it needs is there


def as_written() -> AbstractContextManager[object]:
    """Networks run as they are written, also compiled ones: for shapes that are met once in a while."""
    return torch.compiler.set_stance("force_eager")  # type: ignore[no-any-return]


@dataclass(slots=True)
class Recorder:
    """Plays a step: as it is on a CPU, from a recording on a GPU."""

    device: torch.device
    enabled: bool = True
    counts: dict[Hashable, int] = field(default_factory=dict)
    graphs: dict[Hashable, torch.cuda.CUDAGraph] = field(default_factory=dict)

    def play(self, key: Hashable, step: Callable[[], None]) -> None:
        """Do the step called `key`; the same key must always mean the same operations."""
        if self.device.type != "cuda" or not self.enabled:
            step()
            return
        if key in self.graphs:
            self.graphs[key].replay()
            return
        self.counts[key] = self.counts.get(key, 0) + 1
        if self.counts[key] <= WARM:
            with self._aside():
                step()
            return
        graph = torch.cuda.CUDAGraph()
        # Other threads may ask the GPU for something meanwhile: one reads images, another writes checkpoints.
        with torch.cuda.graph(graph, pool=self._room(), capture_error_mode="thread_local"):
            step()
        self.graphs[key] = graph
        graph.replay()

    def _room(self) -> Any:
        """The memory of the first recording: they are played one after another, and leave nothing in it."""
        return next((graph.pool() for graph in self.graphs.values()), None)

    @contextmanager
    def _aside(self) -> Iterator[None]:
        """On a stream of its own, as recording wants its warm-up."""
        stream = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(stream):
            yield
        torch.cuda.current_stream(self.device).wait_stream(stream)


class Trainer:
    """A network on its way: all that changes from step to step lives here, in tensors that stay in place."""

    def __init__(
        self,
        model: nn.Module,
        recipe: Recipe,
        settings: Settings,
        threat: ThreatModel,
        feed: Feed,
        size: int,
        augment: Augment,
        precision: Precision = Precision(),
        group: Ranks = Ranks(),
        record: bool = True,
        compiled: bool = False,
        joined: bool = False,
        halved: bool = False,
        posed: Stand | None = None,
    ) -> None:
        self.model, self.recipe, self.settings, self.threat = model, recipe, settings, threat
        self.feed, self.size, self.augment = feed, size, augment
        self.precision, self.group, self.posed = precision, group, posed
        self.compiled, self.joined = compiled, joined
        parameters = trainable(model)
        self.device = parameters[0].device
        self.optimizer = make_optimizer(settings, parameters)
        self.scaler = Scaler(self.device) if precision.train == torch.float16 else None
        self.average = deepcopy(model).eval() if settings.ema else None
        # Weights are made worse on purpose in their own precision.
        self.working: Working = Halves(model) if halved and not settings.awp else Itself(model)
        self.drawn = torch.compile(self._drawn, dynamic=False) if compiled else self._drawn
        if compiled:
            ease(self.working.net)
            self.working.net.compile(dynamic=False)
        self.memory: dict[str, Tensor] = {}
        self.sums: dict[str, Tensor] = {}
        self.number = torch.zeros((), dtype=torch.int64, device=self.device)  # of the batch in its epoch
        self.table = torch.zeros(0, 2, device=self.device)  # rate and weight of every batch
        self.recorder = Recorder(self.device, record and group.count == 1)

    def remember(self, shape: Sequence[int]) -> None:
        """Room for a perturbation that is carried from batch to batch."""
        self.memory["delta"] = torch.zeros(self.size, *shape, device=self.device)

    def begin(self, rates: Sequence[float], weights: Sequence[float]) -> None:
        """A new epoch with these rates and weights, batch by batch."""
        table = torch.tensor([rates, weights], device=self.device).T.contiguous()
        if self.table.shape == table.shape:
            self.table.copy_(table)  # a recorded step looks for it where it was
        else:
            self.table = table
        self.number.zero_()
        for total in self.sums.values():
            total.zero_()

    def batch(self, number: int, part: Part) -> None:
        """The next batch, as often as it is replayed."""
        self.feed.ready(number, part.images)
        turn = number % self.recipe.turns
        for replay in range(self.settings.replays):
            last = replay == self.settings.replays - 1

            def step(last: bool = last) -> None:
                self._step(part, turn, last)

            with self._manner(part.images):
                self.recorder.play((turn, last, part.images), step)

    def _manner(self, images: int) -> AbstractContextManager[object]:
        """Compiled, the fastest convolutions searched for: a long training wins that back.

        The rest of an epoch has a size of its own: recorded, too, but not worth a compilation.
        """
        if images != self.size:
            return as_written()
        return searched() if self.compiled else nullcontext()

    def told(self) -> dict[str, float]:
        """The means over the epoch so far."""
        sums = {name: float(total) for name, total in self.sums.items()}
        count = sums.pop("images", 0.0)
        return {name: total / max(count, 1.0) for name, total in sums.items()}

    def _step(self, part: Part, turn: int, last: bool) -> None:
        # Indexing by a number on the device would ask the host for it; a list of one number does not.
        rate, weight = self.table.index_select(0, self.number.view(1)).squeeze(0).unbind()
        self.working.renew()
        stage = self._stage(part.images, Tick(turn, weight))
        scale = 1.0 if self.scaler is None else self.scaler.factor
        terms, grads = gradients(self.recipe, stage, self.working.parameters, self.settings.awp, scale)
        grads = self.working.widened(grads)
        self._shared(grads, part.share)
        overflow = None if self.scaler is None else self.scaler.settle(grads)
        self.optimizer.step(grads, rate, overflow)
        self._averaged()
        self._counted(terms, stage)
        if last:
            self.number += 1

    def _stage(self, count: int, tick: Tick) -> Stage:
        raw = self.feed.read(self.number, count)
        return Stage(
            self.working.net,
            self.drawn(raw.images, raw.keys),
            raw.labels,
            self.threat,
            Noise(raw.keys),
            tick,
            self.precision,
            self.settings.smoothing,
            self.memory,
            joined=self.joined,
            compiled=self.compiled,
            posed=self.posed,
        )

    def _drawn(self, images: Tensor, keys: Tensor) -> Tensor:
        """The images of a batch as the network will see them, augmented with each image's own numbers."""
        images = to_unit(self.augment(images, Noise(keys).fold(0)))
        cuda = self.device.type == "cuda"
        return images.contiguous(memory_format=torch.channels_last) if cuda else images

    def _shared(self, grads: list[Tensor], share: float) -> None:
        """The mean of the gradients over all images of all processes."""
        if self.group.count == 1:
            return
        flat = torch.cat([grad.flatten() for grad in grads]) * (share / self.group.count)
        dist.all_reduce(flat)
        for grad, whole in zip(grads, torch.split(flat, [grad.numel() for grad in grads]), strict=True):
            grad.copy_(whole.view_as(grad))

    @torch.no_grad()
    def _averaged(self) -> None:
        if self.average is None:
            return
        # Parameters and buffers, not the state by its names: a tensor that has two moves once.
        pairs = zip(_tensors(self.average), _tensors(self.model), strict=True)
        real = [(old, new) for old, new in pairs if old.is_floating_point()]
        torch._foreach_lerp_([old for old, _ in real], [new for _, new in real], 1 - self.settings.ema)

    @torch.no_grad()
    def _counted(self, terms: Terms, stage: Stage) -> None:
        count = len(stage.y)
        values = {"loss": terms.loss * count}
        values |= {name: term * count for name, term in terms.terms.items()}
        if terms.clean is not None:
            values["clean accuracy"] = 100.0 * (terms.clean.argmax(1) == stage.y).sum()
        if terms.adversarial is not None:
            values["adversarial accuracy"] = 100.0 * (terms.adversarial.argmax(1) == stage.y).sum()
        values["images"] = torch.full_like(terms.loss, count)
        for name, value in values.items():
            if name not in self.sums:
                self.sums[name] = torch.zeros((), device=self.device)
            self.sums[name] += value.float()


def _tensors(model: nn.Module) -> list[Tensor]:
    return [*model.parameters(), *model.buffers()]
