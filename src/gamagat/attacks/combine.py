"""Attacks made of attacks: restarts, targets, and any others in turn over the images still standing."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from gamagat.attacks.core import Attack
from gamagat.attacks.nearest import fools
from gamagat.attacks.outcome import Outcome
from gamagat.errors import ConfigError
from gamagat.pieces.gradients import logits_of
from gamagat.pieces.losses import without
from gamagat.pieces.noise import Noise
from gamagat.pieces.threat import ThreatModel
from gamagat.pieces.trees import lift
from gamagat.pieces.types import Images, Labels, Mask, Model, Scores


def standing(model: Model, images: Images, y: Labels) -> Mask:
    """Which images the network still classifies correctly, in the eyes of the judge where there is one."""
    return ~fools(model, images, y)


@dataclass(frozen=True, slots=True)
class InTurn:
    """Attacks tried one after another, each on the images that are still standing."""

    members: tuple[tuple[str, Attack], ...]  # what to append to the name of the whole, and the attack

    def __call__(
        self,
        model: Model,
        x: Images,
        y: Labels,
        threat: ThreatModel,
        noise: Noise,
        target: Labels | None = None,
    ) -> Outcome:
        outcome = Outcome.untouched(x)
        alive = torch.arange(len(x), device=x.device)
        far = torch.zeros_like(alive, dtype=torch.bool)  # fooled, but outside the ball so far
        for number, (_, member) in enumerate(self.members, start=1):
            aim = None if target is None else target[alive]
            news = member(model, x[alive], y[alive], threat, noise[alive], aim)
            # Nobody asks what the last member left standing, unless it might be further away than before.
            asked = far[alive] | (number < len(self.members))
            fooled = torch.zeros_like(asked)
            if bool(asked.any()):
                fooled[asked] = ~standing(model, news.images[asked], y[alive][asked])
            size = threat.distance(news.images, x[alive])
            nearer = fooled & (size < threat.distance(outcome.images[alive], x[alive]))
            kept = far[alive] & ~nearer
            images = torch.where(lift(kept, x), outcome.images[alive], news.images)
            outcome.put(alive, news._replace(images=images, forwards=news.forwards + asked))
            # An adversarial image outside the ball is no success: a minimum-norm attack may come nearer yet.
            beyond = ~threat.contains(news.images, x[alive])
            far[alive] |= fooled & beyond
            alive = alive[~fooled | beyond]
            if len(alive) == 0:
                break
        return outcome


@dataclass(frozen=True, slots=True)
class Folded:
    """An attack with random numbers of its own."""

    attack: Attack
    tag: int

    def __call__(
        self,
        model: Model,
        x: Images,
        y: Labels,
        threat: ThreatModel,
        noise: Noise,
        target: Labels | None = None,
    ) -> Outcome:
        return self.attack(model, x, y, threat, noise.fold(self.tag), target)


Aim = Callable[[Scores, Labels, Noise], Labels]  # clean logits, labels -> target class


@dataclass(frozen=True, slots=True)
class Aimed:
    """An attack on a target class chosen from what the network says of the clean image."""

    attack: Attack
    aim: Aim

    def __call__(
        self,
        model: Model,
        x: Images,
        y: Labels,
        threat: ThreatModel,
        noise: Noise,
        target: Labels | None = None,
    ) -> Outcome:
        with torch.no_grad():
            chosen = self.aim(logits_of(model, x), y, noise)
        return self.attack(model, x, y, threat, noise, chosen).costing(forwards=1)


def rebuilt(attack: Attack, change: Callable[[Attack], Attack]) -> Attack:
    """The same combination with every attack at its bottom changed."""
    if isinstance(attack, InTurn):
        return InTurn(tuple((suffix, rebuilt(member, change)) for suffix, member in attack.members))
    if isinstance(attack, Folded | Aimed):
        return replace(attack, attack=rebuilt(attack.attack, change))
    return change(attack)


def passes(attack: Attack) -> int:
    """How often an image may pass through the network in one run; 1 if the attack does not say."""
    while isinstance(attack, Folded | Aimed):
        attack = attack.attack
    return int(getattr(attack, "passes", 1))


def delicate(attack: Attack) -> bool:
    """Whether the attack looks for the boundary itself, where half precision is too coarse."""
    if isinstance(attack, InTurn):
        return any(delicate(member) for _, member in attack.members)
    if isinstance(attack, Folded | Aimed):
        return delicate(attack.attack)
    return bool(getattr(attack, "delicate", False))


def gradients(attack: Attack, classes: int) -> int:
    """How many gradients an image may cost at the most; 0 if the attack needs none or does not say."""
    if isinstance(attack, InTurn):
        return sum(gradients(member, classes) for _, member in attack.members)
    if isinstance(attack, Folded):
        return gradients(attack.attack, classes)
    if isinstance(attack, Aimed):
        return gradients(attack.attack, classes=2)  # the label and the target
    count = getattr(attack, "gradients", None)
    return int(count(classes)) if count is not None else 0


def thorough(attack: Attack) -> Attack:
    """The attack without leaving early: every image goes all the way, also when it is fooled before."""

    def change(one: Any) -> Attack:
        changed: Attack = replace(one, stop=False) if getattr(one, "stop", False) else one
        return changed

    return rebuilt(attack, change)


def entries(name: str, attack: Attack) -> Iterator[tuple[str, Attack]]:
    """The single runs a combined attack is made of, with their names: `gama-mt@3`, `pgd#2`."""
    if not isinstance(attack, InTurn):
        yield name, attack
        return
    for suffix, member in attack.members:
        yield from entries(name + suffix, member)


def folded(attack: Attack, tag: int) -> Attack:
    """The attack, and each member of a combined one, with random numbers of its own."""
    if isinstance(attack, InTurn):
        return InTurn(tuple((suffix, folded(member, tag)) for suffix, member in attack.members))
    return Folded(attack, tag)


def restarts(attack: Attack, times: int) -> Attack:
    """Begin again, `times` times in all; the first time is the attack itself.

    An attack whose first try begins without chance says by a method `again` how the others do.
    """
    if times < 1:
        raise ConfigError(f"restarts must be at least 1, got {times}")
    if times == 1:
        return attack
    retry = rebuilt(attack, lambda one: one.again() if hasattr(one, "again") else one)
    return InTurn(
        (("#1", attack), *((f"#{number}", folded(retry, number)) for number in range(2, times + 1)))
    )


def ranked(rank: int) -> Aim:
    """The wrong class the network ranks `rank`-th, 1 being the likeliest; after the last comes the first."""

    def aim(logits: Scores, y: Labels, noise: Noise) -> Labels:
        place = (rank - 1) % (logits.shape[1] - 1)
        return without(logits, y).topk(place + 1, dim=1).indices[:, -1]

    return aim


def least_likely(logits: Scores, y: Labels, noise: Noise) -> Labels:
    """The wrong class that the network finds least likely."""
    return logits.scatter(1, y[:, None], float("inf")).argmin(1)


def random_wrong(logits: Scores, y: Labels, noise: Noise) -> Labels:
    """Any wrong class with equal chance."""
    wrong = logits.shape[1] - 1
    ahead = (noise.fold(-2).uniform(logits[:, :1]).squeeze(1) * wrong).long()
    return (y + 1 + ahead.clamp_max(wrong - 1)) % (wrong + 1)


def each_target(attack: Attack, top: int) -> Attack:
    """Aim at the `top` likeliest wrong classes of each image, one after another."""
    if top < 1:
        raise ConfigError(f"top must be at least 1, got {top}")
    return InTurn(
        tuple((f"@{rank}", Aimed(folded(attack, rank), ranked(rank))) for rank in range(1, top + 1))
    )
