"""The data contract: images that stay as small as they came, labels, and an id that never changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from torch import Tensor

from gamagat.data.files import located
from gamagat.errors import ConfigError, DataError, unknown
from gamagat.pieces.types import Images, Labels
from gamagat.registry import Registry

Reader = Callable[[Tensor], Tensor]  # positions -> images, uint8 in [0, 255] or float32 in [0, 1]

MOST_CLASSES = 1_000_000  # a label beyond is no class number but an identifier of something else
ROUNDING = 1e-3  # what normalising images and back may leave of them outside [0, 1], also in half precision

DATASETS: Registry[Dataset] = Registry("data set", "gamagat.data")


@dataclass(frozen=True, slots=True)
class Dataset:
    """Labelled images of one split.

    `read` is handed positions in this data set and returns exactly those images, so that a folder of
    photographs is never held in memory as a whole. `ids` name the images across splits, subsets and runs.
    """

    name: str
    read: Reader
    labels: Labels
    ids: Labels
    classes: tuple[str, ...]
    shape: tuple[int, int, int]  # channel, height, width
    preset: str | None = None  # which family of attack settings fits these images
    eps: Mapping[str, float] = field(default_factory=dict)  # usual radius for each norm, by the norm's name

    def __post_init__(self) -> None:
        if len(self.labels) == 0:
            raise DataError(f"data set {self.name!r} is empty; an evaluation needs at least one image")
        if len(self.ids) != len(self.labels):
            raise DataError(f"{self.name!r} has {len(self.labels)} labels but {len(self.ids)} ids")
        low, high = int(self.labels.min()), int(self.labels.max())
        if low < 0 or high >= len(self.classes):
            raise DataError(
                f"labels of {self.name!r} run from {low} to {high}, but its {len(self.classes)} classes are "
                f"numbered 0 to {len(self.classes) - 1}; renumber the labels"
            )

    def __len__(self) -> int:
        return len(self.labels)

    def head(self, count: int | None) -> Dataset:
        """The first `count` images (all of them for None)."""
        if count is None or count >= len(self):
            return self
        if count <= 0:
            raise ConfigError(f"the number of images must be positive, got {count}")
        return self.take(torch.arange(count))

    def take(self, positions: Tensor) -> Dataset:
        """The images at these positions, or where a mask is true, as a data set of its own."""
        positions = positions.cpu()
        if positions.dtype == torch.bool:
            positions = positions.nonzero().flatten()
        read = self.read
        return replace(
            self,
            read=lambda chosen: read(positions[chosen]),
            labels=self.labels[positions],
            ids=self.ids[positions],
        )

    def batch(self, positions: Tensor, device: torch.device | str = "cpu") -> tuple[Images, Labels]:
        """Images in [0, 1] and labels, on the device; the bytes travel, the floats are made there."""
        positions = positions.cpu()
        raw = self.read(positions)
        if raw.dtype != torch.uint8:
            check_unit(raw, self.name)
        return to_unit(raw.to(device)), self.labels[positions].to(device)


def check_unit(images: Tensor, name: str) -> None:
    """Refuse float images outside [0, 1]."""
    if not bool(((images >= 0) & (images <= 1)).all()):
        raise DataError(f"pixels of {name!r} must lie in [0, 1], {outside(images)}")


def outside(images: Tensor) -> str:
    """What is wrong with images that do not lie in [0, 1], and what to do about it."""
    if bool(images.isnan().any()):
        return "found NaN; leave out or mend these images"
    low, high = float(images.min()), float(images.max())
    if low >= -ROUNDING and high <= 1 + ROUNDING:
        return f"found values from {low:.9g} to {high:.9g}; take rounding errors off: images.clamp(0, 1)"
    advice = "divide them by 255" if low >= 0 and high <= 255 else "let the model normalise them"
    return f"found values from {low:g} to {high:g}; give raw images, and {advice}"


def to_unit(images: Tensor) -> Images:
    """Stored images as float32 in [0, 1], the same to the last bit on every device."""
    if images.dtype != torch.uint8:
        return images.to(torch.float32)
    # Divided by a plain number, CUDA multiplies by its reciprocal, which rounds differently from a CPU.
    return images.to(torch.float32) / torch.full((), 255.0, device=images.device)


def _at(images: Tensor, positions: Tensor) -> Tensor:
    """The images at these positions; those that follow each other as a slice, which need not be copied."""
    first, count = int(positions[0]) if len(positions) else 0, len(positions)
    follow = positions.dtype == torch.int64 and torch.equal(positions, torch.arange(first, first + count))
    inside = first >= 0 and first + count <= len(images)
    return images[first : first + count] if follow and inside else images[positions]


def from_tensors(
    images: Tensor,
    *,
    name: str,
    labels: Labels,
    ids: Labels | None = None,
    classes: Iterable[str] | None = None,
    preset: str | None = None,
    eps: Mapping[str, float] | None = None,
) -> Dataset:
    """A data set whose images are all in memory; ids are positions and classes numbers unless given."""
    if len(images) != len(labels):
        raise DataError(f"{name!r} has {len(images)} images but {len(labels)} labels; each image needs one")
    if images.ndim != 4:
        raise DataError(
            f"images of {name!r} must be (count, channel, height, width), got {tuple(images.shape)}"
        )
    channels, height, width = images.shape[1:]
    stored = images.dtype == torch.uint8  # floats may be handed on as they are, and must be copies
    if len(images) and 0 in images.shape:
        raise DataError(f"images of {name!r} have no pixels: their shape is {tuple(images.shape)}")
    return Dataset(
        name=name,
        read=lambda positions: _at(images, positions) if stored else images[positions],
        labels=labels,
        ids=torch.arange(len(labels)) if ids is None else ids,
        classes=numbered_classes(labels) if classes is None else tuple(classes),
        shape=(channels, height, width),
        preset=preset,
        eps=eps or {},
    )


def named(classes: Sequence[str]) -> bool:
    """Whether classes have names, and not only numbers."""
    return list(classes) != [str(number) for number in range(len(classes))]


def numbered_classes(labels: Labels) -> tuple[str, ...]:
    """Names for classes that have none: `0` up to the largest label."""
    count = int(labels.max()) + 1 if len(labels) else 0
    if count > MOST_CLASSES:
        raise DataError(
            f"the largest label is {count - 1}, and at most {MOST_CLASSES:,} classes are possible; "
            "renumber the labels from 0 on without gaps"
        )
    return tuple(map(str, range(count)))


def check_split(name: str, split: str, allowed: Iterable[str]) -> None:
    """Refuse a split that the data set does not have."""
    known = tuple(allowed)
    if split not in known:
        raise unknown(f"split of data set {name!r}", split, known)


def load_data(spec: str, split: str = "test", data_dir: str | Path | None = None) -> Dataset:
    """A data set by name, such as `cifar10`, or by name and source, such as `folder:PATH`."""
    name, _, source = spec.partition(":")
    factory, wanted = DATASETS[name].factory, DATASETS[name].defaults()
    if source and "source" not in wanted:
        raise ConfigError(f"data set {name!r} takes nothing after the colon, got {spec!r}; write {name!r}")
    if not source and "source" in wanted:
        raise ConfigError(f"data set {name!r} needs a source after a colon; see: gamagat list data")
    given = {"source": source, "split": split, "data_dir": None if data_dir is None else located(data_dir)}
    return factory(**{key: value for key, value in given.items() if key in wanted})
