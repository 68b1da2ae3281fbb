"""Training from the first epoch to the model card; the same command goes on with what a kill left."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from gamagat.data.core import Dataset, load_data
from gamagat.defenses.core import Precision
from gamagat.engine.checks import check_door
from gamagat.engine.manifest import circumstances, data_hash, write_json
from gamagat.engine.plan import read_threat
from gamagat.engine.ranks import Ranks, ranks
from gamagat.engine.runtime import borrowed, choose_device
from gamagat.engine.training.checkpoint import (
    SOUND,
    Story,
    load_checkpoint,
    save,
    save_checkpoint,
    weights_of,
)
from gamagat.engine.training.feed import divided, make_feed, my_order, shuffled
from gamagat.engine.training.probe import OnCollapse, Probe, collapsed, probes
from gamagat.engine.training.settings import Plan, Settings, make_plan
from gamagat.engine.training.step import Trainer
from gamagat.errors import ConfigError, RunError
from gamagat.models.core import build_model
from gamagat.pieces.augment import Augment, crop_flip, resized_crop_flip, untouched
from gamagat.pieces.noise import Noise
from gamagat.pieces.threat import ThreatModel

RUN, METRICS = "training.json", "metrics.jsonl"
SELECTED, LAST = "model.safetensors", "last.safetensors"
MOST_ATTEMPTS = 3
LONG = 1800.0  # seconds from which a run without a GPU is worth a warning


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


class Listener(NamedTuple):
    """Whom training talks to while it runs."""

    epoch: Callable[[dict[str, Any], Settings], None] = lambda row, settings: None
    batch: Callable[[int, int, int, int], None] = lambda epoch, epochs, done, total: None
    say: Callable[[str], None] = lambda words: None


@dataclass(frozen=True, slots=True)
class Trained:
    """What came out."""

    folder: Path
    plan: Plan
    story: Story
    threat: ThreatModel
    request: TrainingRequest
    seconds: float


def train(request: TrainingRequest, listener: Listener = Listener()) -> Trained:
    """Train, or go on with it, until the last epoch; the weights are in the folder afterwards."""
    with ranks() as group:
        listener = listener if group.first else Listener()  # the others have the same to say
        device = group.device(choose_device(request.device))
        train_data, val_data = _data(request)
        threat = read_threat(request.norm, request.eps, dict(train_data.eps))
        plan = make_plan(
            request.recipe, train_data.preset or train_data.name, request.model, **request.options or {}
        )
        precision = choose_precision(request.precision, device)
        trainer = _trainer(request, plan, train_data, threat, device, precision, group)
        folder = _folder(request, plan, train_data, threat, device, group)
        probe = Probe(
            val_data.head(plan.settings.probe), threat, device, probes(train_data.preset), precision.attack
        )
        story = load_checkpoint(folder, trainer) or Story()
        board = tensorboard(folder) if request.tensorboard and group.first else None
        course = Course(request, plan, trainer, train_data, probe, folder, group, listener, story, board)
        course.run()
    seconds = sum(row["seconds"] for row in course.story.rows)
    return Trained(folder, plan, course.story, threat, request, seconds)


def tensorboard(folder: Path) -> Callable[[dict[str, Any]], None]:
    """Write each epoch's numbers for TensorBoard, too."""
    try:
        from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415 - only where it is asked for
    except ImportError:
        raise ConfigError("--tensorboard needs the package tensorboard; install it or leave it out") from None
    writer = SummaryWriter(str(folder / "tensorboard"))

    def write(row: dict[str, Any]) -> None:
        for kind in ("train", "val"):
            for name, value in row[kind].items():
                writer.add_scalar(f"{kind}/{name}", value, row["epoch"])
        writer.flush()

    return write


def choose_precision(name: str, device: torch.device) -> Precision:
    """fp16 for the attack and bfloat16 for the rest on a GPU; single precision otherwise."""
    if name not in ("auto", "fp32"):
        raise ConfigError(f"precision must be auto or fp32, got {name!r}")
    fast = name == "auto" and device.type == "cuda"
    return Precision(torch.float16, torch.bfloat16) if fast else Precision()


def _data(request: TrainingRequest) -> tuple[Dataset, Dataset]:
    train_data = load_data(request.data, "train", request.data_dir).head(request.n)
    return train_data, load_data(request.data, "val", request.data_dir)


