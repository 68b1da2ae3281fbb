"""Attacks made of attacks: restarts, targets, and any others in turn over the images still standing."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from gamagat.attacks.core import Attack
from gamagat.attacks.outcome import Outcome
from gamagat.errors import ConfigError
from gamagat.pieces.gradients import logits_of
from gamagat.pieces.losses import without
from gamagat.pieces.noise import Noise
from gamagat.pieces.threat import ThreatModel
from gamagat.pieces.types import Images, Labels, Mask, Model, Scores


@torch.no_grad()
def standing(model: Model, images: Images, y: Labels) -> Mask:
    """Which images the network still classifies correctly."""
    return logits_of(model, images).argmax(1) == y


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
        for number, (_, member) in enumerate(self.members, start=1):
            aim = None if target is None else target[alive]
            news = member(model, x[alive], y[alive], threat, noise[alive], aim)
            if number == len(self.members):
                outcome.put(alive, news)
                break
            outcome.put(alive, news.costing(forwards=1))
            # An adversarial image outside the ball is no success: a minimum-norm attack may come nearer yet.
            beyond = ~threat.contains(news.images, x[alive])
            alive = alive[standing(model, news.images, y[alive]) | beyond]
            if len(alive) == 0:
                break
        return outcome


def entries(name: str, attack: Attack) -> Iterator[tuple[str, Attack]]:
    """The single runs a combined attack is made of, with their names: `gama-mt@3`, `pgd#2`."""
    if not isinstance(attack, InTurn):
        yield name, attack
        return
    for suffix, member in attack.members:
        yield from entries(name + suffix, member)


def folded(attack: Attack, tag: int) -> Attack:
    """The attack with random numbers of its own."""
    if isinstance(attack, InTurn):
        return InTurn(tuple((suffix, folded(member, tag)) for suffix, member in attack.members))
    return lambda model, x, y, threat, noise, target=None: attack(
        model, x, y, threat, noise.fold(tag), target
    )


def restarts(attack: Attack, times: int) -> Attack:
    """Begin again, `times` times in all; the first time is the attack itself."""
    if times < 1:
        raise ConfigError(f"restarts must be at least 1, got {times}")
    if times == 1:
        return attack
    again = tuple((f"#{number}", folded(attack, number)) for number in range(2, times + 1))
    return InTurn((("#1", attack), *again))


Aim = Callable[[Scores, Labels, Noise], Labels]  # clean logits, labels -> target class


def aimed(attack: Attack, aim: Aim) -> Attack:
    """The attack on a target class chosen from what the network says of the clean image."""

    def run(
        model: Model,
        x: Images,
        y: Labels,
        threat: ThreatModel,
        noise: Noise,
        target: Labels | None = None,
    ) -> Outcome:
        with torch.no_grad():
            chosen = aim(logits_of(model, x), y, noise)
        return attack(model, x, y, threat, noise, chosen).costing(forwards=1)

    return run


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
        tuple((f"@{rank}", aimed(folded(attack, rank), ranked(rank))) for rank in range(1, top + 1))
    )
