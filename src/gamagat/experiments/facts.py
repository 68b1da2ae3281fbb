"""What must be known of images before anything is trained or measured, and what is known of official ones.

Official files are the same everywhere, so a plan needs none of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gamagat.data import cifar10, mnist
from gamagat.errors import DataError


@dataclass(frozen=True, slots=True)
class Facts:
    """What must be known of the test images before anything is measured."""

    preset: str | None
    eps: Mapping[str, float]
    shape: tuple[int, ...]
    classes: int
    test: int
    seen: str


@dataclass(frozen=True, slots=True)
class Training:
    """What must be known of the training images to find a network, or to train it."""

    family: str
    count: int
    seen: str
    absent: DataError | None = None  # why they are not here, where they are known from before


def official(data: str) -> tuple[Facts, Training] | None:
    """Of a data set that is downloaded where it is not there; a test compares this with the files."""
    if data == "mnist":
        test = "2b554ede95d7ee15e8b1ebb93a736e21768072dce71e43979cef6fad08319ac3"
        train = "4d52bd0392c0af91933f40993ffa405592a15168b20dadaf7a4bb5b0fd1fa7cf"
        return Facts(data, mnist.EPS, (1, 28, 28), 10, 10_000, test), Training(data, 50_000, train)
    if data == "cifar10":
        test = "166f38e8b99b6ccabb6a3d37c36c77738b2fa8b3ca53fbdfe7c29367647528ce"
        train = "aea03820c95339678a3fa579dd00fb84eb8e07d1416f869a15a3ad7fba84cd65"
        return Facts(data, cifar10.EPS, (3, 32, 32), 10, 10_000, test), Training(data, 49_000, train)
    return None
