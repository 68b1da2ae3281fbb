"""A bounded choice of adversarial images, spread evenly over classes and attacks."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import isclose
from typing import NamedTuple

import numpy as np

from gamagat.engine.codec import Pixels
from gamagat.engine.ledger import CLEAN
from gamagat.engine.results import member_name
from gamagat.engine.run import Run
from gamagat.reports.page.originals import Originals
from gamagat.reports.page.pictures import data_uri, magnified
from gamagat.reports.page.rows import fooled_by

MOST, BYTES = 200, 3_000_000  # of all galleries of a page together


class Fall(NamedTuple):
    """An image that an attack fooled the network with."""

    attack: str
    entry: str
    label: int
    id: int
    prediction: int
    distance: float
    step: int
    alone: bool  # no other attack of the plan fooled the network on this image


@dataclass(frozen=True, slots=True)
class Example:
    """A fall with its pictures; those of the untouched image are missing if the data is."""

    fall: Fall
    label: str
    prediction: str
    adversarial: str
    clean: str | None = None
    difference: str | None = None
    factor: float = 1.0

    def at_edge(self, eps: float) -> bool:
        """Whether it is as far away as it may be, but for rounding."""
        return isclose(self.fall.distance, eps, rel_tol=2e-3)


@dataclass(frozen=True, slots=True)
class Gallery:
    """The examples, what they can be filtered by, and how many images there would be."""

    examples: tuple[Example, ...]
    found: int
    plan: tuple[str, ...]  # the attacks in their order
    missing: str | None = None  # why there are no untouched images

    @property
    def classes(self) -> list[tuple[int, str]]:
        """The classes that have an example, by number: two may have the same name."""
        return sorted({(example.fall.label, example.label) for example in self.examples})

    @property
    def attacks(self) -> list[str]:
        """The attacks that have an example, in the order of the plan."""
        shown = {example.fall.attack for example in self.examples}
        return [attack for attack in self.plan if attack in shown]


def make_gallery(run: Run, originals: Originals | str, most: int = MOST, size: int = BYTES) -> Gallery:
    """Choose examples and draw them until they are enough or fill the page."""
    falls = list(_falls(run))
    plan = tuple(dict.fromkeys(fall.attack for fall in falls))
    shown: list[Example] = []
    used = 0
    for example in _drawn(run, spread(falls, most), originals):
        used += sum(len(uri or "") for uri in (example.clean, example.adversarial, example.difference))
        if shown and used > size:
            break
        shown.append(example)
    return Gallery(tuple(shown), len(falls), plan, originals if isinstance(originals, str) else None)


def spread(falls: Sequence[Fall], most: int) -> list[Fall]:
    """The typical fall of every class under every attack, then the next typical one, and so on."""
    cells: dict[tuple[int, str], list[Fall]] = {}
    for fall in sorted(falls, key=soon):
        cells.setdefault((fall.label, fall.attack), []).append(fall)
    taken, classes, attacks = Counter[tuple[int, str]](), Counter[int](), Counter[str]()
    chosen: list[Fall] = []
    left = {key: from_the_middle(cell) for key, cell in cells.items()}
    while left and len(chosen) < most:
        # Where there are more classes than room, neither classes nor attacks must lose to each other.
        key = min(left, key=lambda cell: (taken[cell], classes[cell[0]], attacks[cell[1]], cell))
        if (typical := next(left[key], None)) is None:
            del left[key]
            continue
        chosen.append(typical)
        taken[key] += 1
        classes[key[0]] += 1
        attacks[key[1]] += 1
    return chosen


def soon(fall: Fall) -> tuple[bool, int, float, int]:
    """What fell sooner, then what is nearer; a fall that was seen only at the very end has no step."""
    return fall.step < 0, fall.step, fall.distance, fall.id


def from_the_middle(falls: Sequence[Fall]) -> Iterator[Fall]:
    """The one in the middle, those in the middle of either half, of every quarter, and so on."""
    parts = deque([(0, len(falls))])
    while parts:
        first, end = parts.popleft()
        if first < end:
            middle = (first + end - 1) // 2
            yield falls[middle]
            parts += (first, middle), (middle + 1, end)


def class_name(number: int, originals: Originals | str) -> str:
    """The name of a class, or its number where names are not known."""
    known = () if isinstance(originals, str) else originals.classes
    return known[number] if 0 <= number < len(known) else f"class {number}"


def _falls(run: Run) -> Iterator[Fall]:
    labels = run.table(CLEAN)["prediction"]  # only images that are right untouched are attacked
    alone = fooled_by(run).sum(0) == 1
    for attack in run.manifest.attacks:
        for entry in attack["runs"]:
            name = f"{attack['name']} > {member_name(entry)}" if ">" in entry else attack["name"]
            table = run.table(entry)
            for place in np.flatnonzero(table["fooled"] == 1).tolist():
                row = table[place]
                yield Fall(
                    name, entry, int(labels[place]), int(row["id"]), int(row["prediction"]),
                    float(row["distance"]), int(row["step"]), bool(alone[place]),
                )  # fmt: skip


def _drawn(run: Run, falls: list[Fall], originals: Originals | str) -> Iterator[Example]:
    """Each with its pictures; a verdict without a stored image is passed over."""
    stored: dict[tuple[str, int], Pixels] = {}
    for entry, group in groupby(sorted(falls, key=lambda fall: fall.entry), lambda fall: fall.entry):
        images = run.images(entry, [fall.id for fall in group])
        stored |= {(entry, id_): image for id_, image in images.items()}
    for fall in falls:
        if (fall.entry, fall.id) not in stored:
            continue
        names = class_name(fall.label, originals), class_name(fall.prediction, originals)
        adversarial = stored[fall.entry, fall.id]
        if isinstance(originals, str):
            yield Example(fall, *names, data_uri(adversarial))
            continue
        clean = originals.images([fall.id])[fall.id]
        difference, factor = magnified(clean, adversarial)
        yield Example(fall, *names, data_uri(adversarial), data_uri(clean), data_uri(difference), factor)
