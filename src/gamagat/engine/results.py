"""What an evaluation found: plain numbers with their uncertainty."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gamagat.engine.distances import Distances, distances
from gamagat.engine.ledger import CLEAN
from gamagat.engine.run import NOT_RUN, Run
from gamagat.engine.share import Share


@dataclass(frozen=True, slots=True)
class Member:
    """One attack of a suite: what it was given and what it left, of all images."""

    name: str
    fooled: int
    standing: Share  # after it and all before it
    forwards: float  # per image of the data set
    backwards: float
    seconds: float

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "fooled": self.fooled,
            "robust_accuracy": self.standing.known,
            "forwards": self.forwards,
            "backwards": self.backwards,
            "seconds": self.seconds,
        }


@dataclass(frozen=True, slots=True)
class AttackResult:
    """One attack of the plan."""

    name: str
    spec: str  # the name with every setting spelled out
    standing: Share  # classified correctly, clean and attacked
    curve: tuple[float, ...]  # accuracy left after the first, second, ... run (restart or target)
    forwards: float  # spent by the attack, per image of the data set
    backwards: float
    seconds: float
    members: tuple[Member, ...] = ()  # of a suite
    nearest: Distances | None = None  # what a minimum-norm attack found

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "robust_accuracy": self.standing.known,
            "forwards": self.forwards,
            "backwards": self.backwards,
            "seconds": self.seconds,
            **({"members": [member.as_json() for member in self.members]} if self.members else {}),
            **({"nearest": self.nearest.as_json()} if self.nearest else {}),
        }


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A network, a data set, a threat model, and what was left standing."""

    model: str
    data: str
    norm: str
    eps: float
    clean: Share
    standing: Share  # after the worst of all attacks, image by image
    attacks: tuple[AttackResult, ...]
    seconds: float
    n: int = 0  # images in all; the shares are of those that are through
    stopped: str | None = None  # why it ended early
    unfinished: bool = False
    missing: tuple[str, ...] = ()  # the runs that are not through with every image

    def as_json(self) -> dict[str, Any]:
        """The object that `gamagat evaluate --json` prints; accuracies in percent.

        Of an unfinished run, `n` is the number of images that are through with the runs that count, and
        `unfinished_runs` names those that are not through with all.
        """
        images = f"{self.standing.of} of {self.n} images"
        left = {"unfinished": images, "unfinished_runs": list(self.missing)} if self.unfinished else {}
        return {
            "model": self.model,
            "data": self.data,
            "n": self.standing.of if self.unfinished else self.n,
            "norm": self.norm,
            "eps": self.eps,
            "clean_accuracy": self.clean.known,
            "robust_accuracy": self.standing.known,
            "ci95": list(self.standing.ci95),
            "attacks": [attack.as_json() for attack in self.attacks],
            "seconds": self.seconds,
            **left,
        }


def summarize(run: Run) -> Evaluation:
    """All numbers of a run, from its ledgers alone; if it is unfinished, of what is through."""
    manifest, known = run.manifest, run.fooled(CLEAN) != NOT_RUN
    through = {attack["name"]: known_runs(run, attack["runs"]) for attack in manifest.attacks}
    done = [name for runs in through.values() for name in runs]
    missing = tuple(name for name in manifest.entries() if int(run.settled([name]).sum()) < manifest.n)
    return Evaluation(
        model=manifest.model,
        data=manifest.data,
        norm=manifest.norm,
        eps=manifest.eps,
        clean=_share(run.right(), known),
        standing=_share(run.standing(done), run.settled(done)),
        attacks=tuple(_attack_result(run, attack) for attack in manifest.attacks),
        seconds=sum(done.seconds for done in run.finished),
        n=manifest.n,
        unfinished=bool(missing),
        missing=missing,
    )


def known_runs(run: Run, runs: list[str]) -> list[str]:
    """The first runs of an attack, as many as are through with the most images."""
    counts = [int(run.settled(runs[:many]).sum()) for many in range(1, len(runs) + 1)]
    most = max(counts)
    return runs[: max(many for many, count in enumerate(counts, start=1) if count == most)] if most else []


def _attack_result(run: Run, attack: dict[str, Any]) -> AttackResult:
    name, runs = attack["name"], attack["runs"]
    known = known_runs(run, runs)
    settled = run.settled(known) if known else np.zeros(len(run.ids), bool)
    return AttackResult(
        name=name if len(known) == len(runs) else f"{name} ({len(known)} of {len(runs)} runs)",
        spec=attack["spec"],
        standing=_share(run.standing(known), settled),
        curve=tuple(_curve(run, known, settled)),
        forwards=_cost(run, known, settled, "forwards"),
        backwards=_cost(run, known, settled, "backwards"),
        seconds=_seconds(run, runs),
        members=tuple(_members(run, known, settled)),
        nearest=distances(run, known, settled) if attack.get("nearest") and known else None,
    )


def _curve(run: Run, known: list[str], settled: NDArray[np.bool_]) -> Iterator[float]:
    """The accuracy after each run."""
    standing = run.right()
    for entry in known:
        standing = standing & (run.fooled(entry) != 1)
        yield _share(standing, settled).percent


def _members(run: Run, known: list[str], settled: NDArray[np.bool_]) -> Iterator[Member]:
    """The attacks of a suite, whose runs are called `suite>member`, with their targets and restarts."""
    before: list[str] = []
    for name, group in groupby((entry for entry in known if ">" in entry), member_name):
        entries = list(group)
        left, rest = run.standing(before), run.standing(before + entries)
        before += entries
        yield Member(
            name,
            int((left & ~rest & settled).sum()),
            _share(rest, settled),
            _cost(run, entries, settled, "forwards"),
            _cost(run, entries, settled, "backwards"),
            _seconds(run, entries),
        )


def member_name(entry: str) -> str:
    """The member of a suite that a run belongs to: `apgd-t` of `autoattack>apgd-t@3`."""
    return re.split("[@#]", entry.rpartition(">")[2])[0]


def _cost(run: Run, entries: list[str], settled: NDArray[np.bool_], what: str) -> float:
    """Passes through the network, per image."""
    return sum(int(run.table(entry)[what][settled].sum()) for entry in entries) / max(1, int(settled.sum()))


def _seconds(run: Run, entries: list[str]) -> float:
    return sum(done.seconds for done in run.finished if done.entry in entries)


def _share(which: NDArray[np.bool_], among: NDArray[np.bool_]) -> Share:
    return Share(int((which & among).sum()), int(among.sum()))
