"""One examination: some images, what the network made of them, and leave to ask it again."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from gamagat.data.core import Dataset
from gamagat.engine.checks import cause
from gamagat.engine.checkup.care import Keepsake
from gamagat.engine.findings import Finding
from gamagat.engine.runtime import default_batch_size
from gamagat.pieces.types import Images, Labels, Model, Scores

PROBE = 32  # images for whatever asks the network again
MOST = 500  # images for whatever is judged by accuracy
PIXELS = 1 << 25  # of all images together: 128 MiB


@dataclass(frozen=True, slots=True)
class Case:
    """Who is to be examined, and for what."""

    model: Model
    data: Dataset
    device: torch.device
    kept: Keepsake
    attacks: tuple[str, ...] = ()
    quick: bool = False


@dataclass(frozen=True, slots=True)
class Exam:
    """All that a check may look at."""

    case: Case
    images: Images
    labels: Labels
    outputs: Scores  # as the network returned them
    logits: Scores  # the same in single precision at least

    @property
    def probe(self) -> Images:
        """The images that are worth several passes."""
        return self.images[:PROBE]

    @property
    def classes(self) -> int:
        """How many classes the network tells apart."""
        return int(self.logits.shape[1])

    def right(self, logits: Scores | None = None) -> Tensor:
        """Which images are classified correctly, by these logits or by the first ones."""
        logits = self.logits if logits is None else logits
        return logits.argmax(1) == self.labels[: len(logits)]

    def ask(self, images: Images) -> Scores:
        """What the network says now, from the state it came in."""
        self.case.kept.rewind()
        return widened(answers(self.case.model, images))


Check = Callable[[Exam], Iterator[Finding]]


def spread(data: Dataset, quick: bool) -> Tensor:
    """Positions from the whole data set, evenly spread: folders are sorted by class."""
    fitting = max(100, min(MOST, PIXELS // max(1, math.prod(data.shape))))
    count = min(len(data), PROBE if quick else fitting)
    return torch.arange(count) * len(data) // count


@torch.no_grad()
def answers(model: Model, images: Images) -> Scores:
    """The network's own outputs, batch by batch; it is handed a copy and cannot change the images."""
    size = default_batch_size(tuple(images.shape[1:]), images.device)
    return torch.cat([model(part.clone()) for part in torch.split(images, size)])


def widened(logits: Scores) -> Scores:
    """Single precision at least."""
    return logits if logits.dtype == torch.float64 else logits.float()


def percent(mask: Tensor) -> float:
    """The share of true entries, in percent."""
    return 100 * float(mask.double().mean())


def surplus(before: Tensor, after: Tensor) -> float:
    """How many more images were gained than lost, in standard errors of chance."""
    gained, lost = int((after & ~before).sum()), int((before & ~after).sum())
    return (gained - lost) / math.sqrt(max(1, gained + lost))


def listed(names: list[str], most: int = 3) -> str:
    """The first few names and how many more there are."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def reason(error: Exception) -> str:
    """The first line of an error, short enough to be read in a list."""
    first = (cause(error).strip() or "no message").split("\n")[0].removesuffix(".")
    return f"{type(error).__name__}: {first if len(first) <= 200 else first[:197] + '...'}"
