"""gamagat for someone who has a torch module and tensors."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from gamagat.attacks.combine import restarts as begin_again
from gamagat.attacks.core import ATTACKS, FEW_CLASSES, USES_DLR, Attack, check_norm
from gamagat.attacks.network import Network, predict
from gamagat.attacks.outcome import Outcome
from gamagat.data.core import Dataset, from_tensors, load_data
from gamagat.engine.checks import check_batch_size, check_images, check_labels, check_model, said
from gamagat.engine.checkup.idle import idle_of
from gamagat.engine.doctor import Finding, examine
from gamagat.engine.evaluate import INTERRUPTED, Words
from gamagat.engine.evaluate import evaluate as run_evaluation
from gamagat.engine.plan import families, plan_attacks, read_threat
from gamagat.engine.results import Evaluation
from gamagat.engine.runtime import borrowed, default_batch_size, device_of, fitted, own_dice, uncast
from gamagat.engine.verify import Verification, verify_folder
from gamagat.engine.watch import Onlooker
from gamagat.errors import ConfigError, DataError, ModelError, unknown
from gamagat.pieces.noise import Noise
from gamagat.pieces.threat import ThreatModel
from gamagat.pieces.trees import lift
from gamagat.pieces.types import Images, Labels, Model, Scores
from gamagat.registry import parse_spec, read_value, write_value


@dataclass(frozen=True, slots=True)
class ReadyAttack:
    """An attack on one network: call it with images in [0, 1] and labels, get adversarial images."""

    search: Attack
    model: Callable[[Images], Scores]
    threat: ThreatModel
    seed: int = 0
    batch_size: int | None = None
    uses_dlr: bool = False
    look: Callable[[Model, Images], Labels] = predict  # by which an image has fallen or not

    def __call__(self, images: Images, labels: Labels, ids: Labels | None = None) -> Images:
        """An adversarial image for each image, within eps of it; the last try where none was found."""
        made, x = self.run(images, labels, ids).images, _wide(images)
        # An attack that looks for the nearest adversarial image goes on beyond eps, where none counts.
        inside = lift(self.threat.contains(made, x), made)
        return torch.where(inside, made, x + self.threat.project(made - x, x))

    def run(self, images: Images, labels: Labels, ids: Labels | None = None) -> Outcome:
        """The adversarial images with the step at which each fell and what it cost.

        Those of fab, cw and ddn are the nearest that were found, and may lie beyond eps.
        The random start of an image depends on the seed and on its id (its position, unless `ids` says
        otherwise), never on the batch it is in.
        """
        check_images(images, labels)
        ids = torch.arange(len(images)) if ids is None else torch.as_tensor(ids)
        if ids.shape != labels.shape or ids.is_floating_point():
            raise DataError(f"ids must be {len(images)} whole numbers, got {tuple(ids.shape)} of {ids.dtype}")
        device = device_of(self.model) or images.device
        size = self.batch_size or default_batch_size(tuple(images.shape[1:]), device)
        with borrowed(self.model), uncast(), own_dice(self.seed):
            net = fitted(self.model, _wide(images[:1]).dtype)
            network, labels = Network(net, size, look=self.look), labels.long()
            classes = check_model(net, _wide(images[: min(size, 16)]).to(device))
            check_labels(labels, classes)
            if self.uses_dlr and classes < 4:
                warnings.warn(f"the network has {classes} classes. {FEW_CLASSES}", stacklevel=3)
            parts = [
                self.search(network, x.to(device), y.to(device), self.threat, noise)
                for x, y, noise in self._batches(images, labels, ids, size, device)
            ]
        return Outcome(*(torch.cat(column).to(images.device) for column in zip(*parts, strict=True)))

    def _batches(
        self, images: Images, labels: Labels, ids: Labels, size: int, device: torch.device
    ) -> Iterator[tuple[Images, Labels, Noise]]:
        for first in range(0, len(images), size):
            part = slice(first, first + size)
            yield _wide(images[part]), labels[part], Noise.for_images(ids[part].to(device), self.seed)


def _wide(images: Images) -> Images:
    """Images in single precision at least, as a tensor of our own: a perturbation is lost in half of it."""
    images = images.detach().clone()
    return images if images.dtype == torch.float64 else images.float()


def attack(
    name: str,
    model: Callable[[Images], Scores],
    *,
    eps: str | float,
    norm: str = "linf",
    preset: str | None = None,
    restarts: int = 1,
    seed: int = 0,
    batch_size: int | None = None,
    **options: Any,
) -> ReadyAttack:
    """An attack by name on a network that takes images in [0, 1] and returns logits.

    `gamagat.attack("gama-pgd", model, eps="8/255")(images, labels)` returns adversarial images. `preset` is a
    family of settings, such as "mnist"; `options` are those that `gamagat list attacks` shows, also as part
    of the name: "gama-pgd:steps=50".
    """
    _check_callable(model)
    batch_size = _size(batch_size)
    _check_preset(preset)
    name, given = parse_spec(name)
    options = given | options
    for finding in idle_of(name, options, preset):
        warnings.warn(finding.words, stacklevel=2)
    times, seed = whole(restarts, "restarts"), whole(seed, "seed")
    search = begin_again(ATTACKS.make(name, preset, **options), times)
    threat = read_threat(norm, eps)
    check_norm(name, threat.norm)
    return ReadyAttack(search, model, threat, seed, batch_size, USES_DLR in ATTACKS[name].tags)


def _check_callable(model: Any) -> None:
    if not callable(model):
        raise ConfigError(
            f"the model must be a torch module or a function of images, got {type(model).__name__}; "
            "gamagat.load_model makes one of a name"
        )


def whole(value: Any, what: str) -> int:
    """A whole number of Python's, of numpy's, or in words."""
    number: int = read_value(write_value(value), int, what)
    return number


def _size(given: Any) -> int | None:
    size = None if given is None else whole(given, "the batch size")
    check_batch_size(size)
    return size


def _names(attacks: Any) -> list[str]:
    """Attacks in words: where they are to be made anew and kept, an object will not do."""
    several = isinstance(attacks, Iterable) and not isinstance(attacks, str)
    names = list(attacks) if several else [attacks]
    for name in names:
        if not isinstance(name, str):
            raise ConfigError(
                f"evaluate takes attacks by name, such as 'gama-pgd:steps=50', got {type(name).__name__}"
            )
    return names


def _check_preset(name: str | None) -> None:
    """Refuse a family of data that nobody has heard of: its settings would be the usual ones."""
    if name is not None and name not in families():
        raise unknown("preset", name, families())


def _warn(words: str) -> None:
    warnings.warn(words, stacklevel=4)


def evaluate(
    model: Callable[[Images], Scores],
    data: Dataset | str | tuple[Images, Labels] | Iterable[tuple[Images, Labels]],
    attacks: str | Sequence[str] = ("gama-pgd",),
    *,
    eps: str | float | None = None,
    norm: str = "linf",
    restarts: int = 1,
    seed: int = 0,
    batch_size: int | None = None,
    out: str | Path | None = None,
    onlooker: Onlooker = Onlooker(say=_warn),
    force: bool = False,
    preset: str | None = None,
) -> Evaluation:
    """Clean accuracy, accuracy under each attack, and the worst case; the judge confirms every success.

    `data` is a data set of gamagat's or its name, images and labels, or batches of them such as a DataLoader.
    A data set brings the settings of attacks that are usual for it; `preset`, such as "mnist", does so for
    tensors.
    With `out` the run is kept in that folder, and the same call goes on with it. The doctor looks first: what
    makes the numbers worthless is an error unless `force` is given, the rest is told to the onlooker.
    """
    batch_size, restarts, seed = _size(batch_size), whole(restarts, "restarts"), whole(seed, "seed")
    attacks = _names(attacks)
    _check_callable(model)
    _check_preset(preset)
    data = data if isinstance(data, Dataset) else _gathered(model, data, force)
    data = replace(data, preset=preset or data.preset)
    device = device_of(model) or torch.device("cpu")
    threat = read_threat(norm, eps, dict(data.eps))
    plan = plan_attacks(attacks, data.preset, restarts, threat.norm)
    given = eps if isinstance(eps, str) else None
    _heed(
        examine(model, data, device=device, threat=threat, attacks=attacks, quick=True, eps_given=given),
        onlooker,
        force,
    )
    result = run_evaluation(
        model,
        data,
        threat,
        plan,
        device=device,
        batch_size=batch_size or default_batch_size(data.shape, device),
        seed=seed,
        onlooker=onlooker,
        words=Words(model=type(model).__name__, eps=None if eps is None else str(eps)),
        out=None if out is None else Path(out),
        force=force,
    )
    if result.stopped == INTERRUPTED:  # what is known is in `out`; nobody must take it for the whole
        raise KeyboardInterrupt
    return result


def verify(
    folder: str | Path,
    weights: str | Path | None = None,
    data_dir: str | Path | None = None,
    device: str = "auto",
    data: Dataset | str | tuple[Images, Labels] | Iterable[tuple[Images, Labels]] | None = None,
    model: Callable[[Images], Scores] | None = None,
) -> Verification:
    """Make every claim of a run again, from its stored images.

    Network and data are those that its manifest names; `weights` and `data` tell where these lie now. A run
    of `gamagat.evaluate` wants the `model` and the `data` that it was made with. Hashes tell whether all of
    it is the same.
    """
    if model is not None:
        _check_callable(model)
    if not (data is None or isinstance(data, Dataset | str)):
        if model is None:
            raise ConfigError("tensors want the network that they are for; give model= as well")
        data = _gathered(model, data, force=True)
    return verify_folder(folder, weights, data_dir, device, data, model)


def _heed(findings: list[Finding], onlooker: Onlooker, force: bool) -> None:
    for finding in findings:
        if finding.stops and not force:
            raise ModelError(finding.words)
        onlooker.say(finding.words)


def _gathered(model: Callable[[Images], Scores], data: Any, force: bool) -> Dataset:
    """A data set from its name, from tensors, or from batches of them."""
    if isinstance(data, str):
        return load_data(data)
    try:
        tensors = data if isinstance(data, tuple) else tuple(map(torch.cat, zip(*data, strict=True)))
        images, labels = tensors
    except (TypeError, ValueError, RuntimeError) as error:
        raise DataError(
            "data must be a data set or its name, (images, labels), or batches of them, "
            f"got {type(data).__name__}: {said(error)}"
        ) from error
    return _dataset(model, images, labels, force)


def _dataset(model: Callable[[Images], Scores], images: Images, labels: Labels, force: bool) -> Dataset:
    """Tensors as a data set; the network says how many classes there are."""
    check_images(images, labels)
    with borrowed(model), uncast(), own_dice(0):
        first = _wide(images[:1]).float().to(device_of(model) or images.device)
        classes = check_model(fitted(model), first, force)
    check_labels(labels.long(), classes)
    names = tuple(map(str, range(classes)))
    return from_tensors(
        _wide(images).cpu().float(),
        name="tensors",
        labels=labels.cpu().long(),
        ids=torch.arange(len(labels)),
        classes=names,
    )
