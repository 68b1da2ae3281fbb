"""Training from the first epoch to the model card; the same command goes on with what a kill left."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from gamagat.data.core import DATASETS, Dataset
from gamagat.defenses.core import DEFENSES, Precision
from gamagat.engine.alone import LOCK, alone_in
from gamagat.engine.checks import check_door
from gamagat.engine.manifest import circumstances, data_hash, write_json
from gamagat.engine.places import data_in_full
from gamagat.engine.plan import read_threat
from gamagat.engine.ranks import Ranks, ranks
from gamagat.engine.runtime import (
    borrowed,
    choose_device,
    default_batch_size,
    full_precision,
    telling_of_loss,
)
from gamagat.engine.training.checkpoint import Story, load_checkpoint
from gamagat.engine.training.course import LAST, METRICS, SELECTED, Course, Listener, TrainingRequest
from gamagat.engine.training.feed import divided, make_feed
from gamagat.engine.training.passes import training_passes
from gamagat.engine.training.posed import given_back, means
from gamagat.engine.training.probe import Probe, probes
from gamagat.engine.training.settings import Plan, make_plan, of_the_start, told_idle
from gamagat.engine.training.splits import split_data
from gamagat.engine.training.step import Trainer
from gamagat.engine.watch import Onlooker
from gamagat.errors import ConfigError, RunError, unknown
from gamagat.models.core import build_model
from gamagat.pieces.augment import Augment, crop_flip, resized_crop_flip, untouched
from gamagat.pieces.threat import ThreatModel

__all__ = ["LAST", "METRICS", "SELECTED", "Listener", "Trained", "TrainingRequest", "train", "usual_model"]

RUN = "training.json"
LONG = 100_000  # passes of a batch from which on compiling pays, also where nothing is kept from before
USUAL = {  # the paper's networks
    "digits": "digits-cnn",
    "mnist": "m-lenet",
    "cifar10": "resnet18-gat",
    "imagenet100": "resnet18-imagenet",
}


@dataclass(frozen=True, slots=True)
class Trained:
    """What came out."""

    folder: Path
    plan: Plan
    story: Story
    threat: ThreatModel
    request: TrainingRequest
    seconds: float
    classes: tuple[str, ...] = ()  # of the data, in the order of the logits


def train(request: TrainingRequest, listener: Listener = Listener()) -> Trained:
    """Train, or go on with it, until the last epoch; the weights are in the folder afterwards."""
    with ranks() as group, ExitStack() as held:
        listener = listener if group.first else Listener()  # the others have the same to say
        device = group.device(choose_device(request.device))
        held.enter_context(telling_of_loss(device))
        train_data, val_data = _data(request)
        threat = read_threat(request.norm, request.eps, dict(train_data.eps))
        family = _family(request, train_data)
        plan = make_plan(request.recipe, family, request.model, **request.options or {})
        precision = choose_precision(request.precision, device)
        if request.precision == "fp32":  # and not TF32, which torch allows in convolutions
            held.enter_context(full_precision())
        trainer = _trainer(request, plan, train_data, threat, device, precision, group)
        held.enter_context(_alone(_made(request.out), group))
        folder = _folder(request, plan, train_data, threat, device, group)
        probe = Probe(
            val_data.head(plan.settings.probe), threat, device, probes(family), precision.attack,
            batch_size=_looked_at(val_data.shape, device), recorder=trainer.recorder,
            quick=request.precision == "auto",
            onlooker=Onlooker(lambda _, done, total: listener.look(done, total)),
        )  # fmt: skip
        story = load_checkpoint(folder, trainer) or Story()
        if trainer.compiled and len(story.rows) < plan.settings.epochs:
            listener.say(
                "compiling the training step: up to two minutes the first time, then less; --no-compile "
                "goes without"
            )
        for words in (*told_idle(plan), of_the_start(plan, len(train_data))):
            if words is not None:
                listener.say(words)
        board = tensorboard(folder) if request.tensorboard and group.first else None
        ball = f"{threat.norm.name} {threat.eps:.6g}"
        listener.begins(
            f"{request.model} on {len(train_data):,} images of {request.data}, {ball}: {plan.spec}"
        )
        course = Course(request, plan, trainer, train_data, probe, folder, group, listener, story, board)
        try:
            course.run()
        finally:
            given_back(trainer.model)
    seconds = sum(row["seconds"] for row in course.story.rows)
    return Trained(folder, plan, course.story, threat, request, seconds, train_data.classes)


def _family(request: TrainingRequest, data: Dataset) -> str:
    """The family of data whose settings are used."""
    if request.preset is None:
        return data.preset or data.name
    known = {family.partition("/")[0] for family in DEFENSES.families()} - {"any"}
    if request.preset not in known:
        raise unknown("preset", request.preset, known)
    return request.preset


def usual_model(data: str) -> str:
    """The network that the paper trains on these data."""
    if data not in USUAL and DATASETS[data.partition(":")[0]]:  # a slip of the pen is refused by its name
        raise ConfigError(f"there is no usual network for {data!r}; say it, such as --model resnet18")
    return USUAL[data]


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
    """Half precision on a GPU, single otherwise.

    The one run of GAT with bfloat16 in its training passes collapsed at the end; it is suspected, not shown,
    that a drift of probabilities that has become small is lost in its eight binary digits.
    """
    if name not in ("auto", "fp32"):
        raise ConfigError(f"precision must be auto or fp32, got {name!r}")
    fast = name == "auto" and device.type == "cuda"
    return Precision(torch.float16, torch.float16) if fast else Precision()


def _looked_at(shape: tuple[int, ...], device: torch.device) -> int:
    """Validation images that are looked at together: a recording wants many."""
    if device.type == "cpu":
        return default_batch_size(shape, device)
    return 1000 * max(1, 4000 // torch.Size(shape).numel())


def _data(request: TrainingRequest) -> tuple[Dataset, Dataset]:
    train_data = split_data(request.data, "train", request.data_dir).head(request.n)
    return train_data, split_data(request.data, "val", request.data_dir)


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
        "data": data_in_full(request.data),
        "data_sha256": data_hash(data),
        "n": len(data),
        "norm": threat.norm.name,
        "eps": threat.eps,
        "seed": request.seed,
        "precision": request.precision,
    }
    if path.is_file():
        kept = _kept(path)
        kept["data"] = data_in_full(str(kept.get("data")))  # as it was typed then, if it was typed here
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


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"cannot make the folder {folder}: {error.strerror}; give another --out") from None
    return folder


@contextmanager
def _alone(folder: Path, group: Ranks) -> Iterator[None]:
    """No other training in this folder: two would take turns in writing its weights."""
    with ExitStack() as held:
        refused = group.heard(_taken(folder, held) if group.first else None)
        if refused is not None:
            raise RunError(refused)
        yield


def _taken(folder: Path, held: ExitStack) -> str | None:
    """Take the folder; why not, if somebody else has it."""
    words = f"another process is training in {folder}; wait for its end, or give another --out"

    def refuse() -> None:
        raise RunError(words)

    try:
        held.enter_context(alone_in(folder / LOCK, refuse))
    except RunError:
        return words
    return None


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
    compiled = _worth_compiling(request, plan, data, device)
    trainer = Trainer(
        model, plan.recipe, plan.settings, threat, feed, size, _augment(plan), precision, group,
        **means(model, data, device, precision.attack, compiled)._asdict(),
    )  # fmt: skip
    if plan.recipe.carries:
        trainer.remember(data.shape)
    return trainer


def _worth_compiling(request: TrainingRequest, plan: Plan, data: Dataset, device: torch.device) -> bool:
    """As it is asked for; else on a GPU, where training is long enough to win the minute back."""
    if request.compile is not None:
        return request.compile
    steps = plan.settings.epochs * plan.settings.replays * len(data) // plan.settings.batch
    return device.type == "cuda" and steps * training_passes(plan) >= LONG


def _augment(plan: Plan) -> Augment:
    usual = {"cifar10": "crop-flip", "imagenet": "resized-crop-flip"}.get(plan.family or "", "none")
    kind = usual if plan.settings.augment == "auto" else plan.settings.augment
    return {"none": untouched, "crop-flip": crop_flip(), "resized-crop-flip": resized_crop_flip()}[kind]
