"""The numbers of a run as rows, whatever they are written in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gamagat.engine.ledger import CLEAN
from gamagat.engine.results import AttackResult, Evaluation, known_runs
from gamagat.engine.run import Run
from gamagat.engine.share import Share
from gamagat.reports.page.words import eps_words


@dataclass(frozen=True, slots=True)
class Row:
    """A share of images that are classified correctly, and what it took to find out."""

    kind: str  # clean, attack, member (of a suite) or worst case
    name: str
    share: Share
    spec: str = ""
    forwards: float | None = None  # per image
    backwards: float | None = None
    seconds: float | None = None
    fooled: int | None = None  # by a member of a suite, of what was left
    mean: float | None = None  # distance of the nearest adversarial images
    median: float | None = None
    alone: int | None = None  # images that this attack and no other one fooled the network on


def rows(run: Run, result: Evaluation) -> list[Row]:
    """Clean, each attack with its members, and the worst case over all of them, image by image."""
    alone = fooled_alone(run) if len(result.attacks) > 1 else [None] * len(result.attacks)
    attacks = [
        row
        for attack, many in zip(result.attacks, alone, strict=True)
        for row in _attack_rows(attack, many if attack.standing.of else None)
    ]
    worst = Row(
        "worst case",
        "worst case",
        result.standing,
        forwards=sum(attack.forwards for attack in result.attacks),
        backwards=sum(attack.backwards for attack in result.attacks),
        seconds=result.seconds,
    )
    clean = sum(done.seconds for done in run.finished if done.entry == CLEAN)
    return [Row("clean", "clean", result.clean, seconds=clean), *attacks, worst]


def _attack_rows(attack: AttackResult, alone: int | None) -> Iterator[Row]:
    near = attack.nearest
    yield Row(
        "attack",
        attack.name,
        attack.standing,
        attack.spec,
        attack.forwards,
        attack.backwards,
        attack.seconds,
        mean=near.mean if near else None,
        median=near.median if near else None,
        alone=alone,
    )
    for member in attack.members:
        costs = member.forwards, member.backwards, member.seconds
        yield Row("member", member.name, member.standing, "", *costs, member.fooled)


def fooled_by(run: Run) -> NDArray[np.bool_]:
    """A row for each attack of the plan: the images that one of its runs fooled the network on."""
    found = np.zeros((len(run.manifest.attacks), len(run.ids)), bool)
    for number, (_, runs) in enumerate(run.manifest.runs()):
        for entry in runs:
            found[number] |= run.fooled(entry) == 1
    return found


def fooled_alone(run: Run) -> list[int]:
    """How many images fell to each attack alone, of those that all attacks are through with."""
    done = [entry for _, runs in run.manifest.runs() for entry in known_runs(run, runs)]
    found = fooled_by(run) & run.settled(done)
    return [int(count) for count in (found & (found.sum(0) == 1)).sum(1)]


def sentence(result: Evaluation) -> str:
    """What to report, with everything that it depends on."""
    if result.standing.of == 0:
        return "No image is through with any attack yet; there is nothing to report."
    low, high = result.standing.ci95
    names = ", ".join(attack.name for attack in result.attacks if attack.standing.of)
    return (
        f"{result.model} classifies {result.standing.percent:.2f} % (95 % interval {low:.2f} to {high:.2f}) "
        f"of {result.standing.of:,} images of {result.data} correctly under every attack tried within "
        f"{result.norm} {eps_words(result.eps)} ({names})."
    )
