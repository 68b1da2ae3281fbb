"""The course of a training: epoch after epoch, each measured, judged and kept."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from gamagat.data.core import Dataset
from gamagat.engine.ranks import Ranks
from gamagat.engine.scribe import Scribe
from gamagat.engine.training.checkpoint import (
    SOUND,
    Story,
    keep_sound,
    load_checkpoint,
    save,
    save_checkpoint,
    set_aside,
    tensors_of,
    weights_of,
)
from gamagat.engine.training.feed import divided, my_order, shuffled, told_of_one
from gamagat.engine.training.passes import probe_passes, training_passes
from gamagat.engine.training.probe import OnCollapse, Probe, collapsed
from gamagat.engine.training.settings import Plan, Settings
from gamagat.engine.training.step import Trainer
from gamagat.errors import RunError
from gamagat.models.loading.origin import WORD
from gamagat.pieces.noise import Noise

METRICS = "metrics.jsonl"
SELECTED, LAST = "model.safetensors", "last.safetensors"
MOST_ATTEMPTS = 3
LONG = 1800.0  # seconds from which a run without a GPU is worth a warning
QUEUED = 1.0  # seconds that it may take at most to ask a GPU for a whole epoch, before others get a turn


@dataclass(frozen=True, slots=True)
class TrainingRequest:
    """What a user asks for; None leaves the choice to the data set or the machine."""

    recipe: str
    data: str = "digits"
    model: str = "digits-cnn"
    out: Path = Path("run")
    data_dir: Path | None = None
    options: dict[str, str] | None = None
    norm: str = "linf"
    eps: str | None = None
    n: int | None = None
    seed: int = 0
    device: str = "auto"
    precision: str = "auto"
    on_collapse: OnCollapse = OnCollapse.WARN
    tensorboard: bool = False
    compile: bool | None = None  # None: where it pays
    preset: str | None = None  # the family of data whose settings are used; else the data set's own


class Listener(NamedTuple):
    """Whom training talks to while it runs."""

    epoch: Callable[[dict[str, Any], Settings], None] = lambda row, settings: None
    batch: Callable[[int, int, int, int], None] = lambda epoch, epochs, done, total: None
    say: Callable[[str], None] = lambda words: None
    begins: Callable[[str], None] = lambda words: None  # what is trained, with every setting
    look: Callable[[float, int], None] = lambda done, total: None  # after an epoch, without a GPU


@dataclass(slots=True)
class Course:
    """Epoch after epoch."""

    request: TrainingRequest
    plan: Plan
    trainer: Trainer
    data: Dataset
    probe: Probe
    folder: Path
    group: Ranks
    listener: Listener
    story: Story
    board: Callable[[dict[str, Any]], None] | None = None
    began: float = 0.0  # when the first batches were through
    scribe: Scribe = field(default_factory=Scribe)
    unwritten: Callable[[], None] | None = None  # what the scribe will be given

    def run(self) -> None:
        """From the first epoch that is not done to the last, or to where the watchdog ends it."""
        with self.scribe:
            try:
                while len(self.story.rows) < self.plan.settings.epochs and self.story.ended is None:
                    self._epoch(len(self.story.rows))
            finally:
                self._hand_over()
        if self.group.first:
            save(self.folder / LAST, set_aside(weights_of(self.trainer).state_dict())(), self._origin)
            _write_metrics(self.folder, self.story)  # a kill may have come between it and the checkpoint
        self.group.wait()

    def _epoch(self, epoch: int) -> None:
        began = perf_counter()
        seed = self.request.seed + 1_000_003 * self.story.attempt
        with self._chance(seed, epoch):
            self._batches(epoch, seed)
        told = self.trainer.told()
        trained = perf_counter() - began
        self._agree()
        network = weights_of(self.trainer)
        if self.trainer.device.type == "cuda":
            torch.cuda.synchronize()
        posed = self.trainer.posed if network is self.trainer.model else None  # an average has none
        looked = perf_counter()
        row = {"epoch": epoch, "train": told, "val": self.probe.look(network, posed)}
        ended = perf_counter()
        row |= {
            "seconds": ended - began,
            "look_seconds": ended - looked,
            "images_per_second": len(self.data) * self.plan.settings.replays / trained,
        }
        self._judge(self._heard(row))

    def _heard(self, row: dict[str, Any]) -> dict[str, Any]:
        """What the first process has to tell of an epoch, in all of them.

        Two GPUs may see the same images differently, and one that went back alone would leave others waiting.
        """
        return dict(json.loads(self.group.heard(json.dumps(row)) or ""))

    def _batches(self, epoch: int, seed: int) -> None:
        settings, trainer = self.plan.settings, self.trainer
        parts = divided(len(self.data), settings.batch, self.group)
        moments = [(epoch + number / len(parts)) / settings.epochs for number in range(len(parts))]
        # Steps fall between epochs, a wave flows through them.
        flat = [epoch / settings.epochs] * len(parts)
        rate = settings.rate_at()
        rates = [
            rate(done) for done in (moments if settings.cycle == "triangle" or settings.warmup else flat)
        ]
        trainer.begin(rates, [self.plan.recipe.weight(done + 1e-9) for done in flat])
        order = shuffled(len(self.data), seed, epoch)
        keys = Noise.for_images(self.data.ids, seed).fold(epoch).keys
        trainer.feed.begin(my_order(order, settings.batch, self.group), keys)
        began = perf_counter()
        for number, part in enumerate(parts):
            with told_of_one(part.images, settings.batch):
                trainer.batch(number, part)
            self.listener.batch(epoch, settings.epochs, number + 1, len(parts))
            self._forecast(epoch, number, len(parts))
            if self.unwritten is not None and perf_counter() - began > QUEUED:
                self._hand_over()
        self._hand_over()

    def _forecast(self, epoch: int, number: int, total: int) -> None:
        """Without a GPU, say after a few batches how long it will take if that is long."""
        if epoch > 0 or self.trainer.device.type != "cpu" or not self.group.first:
            return
        if number == 1:
            self.began = perf_counter()
        elif number == 4:
            settings, batch = self.plan.settings, (perf_counter() - self.began) / 3
            passed = self.trainer.size * settings.replays * training_passes(self.plan)
            looks = len(self.probe.data) * probe_passes(self.probe.attacks)
            whole = (batch * total + batch / passed * looks) * settings.epochs
            if whole > LONG:
                self.listener.say(
                    f"without a GPU this takes about {_spoken(whole)}; small runs are --data digits --model "
                    "digits-cnn (a minute), --data mnist --model m-lenet --set epochs=5, or --n 1000"
                )

    def _judge(self, row: dict[str, Any]) -> None:
        """Write down the epoch; keep it if it is the best or sound; act if the network has collapsed."""
        story, epoch = self.story, row["epoch"]
        if not math.isfinite(row["train"]["loss"]):
            wider = "" if self.trainer.scaler is None else " or --precision fp32"
            raise RunError(
                f"training has diverged: the loss of epoch {epoch} is no number; earlier epochs are kept "
                f"in {self.folder}; train again into another --out, with --set rate lower than "
                f"{self.plan.settings.rate:g}{wider}"
            )
        # A network that nobody taught to resist has nothing to collapse from.
        before = [past["val"] for past in story.rows]
        row["collapsed"] = self.plan.recipe.selected_by != "clean" and collapsed(
            row["val"], before, len(self.probe.data)
        )
        story.rows.append(row)
        if not row["collapsed"]:
            story.sound = epoch
        chosen = None
        if self.group.first and story.best(self.plan.recipe.selected_by) == epoch:
            chosen = set_aside(weights_of(self.trainer).state_dict())
        self.listener.epoch(row, self.plan.settings)
        if self.board is not None:
            self.board(row)
        if row["collapsed"]:
            self._collapsed(row)
        if self.group.first:
            self._keep(chosen, sound=not row["collapsed"])
        self.group.wait()

    def _keep(self, chosen: Callable[[], dict[str, Tensor]] | None, sound: bool) -> None:
        """Write down all as it is now, in the time of the next epoch.

        On a GPU once that has been asked for: a thread that writes holds up the one that asks.
        """
        copies, story = set_aside(tensors_of(self.trainer)), replace(self.story, rows=[*self.story.rows])

        def write() -> None:
            if chosen is not None:
                save(self.folder / SELECTED, chosen(), self._origin)
            save_checkpoint(self.folder, copies(), story)
            if sound:
                keep_sound(self.folder)
            _write_metrics(self.folder, story)

        self.unwritten = write
        if not self._asks_ahead:
            self._hand_over()

    @property
    def _origin(self) -> dict[str, str]:
        """What weights say of themselves wherever they are copied to."""
        return {WORD: self.request.model}

    @property
    def _asks_ahead(self) -> bool:
        """Whether the device is asked for a whole epoch before it has made the first steps."""
        return self.trainer.device.type == "cuda"

    def _hand_over(self) -> None:
        if self.unwritten is not None:
            self.scribe.write(self.unwritten)
            self.unwritten = None

    def _collapsed(self, row: dict[str, Any]) -> None:
        story, val = self.story, row["val"]
        words = (
            f"epoch {row['epoch']}: catastrophic overfitting: FGSM accuracy {val['fgsm']:.1f} %, PGD-10 "
            f"accuracy {val['pgd-10']:.1f} %"
        )
        if self.request.on_collapse == OnCollapse.WARN:
            self.listener.say(f"{words}; training goes on, the selected epoch is kept")
            return
        attempt = story.attempt
        self.scribe.wait()
        self.group.wait()  # the others read what the first process writes
        sound = load_checkpoint(self.folder, self.trainer, SOUND)
        if self.request.on_collapse == OnCollapse.STOP or sound is None or attempt >= MOST_ATTEMPTS:
            kept = "no epoch was sound" if sound is None else f"the weights of epoch {sound.sound} are kept"
            self.listener.say(f"{words}; training ends here, {kept}")
            story.ended = "collapsed"
            return
        self.listener.say(f"{words}; back to epoch {sound.sound}, with another order of the images")
        self.story = replace(sound, attempt=attempt + 1, ended=None)

    def _agree(self) -> None:
        """Several processes keep statistics of their own; measured and kept are their means."""
        if self.group.count == 1:
            return
        average = self.trainer.average
        for buffer in [*self.trainer.model.buffers(), *(average.buffers() if average else ())]:
            if buffer.is_floating_point():
                dist.all_reduce(buffer)
                buffer.div_(self.group.count)

    @contextmanager
    def _chance(self, seed: int, epoch: int) -> Iterator[None]:
        """What layers draw for themselves, such as dropout, depends on the seed and the epoch alone."""
        devices = [self.trainer.device] if self.trainer.device.type == "cuda" else []
        with torch.random.fork_rng(devices=devices):
            torch.manual_seed(hash((seed, epoch, self.group.rank)) % (1 << 62))
            yield


def _write_metrics(folder: Path, story: Story) -> None:
    path = folder / METRICS
    partial = path.with_name(f".{METRICS}.part")
    try:
        partial.write_text("".join(json.dumps(row) + "\n" for row in story.rows))
        partial.replace(path)
    except OSError as error:
        raise RunError(f"cannot write {path}: {error.strerror or error}; free some space") from None


def _spoken(seconds: float) -> str:
    return f"{seconds / 3600:.1f} hours" if seconds > 5400 else f"{seconds / 60:.0f} minutes"
