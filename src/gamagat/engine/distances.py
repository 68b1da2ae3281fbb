"""How far away the nearest adversarial images are, from the verdicts on a minimum-norm attack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gamagat.engine.ledger import CLEAN
from gamagat.engine.run import Run
from gamagat.engine.share import Share
from gamagat.pieces.threat import TOLERANCE

RUNGS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0)  # of eps, where the curve is told

# What readers of a curve have to know where an attack made several runs.
BOUND = "below the run's eps less may be left: an image that falls inside sees no more restarts or targets"


@dataclass(frozen=True, slots=True)
class Distances:
    """The nearest adversarial image of each image: 0 if it is wrong untouched, infinite if none was found.

    Of several runs (targets, restarts) an image only sees those up to the one that fools it inside eps, so
    below eps a distance is one that suffices, and another run might have found a smaller one.
    """

    sizes: NDArray[np.float64]
    eps: float

    @property
    def found(self) -> NDArray[np.float64]:
        """The distances of the images that are right untouched and have an adversarial one."""
        return self.sizes[(self.sizes > 0) & np.isfinite(self.sizes)]

    @property
    def mean(self) -> float | None:
        return float(self.found.mean()) if len(self.found) else None

    @property
    def median(self) -> float | None:
        return float(np.median(self.found)) if len(self.found) else None

    def accuracy(self, eps: float) -> Share:
        """What is left standing at another eps."""
        limit = eps + TOLERANCE * max(1.0, eps) if eps > 0 else 0.0
        return Share(int((self.sizes > limit).sum()), len(self.sizes))

    def curve(self) -> list[tuple[float, Share]]:
        """Accuracy against eps, from the untouched images to twice the eps of the run."""
        return [(rung * self.eps, self.accuracy(rung * self.eps)) for rung in RUNGS]

    def as_json(self) -> dict[str, Any]:
        return {
            "found": len(self.found),
            "of": int((self.sizes > 0).sum()),
            "mean": self.mean,
            "median": self.median,
            "curve": [{"eps": eps, "accuracy": share.known} for eps, share in self.curve()],
        }


def distances(run: Run, entries: list[str], among: NDArray[np.bool_]) -> Distances:
    """The nearest adversarial images that these runs found, inside eps or outside."""
    clean = run.table(CLEAN)
    sizes = np.where(clean["fooled"] == 0, np.inf, 0.0)
    for entry in entries:
        table = run.table(entry)
        # Where the clean image is right, its prediction is the label.
        adversarial = (table["fooled"] >= 0) & (table["prediction"] != clean["prediction"])
        sizes = np.where(adversarial & (clean["fooled"] == 0), np.minimum(sizes, table["distance"]), sizes)
    return Distances(sizes[among], run.manifest.eps)