def _folder(
    request: TrainingRequest,
    plan: Plan,
    data: Dataset,
    threat: ThreatModel,
    device: torch.device,
    group: Ranks,
) -> Path:
    """The folder of the run; one that holds another run is refused."""
    folder, path = request.out, request.out / RUN
    settings = {
        "recipe": plan.name,
        **plan.written(),
        "model": request.model,
        "data": request.data,
        "data_sha256": data_hash(data),
        "n": len(data),
        "norm": threat.norm.name,
        "eps": threat.eps,
        "seed": request.seed,
        "precision": request.precision,
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"cannot make the folder {folder}: {error.strerror}; give another --out") from None
    if path.is_file():
        kept = _kept(path)
        changed = [
            f"{key} was {kept.get(key)} and is {value}"
            for key, value in settings.items()
            if kept.get(key) != value and (key != "data_sha256" or kept.get("n") == len(data))
        ]
        if changed:
            raise RunError(
                f"{folder} holds another training ({'; '.join(changed)}); repeat the settings to go on, "
                "or give another --out"
            )
    elif group.first:
        write_json(path, settings | {"made": circumstances(device, plan.settings.batch, group.count)})
    group.wait()
    return folder


def _kept(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text()))
    except (OSError, ValueError, TypeError) as error:
        raise RunError(f"cannot read {path}: {error}; give another --out") from None


def _trainer(
    request: TrainingRequest,
    plan: Plan,
    data: Dataset,
    threat: ThreatModel,
    device: torch.device,
    precision: Precision,
    group: Ranks,
) -> Trainer:
    size = plan.settings.batch // group.count
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(request.seed % (1 << 63))
        model = build_model(request.model, len(data.classes), data.shape[0])
    model = model.to(device).train()
    with borrowed(model):
        check_door(model, data, device)
    if device.type == "cuda":
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    divided(len(data), plan.settings.batch, group)
    feed = make_feed(data, size, device)
    trainer = Trainer(
        model, plan.recipe, plan.settings, threat, feed, size, _augment(plan.settings, data), precision, group
    )
    if plan.name == "free":
        trainer.remember(data.shape)
    return trainer


def _augment(settings: Settings, data: Dataset) -> Augment:
    usual = {"cifar10": "crop-flip", "imagenet100": "resized-crop-flip"}.get(data.preset or "", "none")
    kind = usual if settings.augment == "auto" else settings.augment
    return {"none": untouched, "crop-flip": crop_flip(), "resized-crop-flip": resized_crop_flip()}[kind]


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

    def run(self) -> None:
        """From the first epoch that is not done to the last, or to where the watchdog ends it."""
        while len(self.story.rows) < self.plan.settings.epochs and self.story.ended is None:
            self._epoch(len(self.story.rows))
        if self.group.first:
            save(self.folder / LAST, weights_of(self.trainer).state_dict())
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
        row = {"epoch": epoch, "train": told, "val": self.probe.look(network)}
        row |= {
            "seconds": perf_counter() - began,
            "images_per_second": len(self.data) * self.plan.settings.replays / trained,
        }
        self._judge(row)

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
        for number, part in enumerate(parts):
            trainer.batch(number, part)
            self.listener.batch(epoch, settings.epochs, number + 1, len(parts))
            self._forecast(epoch, number, len(parts))

    def _forecast(self, epoch: int, number: int, total: int) -> None:
        """Without a GPU, say after a few batches how long it will take if that is long."""
        if epoch > 0 or self.trainer.device.type != "cpu" or not self.group.first:
            return
        if number == 1:
            self.began = perf_counter()
        elif number == 4:
            whole = (perf_counter() - self.began) / 3 * total * self.plan.settings.epochs
            if whole > LONG:
                self.listener.say(
                    f"without a GPU this takes about {_spoken(whole)}; small runs are --data digits --model "
                    "digits-cnn (a minute), --data mnist --model m-lenet --set epochs=5, or --n 1000"
                )

    def _judge(self, row: dict[str, Any]) -> None:
        """Write down the epoch; keep it if it is the best or sound; act if the network has collapsed."""
        story, epoch = self.story, row["epoch"]
        # A network that nobody taught to resist has nothing to collapse from.
        row["collapsed"] = self.plan.recipe.selected_by != "clean" and collapsed(row["val"])
        story.rows.append(row)
        if not row["collapsed"]:
            story.sound = epoch
        if self.group.first:
            if story.best(self.plan.recipe.selected_by) == epoch:
                save(self.folder / SELECTED, weights_of(self.trainer).state_dict())
            if not row["collapsed"] and self.request.on_collapse != OnCollapse.WARN:
                save_checkpoint(self.folder, self.trainer, story, SOUND)
        self.listener.epoch(row, self.plan.settings)
        if self.board is not None:
            self.board(row)
        if row["collapsed"]:
            self._collapsed(row)
        if self.group.first:
            save_checkpoint(self.folder, self.trainer, self.story)
            _write_metrics(self.folder, self.story)
        self.group.wait()

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
