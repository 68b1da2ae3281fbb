"""The work of an evaluation: chunk after chunk of images through one run after another, into the ledger."""

from __future__ import annotations

import gc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gamagat.attacks.combine import delicate, passes
from gamagat.attacks.core import Attack
from gamagat.attacks.network import Network, is_memory
from gamagat.attacks.outcome import Outcome
from gamagat.data.core import Dataset
from gamagat.engine.codec import encode
from gamagat.engine.judge import Verdict as Judged
from gamagat.engine.judge import judge, predict
from gamagat.engine.ledger import CLEAN, Ledger, Verdict
from gamagat.engine.manifest import Manifest
from gamagat.engine.quick.network import Quick
from gamagat.engine.ranks import Ranks
from gamagat.engine.run import NOT_RUN, Run
from gamagat.engine.watch import Onlooker, Watch
from gamagat.errors import ModelError
from gamagat.pieces.noise import Noise
from gamagat.pieces.threat import ThreatModel
from gamagat.pieces.types import Images, Labels, Model

SLACK = 4.0  # how many times the error of a stand-in a wrong class must lead by before an image has fallen
PATIENCE = 4  # steps on a GPU between two looks at which images have fallen

Look = Callable[[Model, Images], Labels]
Chunk = tuple[list[Verdict], dict[int, bytes]]  # verdicts, and the images of those that were fooled


@dataclass(slots=True)
class Arena:
    """All that stays the same from one attack to the next; the width shrinks when it must."""

    model: Model
    data: Dataset
    threat: ThreatModel
    device: torch.device
    width: int
    seed: int = 0
    deadline: float = float("inf")
    onlooker: Onlooker = field(default_factory=Onlooker)
    quick: Quick | None = None  # what attacks see in place of the model

    def network(self, watch: Watch | None = None) -> Network:
        """The model itself at its present width, under the eyes of the onlooker."""
        return self._network(self.model, watch, predict)

    def stand_in(self, attack: Attack, watch: Watch | None = None) -> Network | None:
        """What this attack sees in place of the model, if anything.

        Next to the boundary single precision decides, so an attack that looks for it asks the judge itself.
        """
        if self.quick is None or (self.quick.half and delicate(attack)):
            return None
        exact = self.network()
        ask = (lambda _, images: predict(exact, images)) if delicate(attack) else None
        return self._network(self.quick.model, watch, ask, SLACK * self.quick.error)

    def _network(self, model: Model, watch: Watch | None, look: Look | None, slack: float = 0.0) -> Network:
        seen = None if watch is None else watch.seen
        cuda = self.device.type == "cuda"
        return Network(model, self.width, cuda, self.deadline, seen, look, PATIENCE if cuda else 1, slack)


