"""The data contract: images that stay as small as they came, labels, and an id that never changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from torch import Tensor

from gamagat.errors import ConfigError, DataError
from gamagat.pieces.types import Images, Labels
from gamagat.registry import Registry

Reader = Callable[[Tensor], Tensor]  # positions -> images, uint8 in [0, 255] or float32 in [0, 1]

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
        """The images at these positions, as a data set of its own."""
        read = self.read
        return replace(
            self,
            read=lambda chosen: read(positions[chosen]),
            labels=self.labels[positions],
            ids=self.ids[positions],
        )

    def batch(self, positions: Tensor, device: torch.device | str = "cpu") -> tuple[Images, Labels]:
        """Images in [0, 1] and labels, on the device; the bytes travel, the floats are made there."""
        raw = self.read(positions)
        images = raw.to(device)
        if images.dtype == torch.uint8:
            images = images.to(torch.float32) / 255
        elif not bool(((raw >= 0) & (raw <= 1)).all()):
            raise DataError(
                f"pixels of {self.name!r} must lie in [0, 1]: found NaN or values from {float(raw.min()):g} to "
                f"{float(raw.max()):g}; scale the images and let the model normalise them"
            )
        return images, self.labels[positions].to(device)


def from_tensors(images: Tensor, **about: object) -> Dataset:
    """A data set whose images are all in memory."""
    return Dataset(read=lambda positions: images[positions], shape=tuple(images.shape[1:]), **about)  # type: ignore[arg-type]


def load_data(spec: str, split: str = "test", data_dir: str | Path | None = None) -> Dataset:
    """A data set by name, such as `cifar10`, or by name and source, such as `folder:PATH`."""
    name, _, source = spec.partition(":")
    factory, wanted = DATASETS[name].factory, DATASETS[name].defaults()
    if source and "source" not in wanted:
        raise ConfigError(f"data set {name!r} takes nothing after the colon, got {spec!r}; write {name!r}")
    if not source and "source" in wanted:
        raise ConfigError(f"data set {name!r} needs a source after a colon; see: gamagat list data")
    given = {"source": source, "split": split, "data_dir": None if data_dir is None else Path(data_dir)}
    return factory(**{key: value for key, value in given.items() if key in wanted})
