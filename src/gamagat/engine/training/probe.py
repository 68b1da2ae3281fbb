"""A look at the network after every epoch, and the watchdog that knows catastrophic overfitting by it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from enum import StrEnum
from math import isfinite, prod
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gamagat.data.core import Dataset
from gamagat.defenses.adversary import Adversary
from gamagat.defenses.core import Stand
from gamagat.engine.judge import winners
from gamagat.engine.quick.agreement import SAMPLE
from gamagat.engine.runtime import borrowed
from gamagat.engine.training.eyes import Eyes, quick_eyes
from gamagat.engine.training.step import Recorder, as_written
from gamagat.engine.watch import Onlooker, Watch
from gamagat.pieces.gradients import logits_of
from gamagat.pieces.losses import cross_entropy
from gamagat.pieces.noise import Noise
from gamagat.pieces.rules import projected_ascent
from gamagat.pieces.schedules import constant
from gamagat.pieces.starts import Start, at_image, uniform
from gamagat.pieces.threat import ThreatModel
from gamagat.pieces.types import Images, Labels, Scores


class OnCollapse(StrEnum):
    """What to do when a network collapses."""

    WARN = "warn"
    STOP = "stop"
    ROLLBACK = "rollback"


# GAP and SHARE: by how many points FGSM is ahead of PGD, and what share of its accuracy PGD leaves, when a
# network has collapsed. FALL and PARTED: how far PGD's has fallen from its best, and by how much more FGSM is
# ahead than it was there, in standard errors of an accuracy of one half: 1.6 points with 1,000 images.
GAP, SHARE, FALL, PARTED = 20.0, 0.5, 3.0, 5.0
LOSSES = ("clean", "pgd-10")  # what the cross-entropy is told of
STAYING = 1 << 26  # numbers in all images up to which they stay on the device
SELECTED_BY = {"mnist": ("ifgsm", 40), "imagenet": ("pgd", 20)}  # else ifgsm with 7 steps


def _ascent(start: Start, rate: float, steps: int) -> Adversary:
    return Adversary(start, cross_entropy, projected_ascent(constant(rate)), steps)


def probes(preset: str | None) -> dict[str, Adversary]:
    """The attacks of every epoch: one step, PGD, and the one that epochs are selected by."""
    kind, steps = SELECTED_BY.get(preset or "", ("ifgsm", 7))
    chosen = _ascent(at_image, 1 / steps, steps) if kind == "ifgsm" else _ascent(uniform, 2.5 / steps, steps)
    return {
        "fgsm": _ascent(at_image, 1.0, 1),
        "pgd-10": _ascent(uniform, 0.25, 10),
        "selection": chosen,
    }


class Part(NamedTuple):
    """Validation images on the device, and room for what is seen of them; a recording finds both in place."""

    x: Images
    y: Labels
    noise: Noise
    seen: Tensor


@dataclass(frozen=True, slots=True)
class Probe:
    """Validation images that every epoch is measured on."""

    data: Dataset
    threat: ThreatModel
    device: torch.device
    attacks: dict[str, Adversary]
    kind: torch.dtype | None = None  # what the attacks compute in
    batch_size: int = 1000
    recorder: Recorder | None = None  # whoever plays a look as one recording
    parts: dict[int, Part] = field(default_factory=dict)
    quick: bool = False  # whether attacks may see a stand-in that is made anew for each look
    onlooker: Onlooker = field(default_factory=Onlooker)  # whom a look on a CPU talks to

    def look(self, model: nn.Module, posed: Stand | None = None) -> dict[str, float]:
        """Accuracy in percent, clean and under each attack, and the cross-entropy of clean and PGD images.

        A stand-in may be seen in its place. The network comes back as it was.
        """
        if posed is not None:
            posed.renew()
        with borrowed(model):
            places = torch.split(torch.arange(len(self.data)), self.batch_size)
            eyes = self._eyes(model, posed)
            looks = [self._seen(eyes, (number, id(model)), part) for number, part in enumerate(places)]
        count, seen = len(self.data), torch.stack(looks).sum(0).tolist()
        names = ["clean", *self.attacks]
        accuracies = {name: 100 * right / count for name, right in zip(names, seen, strict=False)}
        losses = {name: loss / count for name, loss in zip(LOSSES, seen[len(names) :], strict=True)}
        return accuracies | {
            f"{name} validation loss": loss for name, loss in losses.items() if isfinite(loss)
        }

    def _eyes(self, model: nn.Module, posed: Stand | None) -> Eyes:
        if posed is not None:
            return Eyes(posed)
        network = self._cast(model)
        if self.device.type != "cpu":  # a recording cannot tell how far it is
            return Eyes(network)
        steps = sum(attack.steps for attack in self.attacks.values())
        watch = Watch(self.onlooker, "a look", len(self.data), steps)
        sample, _ = self.data.batch(torch.arange(min(SAMPLE, len(self.data))), self.device)
        return Eyes(network, quick_eyes(model, sample) if self.quick else None, watch)

    def _seen(self, eyes: Eyes, key: tuple[int, int], places: Tensor) -> Tensor:
        """What is seen of some images: how often the network is right of each kind, and its losses."""
        if self.recorder is None or len(self.data) * prod(self.data.shape) > STAYING:
            return self._counted(eyes, self._part(places))
        number, _ = key
        if number not in self.parts:
            self.parts[number] = self._part(places)
        part = self.parts[number]

        def look() -> None:
            part.seen.copy_(self._counted(eyes, part))

        self.recorder.play(("look", *key), look)
        return part.seen

    def _part(self, places: Tensor) -> Part:
        x, y = self.data.batch(places, self.device)
        if self.device.type == "cuda":
            x = x.contiguous(memory_format=torch.channels_last)
        seen = torch.zeros(1 + len(self.attacks) + len(LOSSES), device=self.device)
        return Part(x, y, Noise.for_images(self.data.ids[places].to(self.device)), seen)

    def _counted(self, eyes: Eyes, part: Part) -> Tensor:
        x, y, noise, _ = part
        if eyes.watch is not None:
            eyes.watch.begin(len(x))
        with nullcontext() if len(x) == self.batch_size else as_written():
            views = {
                name: eyes.attacked(attack, x, y, self.threat, noise) for name, attack in self.attacks.items()
            }
        seen = {"clean": x, **views}
        logits = {name: self._logits(eyes.network, images) for name, images in seen.items()}
        if eyes.watch is not None:
            eyes.watch.end(len(x))
        right = [(winners(scores) == y).sum() for scores in logits.values()]
        losses = [F.cross_entropy(logits[name], y, reduction="sum") for name in LOSSES]
        return torch.stack([value.float() for value in (*right, *losses)])

    def _cast(self, model: nn.Module) -> Callable[[Images], Scores]:
        def answer(images: Images) -> Scores:
            with torch.autocast(self.device.type, self.kind, enabled=self.kind is not None):
                scores: Scores = model(images)
            return scores

        return answer

    @torch.no_grad()
    def _logits(self, network: Callable[[Images], Scores], images: Images) -> Scores:
        """In the precision of the attacks: epochs are compared with each other, and nothing is claimed."""
        with as_written():  # a shape and a mode of their own, a few times an epoch
            return logits_of(network, images)


def collapsed(now: dict[str, Any], before: Sequence[dict[str, Any]] = (), images: int = 1000) -> bool:
    """Whether single-step and PGD accuracy have parted: the network fools FGSM instead of resisting it.

    They have if PGD leaves less than half of what FGSM leaves; or if PGD accuracy, once there was some, has
    fallen since its best epoch while FGSM's has not fallen with it; or if FGSM's alone has risen since, far
    ahead of PGD's.
    """
    single, many = now["fgsm"], now["pgd-10"]
    if single - many > GAP and many < SHARE * single:
        return True
    best = max(before, key=lambda past: past["pgd-10"], default=now)
    parted = (single - many) - (best["fgsm"] - best["pgd-10"])
    error = 50 / images**0.5
    fallen = best["pgd-10"] - many
    behind = fallen > FALL * error or (fallen >= 0 and single - many > GAP)
    return bool(best["pgd-10"] > GAP and behind and parted > PARTED * error)
