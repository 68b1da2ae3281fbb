"""Where an attack meets a network, and the judge looks at what comes of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from gamagat.attacks.combine import delicate
from gamagat.attacks.core import Attack
from gamagat.attacks.network import Network, lead
from gamagat.attacks.outcome import Outcome
from gamagat.data.core import Dataset
from gamagat.engine.codec import Planes, encode_all, planes_of
from gamagat.engine.judge import Verdict as Judged
from gamagat.engine.judge import judge, predict
from gamagat.engine.ledger import Verdict
from gamagat.engine.quick.network import Quick
from gamagat.engine.watch import Onlooker, Watch
from gamagat.pieces.gradients import logits_of
from gamagat.pieces.noise import Noise
from gamagat.pieces.threat import LINF, ThreatModel
from gamagat.pieces.types import Images, Labels, Model

SLACK = 4.0  # how many times the error of a stand-in a wrong class must lead by before an image has fallen
PATIENCE = 4  # steps on a GPU between two looks at which images have fallen

Look = Callable[[Model, Images], Labels]


class Chunk(NamedTuple):
    """What the judge saw of a chunk of images; putting it on paper is for whoever has the time."""

    columns: tuple[Tensor, ...]  # of verdicts, with one number for each image
    images: Planes  # of those that were fooled; none where they are not kept

    @property
    def fooled(self) -> Tensor:
        return self.columns[1]

    def verdicts(self) -> list[Verdict]:
        """One for each image."""
        return [Verdict(*row) for row in zip(*(column.tolist() for column in self.columns), strict=True)]

    def encoded(self) -> dict[int, bytes]:
        """The images that were fooled, by their ids, as they are stored."""
        ids = self.columns[0][self.fooled.bool()].tolist() if len(self.images) else []
        return dict(zip(ids, encode_all(self.images), strict=True))


@dataclass(slots=True)
class Arena:
    """All that stays the same from one attack to the next; the width shrinks when it must."""

    model: Model
    data: Dataset
    threat: ThreatModel
    device: torch.device
    width: int
    seed: int = 0
    deadline: float = float("inf")
    onlooker: Onlooker = field(default_factory=Onlooker)
    quick: Quick | None = None  # what attacks see in place of the model
    kept: bool = True  # whether adversarial images are stored: not if the run will be forgotten

    def network(self, watch: Watch | None = None) -> Network:
        """The model itself at its present width, under the eyes of the onlooker."""
        return self._network(self.model, watch, predict)

    def stand_in(self, attack: Attack, watch: Watch | None = None) -> Network | None:
        """What this attack sees in place of the model, if anything.

        Next to the boundary single precision decides, so an attack that looks for it asks the judge itself.
        """
        if self.quick is None:
            return None
        exact = self.network()
        ask = (lambda _, images: predict(exact, images)) if delicate(attack) else None
        return self._network(self.quick.model, watch, ask, SLACK * self.quick.error)

    def _network(self, model: Model, watch: Watch | None, look: Look | None, slack: float = 0.0) -> Network:
        seen = None if watch is None else watch.seen
        cuda = self.device.type == "cuda"
        return Network(model, self.width, cuda, self.deadline, seen, look, PATIENCE if cuda else 1, slack)


def attacked(arena: Arena, part: Tensor, attack: Attack | None, watch: Watch) -> Chunk:
    """Attack the images at these positions and judge what comes back; None: look at them as they are."""
    network, ids = arena.network(watch), arena.data.ids[part]
    x, y = arena.data.batch(part, arena.device)
    if attack is None:
        prediction = predict(network, x)
        outcome, distance = Outcome.untouched(x).costing(forwards=1), torch.zeros(len(x))
        fooled = prediction != y
    else:
        noise = Noise.for_images(ids.to(arena.device), arena.seed)
        outcome, (fooled, prediction, distance) = _judged(arena, attack, watch, x, y, noise)
    columns = (ids, fooled.int(), prediction, distance, outcome.step, outcome.forwards, outcome.backwards)
    chosen = outcome.images[fooled] if arena.kept and attack is not None else outcome.images[:0]
    return Chunk(tuple(column.cpu() for column in columns), planes_of(chosen))


def _judged(
    arena: Arena, attack: Attack, watch: Watch, x: Images, y: Labels, noise: Noise
) -> tuple[Outcome, Judged]:
    """What the attack makes of the images, in float32 as they are stored, and what the judge says of them.

    Where the judge does not see an image fall that fell for the stand-in, the network itself is attacked.
    """
    network, stand_in = arena.network(watch), arena.stand_in(attack, watch)
    if stand_in is not None and arena.threat.norm is LINF:  # other norms would turn the images at every step
        x = x.contiguous(memory_format=torch.channels_last)  # as the stand-in wants them
    outcome = attack(stand_in or network, x, y, arena.threat, noise)
    outcome = outcome._replace(images=outcome.images.float())
    if stand_in is None or stand_in.asks:
        return outcome, judge(network, outcome.images, x, y, arena.threat)
    judged = _looked_at(network, stand_in, outcome, x, y, arena.threat)
    doubtful = ((outcome.step >= 0) & (judged.prediction == y)).nonzero().flatten()
    if len(doubtful):
        x, y = x[doubtful], y[doubtful]
        again = attack(network, x, y, arena.threat, noise[doubtful])
        again = again._replace(images=again.images.float())
        outcome.put(doubtful, again)
        for column, news in zip(judged, judge(network, again.images, x, y, arena.threat), strict=True):
            column[doubtful] = news
    return outcome, judged


def _looked_at(
    network: Network, stand_in: Network, outcome: Outcome, x: Images, y: Labels, threat: ThreatModel
) -> Judged:
    """What the judge says of all images that fell, and of those that may have fallen at the very end.

    One that stands by more than the stand-in's error stands: that claims nothing which could be too good.
    """
    seen = outcome.step >= 0
    last = (~seen).nonzero().flatten()
    if len(last):
        with torch.no_grad():
            ahead = lead(logits_of(stand_in, outcome.images[last]), y[last])
        seen[last] = ~(ahead < -stand_in.slack)  # also where it is no number
    judged = Judged(torch.zeros_like(seen), y.clone(), threat.distance(outcome.images, x))
    if bool(seen.any()):
        said = judge(network, outcome.images[seen], x[seen], y[seen], threat)
        for column, news in zip(judged, said, strict=True):
            column[seen] = news
    return judged
