"""Photographs in files: found, named, decoded when they are asked for, resized and cropped."""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from gamagat.data.core import Reader
from gamagat.errors import DataError

SUFFIXES = frozenset(
    {".png", ".jpg", ".jpeg", ".bmp", ".webp", ".ppm", ".pgm", ".pnm", ".gif", ".tif", ".tiff"}
)
RESIZED, CROPPED = 256, 224  # the usual evaluation on ImageNet: shorter side, then a square from the middle

Fit = Callable[[Image.Image], Image.Image]


@dataclass(frozen=True, slots=True)
class Album:
    """Image files that are opened one by one; `source` gives the file, or its bytes, at a position."""

    source: Callable[[int], Path | BytesIO]
    count: int

    def __post_init__(self) -> None:
        Image.init()  # threads that load Pillow's plug-ins at the same time may miss some

    def survey(self) -> tuple[Reader, tuple[int, int, int]]:
        """A reader that fits all images, and the shape they get: grey if all are, cropped if sizes differ."""
        if self.count == 0:
            raise DataError("there are no images; an evaluation needs at least one")
        with ThreadPoolExecutor() as pool:
            modes, sizes = zip(*pool.map(self._header, range(self.count)), strict=True)
        mode = "RGB" if "RGB" in modes else "L"
        alike = len(set(sizes)) == 1
        width, height = sizes[0] if alike else (CROPPED, CROPPED)
        shape = (len(mode), height, width)
        return self.reader(mode, shape, as_it_is if alike else resize_and_crop), shape

    def reader(self, mode: str, shape: tuple[int, int, int], fit: Fit) -> Reader:
        """Positions to uint8 images of this shape; Pillow lets go of the interpreter, so threads help."""

        def read(positions: Tensor) -> Tensor:
            images = torch.empty((len(positions), *shape), dtype=torch.uint8)
            with ThreadPoolExecutor() as pool:
                decoded = pool.map(lambda position: self._decode(position, mode, fit), positions.tolist())
                for image, pixels in zip(images, decoded, strict=True):
                    image.copy_(pixels)
            return images

        return read

    def _header(self, position: int) -> tuple[str, tuple[int, int]]:
        with self._opened(position) as image:
            return ("L" if image.mode in ("1", "L", "LA", "La") else "RGB"), image.size

    def _decode(self, position: int, mode: str, fit: Fit) -> Tensor:
        with self._opened(position) as image:
            pixels = np.array(fit(in_mode(image, mode)))
        return torch.from_numpy(pixels.reshape(*pixels.shape[:2], -1)).permute(2, 0, 1)

    @contextmanager
    def _opened(self, position: int) -> Iterator[Image.Image]:
        source = self.source(position)
        try:
            with Image.open(source) as image:
                _check_depth(image)
                yield image
        except Exception as error:  # what a damaged file makes a decoder raise differs from format to format
            where = source if isinstance(source, Path) else f"image {position}"
            raise DataError(f"{where} cannot be read as an 8-bit image: {error}") from error


def _check_depth(image: Image.Image) -> None:
    if image.mode[0] in "IF":
        raise ValueError(f"it has more than 8 bits per channel (mode {image.mode})")


def in_mode(image: Image.Image, mode: str) -> Image.Image:
    """The image as grey (`L`) or `RGB`; transparency is dropped."""
    # Straight from a palette with transparency, Pillow warns.
    return (image.convert("RGBA") if image.mode == "P" else image).convert(mode)


def resize_and_crop(image: Image.Image) -> Image.Image:
    """The shorter side to 256 (bilinear, antialiased), then the 224x224 in the middle."""
    width, height = (RESIZED * side // min(image.size) for side in image.size)
    resized = image.resize((width, height), Image.Resampling.BILINEAR)
    left, top = round((width - CROPPED) / 2), round((height - CROPPED) / 2)
    return resized.crop((left, top, left + CROPPED, top + CROPPED))


def as_it_is(image: Image.Image) -> Image.Image:
    """No change: for images that all have one size."""
    return image


def visible_folders(root: Path) -> list[str]:
    """Names of the sub-folders, sorted."""
    with os.scandir(root) as entries:
        return sorted(entry.name for entry in entries if entry.is_dir() and not entry.name.startswith("."))


def image_names(folder: Path) -> list[str]:
    """Names of the image files in a folder, sorted."""
    with os.scandir(folder) as entries:
        names = [entry.name for entry in entries if entry.is_file()]
    return sorted(
        name for name in names if Path(name).suffix.lower() in SUFFIXES and not name.startswith(".")
    )


def labelled_files(root: Path, classes: Sequence[str]) -> tuple[list[int], list[str]]:
    """Label and `class/file` of every image; a class without a folder has none.

    The classes take turns: the first images of a data set are of all kinds.
    """
    found = sorted(
        (turn, label, f"{name}/{file}")
        for label, name in enumerate(classes)
        if (root / name).is_dir()
        for turn, file in enumerate(image_names(root / name))
    )
    return [label for _, label, _ in found], [file for *_, file in found]


def stable_ids(keys: Iterable[str]) -> Tensor:
    """A 63-bit id for each key, the same on every machine whatever else is in the data set."""
    owners: dict[int, str] = {}
    for key in keys:
        owner = owners.setdefault(_hash(key), key)
        if owner != key:
            raise DataError(f"{owner!r} and {key!r} have the same id; rename one of them")
    return torch.tensor(list(owners))


def _hash(key: str) -> int:
    # fsencode: a file name need not be valid Unicode.
    digest = hashlib.blake2b(os.fsencode(key), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1
