"""What an evaluation found: plain numbers with their uncertainty."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gamagat.engine.ledger import CLEAN
from gamagat.engine.run import NOT_RUN, Run

Z95 = 1.959963984540054  # the normal quantile of a two-sided 95 % interval


def wilson(successes: int, trials: int, z: float = Z95) -> tuple[float, float]:
    """Wilson's score interval for a share, in percent; it behaves at 0 % and at 100 %, too."""
    if trials == 0:
        return 0.0, 100.0
    share, spread = successes / trials, z * z / trials
    middle = (share + spread / 2) / (1 + spread)
    half = z / (1 + spread) * sqrt(share * (1 - share) / trials + spread / (4 * trials))
    # At the ends the exact bounds are 0 and 1; rounding must not leave them short.
    low = 0.0 if successes == 0 else middle - half
    high = 1.0 if successes == trials else middle + half
    return 100 * low, 100 * high


@dataclass(frozen=True, slots=True)
class Share:
    """So many of so many images."""

    count: int
    of: int

    @property
    def percent(self) -> float:
        return 100 * self.count / self.of if self.of else float("nan")

    @property
    def known(self) -> float | None:
        """The percentage, or None of no images: NaN is no JSON."""
        return self.percent if self.of else None

    @property
    def ci95(self) -> tuple[float, float]:
        return wilson(self.count, self.of)


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

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "robust_accuracy": self.standing.known,
            "forwards": self.forwards,
            "backwards": self.backwards,
            "seconds": self.seconds,
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

    def as_json(self) -> dict[str, Any]:
        """The object that `gamagat evaluate --json` prints; accuracies in percent.

        Of an unfinished run, `n` is the number of images that are through, and `unfinished` says so.
        """
        left = {"unfinished": f"{self.standing.of} of {self.n} images"} if self.unfinished else {}
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
    unfinished = len(done) < len(manifest.entries()) or int(run.settled(done).sum()) < manifest.n
    return Evaluation(
        model=manifest.model,
        data=manifest.data,
        norm=manifest.norm,
        eps=manifest.eps,
        clean=_share(run.right(), known),
        standing=_share(run.standing(done), run.settled(done)),
        attacks=tuple(
            _attack_result(run, attack["name"], attack["spec"], attack["runs"]) for attack in manifest.attacks
        ),
        seconds=sum(done.seconds for done in run.finished),
        n=manifest.n,
        unfinished=unfinished,
    )


def known_runs(run: Run, runs: list[str]) -> list[str]:
    """The first runs of an attack, as many as are through with the most images."""
    counts = [int(run.settled(runs[:many]).sum()) for many in range(1, len(runs) + 1)]
    most = max(counts)
    return runs[: max(many for many, count in enumerate(counts, start=1) if count == most)] if most else []


def _attack_result(run: Run, name: str, spec: str, runs: list[str]) -> AttackResult:
    known = known_runs(run, runs)
    settled = run.settled(known) if known else np.zeros(len(run.ids), bool)
    count = max(1, int(settled.sum()))
    return AttackResult(
        name=name if len(known) == len(runs) else f"{name} ({len(known)} of {len(runs)} runs)",
        spec=spec,
        standing=_share(run.standing(known), settled),
        curve=tuple(_share(run.standing(known[:many]), settled).percent for many in range(1, len(known) + 1)),
        forwards=sum(int(run.table(entry)["forwards"][settled].sum()) for entry in known) / count,
        backwards=sum(int(run.table(entry)["backwards"][settled].sum()) for entry in known) / count,
        seconds=sum(done.seconds for done in run.finished if done.entry in runs),
    )


def _share(which: NDArray[np.bool_], among: NDArray[np.bool_]) -> Share:
    return Share(int((which & among).sum()), int(among.sum()))
