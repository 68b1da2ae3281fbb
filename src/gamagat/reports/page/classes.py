"""Accuracy class by class, clean and after the worst of all attacks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gamagat.engine.ledger import CLEAN
from gamagat.engine.results import known_runs
from gamagat.engine.run import NOT_RUN, Run
from gamagat.engine.share import Share
from gamagat.reports.page.originals import Originals


class ClassRow(NamedTuple):
    """One class; over all classes the counts add up to the headline."""

    name: str
    clean: Share
    worst: Share

    @property
    def images(self) -> str:
        """How many there are; of an unfinished run, before that how many the worst case is of."""
        through = f"{self.worst.of:,} of " if self.worst.of < self.clean.of else ""
        return f"{through}{self.clean.of:,}"


def class_rows(run: Run, originals: Originals | str) -> list[ClassRow]:
    """Every class that has an image; none if the labels are not to be had."""
    if isinstance(originals, str):
        return []  # of an image that is wrong untouched, the ledger does not tell the label
    done = [entry for _, runs in run.manifest.runs() for entry in known_runs(run, runs)]
    known, settled = run.fooled(CLEAN) != NOT_RUN, run.settled(done)
    right, standing = run.right(), run.standing(done)
    found = []
    for number in np.unique(originals.labels[known]).tolist():
        here = originals.labels == number
        clean = Share(int((right & known & here).sum()), int((known & here).sum()))
        worst = Share(int((standing & settled & here).sum()), int((settled & here).sum()))
        found.append(ClassRow(originals.classes[number], clean, worst))
    return found
