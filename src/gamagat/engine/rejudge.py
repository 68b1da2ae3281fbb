"""A second judgement: every stored prediction and distance against what the network says now."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from gamagat.attacks.network import Network
from gamagat.data.core import Dataset
from gamagat.engine.eight_bit import eight_bit
from gamagat.engine.judge import winners
from gamagat.engine.ledger import CLEAN
from gamagat.engine.run import NOT_RUN, Run, Table
from gamagat.engine.runtime import full_precision
from gamagat.pieces.gradients import logits_of
from gamagat.pieces.losses import take
from gamagat.pieces.threat import ThreatModel
from gamagat.pieces.types import Images, Labels, Scores

# Another batch size or device rounds sums otherwise. A class that wins by less than this share of the largest
# logit may lose elsewhere; such verdicts are counted, not called wrong.
NEAR_TIE = 1e-4


@dataclass(slots=True)
class Second:
    """The second judge and its notes."""

    network: Network
    data: Dataset
    device: torch.device
    threat: ThreatModel
    problems: list[str] = field(default_factory=list)
    images: int = 0
    near_ties: int = 0

    @torch.no_grad()
    def logits(self, images: Images) -> Scores:
        """What the network says, in single precision."""
        with full_precision():
            return logits_of(self.network, images)


def judge_again(run: Run, second: Second) -> NDArray[np.bool_]:
    """Go through all verdicts; which images fall also when they are rounded to 8 bits."""
    place = {id_: position for position, id_ in enumerate(second.data.ids.tolist())}
    fallen = np.zeros(len(run.ids), bool)
    for entry in [CLEAN, *run.manifest.entries()]:
        table = run.table(entry)
        due = table["fooled"] != NOT_RUN if entry == CLEAN else table["fooled"] == 1
        rows = np.flatnonzero(due & np.isin(table["id"], second.data.ids.numpy()))
        for part in _parts(rows, second.network.width):
            ids = table["id"][part].tolist()
            x, y = second.data.batch(torch.tensor([place[id_] for id_ in ids]), second.device)
            images = x if entry == CLEAN else _stored(run, entry, ids, x, second)
            second.problems += _disagreements(entry, table[part], images, x, y, second)
            if entry != CLEAN:
                rounded = eight_bit(images, x, second.threat)
                wrong = winners(second.logits(rounded)) != y
                fallen[part] |= (wrong & second.threat.contains(rounded, x)).cpu().numpy()
    return fallen


def _parts(rows: NDArray[np.int64], width: int) -> Iterator[NDArray[np.int64]]:
    for first in range(0, len(rows), width):
        yield rows[first : first + width]


def _stored(run: Run, entry: str, ids: list[int], x: Images, second: Second) -> Images:
    """The adversarial images of these verdicts; where one is missing, its clean image stands in."""
    images, found = x.clone(), run.images(entry, ids)
    for place, id_ in enumerate(ids):
        if id_ in found:
            images[place] = torch.from_numpy(found[id_].copy())
        else:
            second.problems.append(f"{entry}: image {id_} is said to be fooled, but there is no image of it")
    second.images += len(found)
    return images


def _disagreements(
    entry: str, rows: Table, images: Images, x: Images, y: Labels, second: Second
) -> Iterator[str]:
    """One clause for each verdict of a batch that does not hold."""
    logits = second.logits(images)
    stored = torch.from_numpy(rows["prediction"].astype(np.int64)).to(logits.device)
    now, distance = winners(logits), second.threat.distance(images, x).cpu().numpy()
    other, close = stored != now, _near_ties(logits, stored)
    second.near_ties += int((other & close).sum())
    fooled = torch.from_numpy(rows["fooled"] == 1)
    faults = {
        "the network now says class {now}, not {stored}": other & ~close,
        "the verdict contradicts the label {label}": (stored != y).cpu() != fooled,
        "it is outside the threat model, at distance {distance:.9g}": ~second.threat.contains(images, x),
        "the distance is {distance:.9g}, not {claimed:.9g}": np.abs(distance - rows["distance"]) > 1e-9,
    }
    for words, where in faults.items():
        for place in np.flatnonzero(np.asarray(torch.as_tensor(where).cpu())):
            facts = words.format(
                now=int(now[place]),
                stored=int(stored[place]),
                label=int(y[place]),
                distance=float(distance[place]),
                claimed=float(rows["distance"][place]),
            )
            yield f"{entry}: image {int(rows['id'][place])}: {facts}"


def _near_ties(logits: Scores, claimed: Labels) -> torch.Tensor:
    """Whether the claimed class is as good as the best one."""
    possible = (claimed >= 0) & (claimed < logits.shape[1])
    behind = logits.amax(1) - take(logits, claimed.clamp(0, logits.shape[1] - 1))
    return possible & (behind <= NEAR_TIE * logits.abs().amax(1).clamp_min(1.0))