@dataclass(slots=True)
class Work:
    """What is known of every image so far, by position, and which chunks are this process's."""

    arena: Arena
    fooled: dict[str, NDArray[np.int8]]
    finished: set[tuple[str, int]]
    chunks: list[tuple[int, Tensor]]

    @classmethod
    def resume(cls, arena: Arena, run: Run, manifest: Manifest, group: Ranks) -> Work:
        """Take over what the ledgers hold."""
        count, ids = len(arena.data), arena.data.ids.numpy()
        known: dict[str, NDArray[np.int8]] = {}
        for entry in [CLEAN, *manifest.entries()]:
            known[entry] = np.full(count, NOT_RUN, np.int8)
            if len(run.ids):
                place = np.searchsorted(run.ids, ids).clip(0, len(run.ids) - 1)
                known[entry] = np.where(run.ids[place] == ids, run.fooled(entry)[place], NOT_RUN).astype(
                    np.int8
                )
        parts = torch.split(torch.arange(count), manifest.chunk)
        chunks = [(number, part) for number, part in enumerate(parts) if number % group.count == group.rank]
        return cls(arena, known, {(done.entry, done.chunk) for done in run.finished}, chunks)

    def left(self, names: list[str]) -> bool:
        """Whether one of these runs is not through with this process's chunks."""
        return any((name, number) not in self.finished for name in names for number, _ in self.chunks)

    def entry(self, ledger: Ledger, name: str, attack: Attack | None, before: list[str]) -> None:
        """One run of one attack over the images that the runs before it left standing; None: no attack."""
        todo = [(number, self._standing(part, before, attack)) for number, part in self.chunks]
        most = 1 if attack is None else passes(attack)
        watch = Watch(self.arena.onlooker, name, sum(len(part) for _, part in todo), most)
        for number, part in todo:
            if (name, number) not in self.finished:
                began = perf_counter()
                verdicts, images = self._chunk(watch, part, attack)
                ledger.record(name, number, verdicts, images, perf_counter() - began)
                self.fooled[name][part.numpy()] = [verdict.fooled for verdict in verdicts]
            watch.end(len(part))

    def _standing(self, part: Tensor, before: list[str], attack: Attack | None) -> Tensor:
        if attack is None:
            return part
        alive = self.fooled[CLEAN][part.numpy()] == 0
        for name in before:
            alive &= self.fooled[name][part.numpy()] != 1
        return part[torch.from_numpy(alive)]

    def _chunk(self, watch: Watch, part: Tensor, attack: Attack | None) -> Chunk:
        """The verdicts on these images; where memory does not suffice, again at half the width."""
        if len(part) == 0:
            return [], {}
        while True:
            watch.begin(len(part))
            try:
                return attacked(self.arena, part, attack, watch)
            except Exception as error:
                if not is_memory(error):
                    raise
            self._narrow()

    def _narrow(self) -> None:
        width = self.arena.width
        if width == 1:
            raise ModelError(
                "memory does not suffice for a single image; use another device or a smaller network"
            )
        self.arena.width = width // 2
        gc.collect()
        if self.arena.device.type == "cuda":
            torch.cuda.empty_cache()
        self.arena.onlooker.say(f"out of memory with {width} images at a time; going on with {width // 2}")


def attacked(arena: Arena, part: Tensor, attack: Attack | None, watch: Watch) -> Chunk:
    """Attack the images at these positions and judge what comes back; None: look at them as they are."""
    network, ids = arena.network(watch), arena.data.ids[part]
    x, y = arena.data.batch(part, arena.device)
    if attack is None:
        prediction = predict(network, x)
        outcome, distance = Outcome.untouched(x).costing(forwards=1), torch.zeros(len(x))
        fooled = prediction != y
    else:
        noise = Noise.for_images(ids.to(arena.device), arena.seed)
        outcome, (fooled, prediction, distance) = _judged(arena, attack, watch, x, y, noise)
    columns = (ids, fooled.int(), prediction, distance, outcome.step, outcome.forwards, outcome.backwards)
    verdicts = [Verdict(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]
    if attack is None:
        return verdicts, {}
    with ThreadPoolExecutor() as pool:  # compressing is most of it, and leaves the interpreter free
        images = pool.map(encode, outcome.images[fooled].cpu().numpy(), chunksize=32)
        return verdicts, dict(zip(ids[fooled.cpu()].tolist(), images, strict=True))


def _judged(
    arena: Arena, attack: Attack, watch: Watch, x: Images, y: Labels, noise: Noise
) -> tuple[Outcome, Judged]:
    """What the attack makes of the images, in float32 as they are stored, and what the judge says of them.

    Where the judge does not see an image fall that fell for the stand-in, the network itself is attacked.
    """
    network, stand_in = arena.network(watch), arena.stand_in(attack, watch)
    outcome = attack(stand_in or network, x, y, arena.threat, noise)
    outcome = outcome._replace(images=outcome.images.float())
    judged = judge(network, outcome.images, x, y, arena.threat)
    if stand_in is None or stand_in.asks:
        return outcome, judged
    doubtful = ((outcome.step >= 0) & (judged.prediction == y)).nonzero().flatten()
    if len(doubtful):
        x, y = x[doubtful], y[doubtful]
        again = attack(network, x, y, arena.threat, noise[doubtful])
        again = again._replace(images=again.images.float())
        outcome.put(doubtful, again)
        for column, news in zip(judged, judge(network, again.images, x, y, arena.threat), strict=True):
            column[doubtful] = news
    return outcome, judged
