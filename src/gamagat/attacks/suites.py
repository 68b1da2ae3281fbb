"""Suites: attacks in a fixed order, each on what the ones before it left standing."""

from typing import Any, Literal

from gamagat.attacks.combine import InTurn, restarts
from gamagat.attacks.core import ATTACKS, USES_DLR, Attack

Member = tuple[str, Attack]  # what to append to the name of the suite, and the attack


def member(name: str, times: int = 1, **options: Any) -> Member:
    """An attack by name, as part of a suite; with the random numbers it has on its own."""
    return f">{name}", restarts(ATTACKS.make(name, **options), times)


def _standard(steps: int, queries: int, top: int) -> list[Member]:
    return [
        member("apgd-ce", steps=steps),
        member("apgd-t", steps=steps, top=top),
        # Whether an image falls is all that counts here, so FAB need not look for a nearer one.
        member("fab-t", steps=steps, top=top, stop=True),
        member("square", queries=queries),
    ]


def _first_version(steps: int, queries: int) -> list[Member]:
    return [
        member("apgd-ce", times=5, steps=steps),
        member("apgd-dlr", times=5, steps=steps),
        member("fab", times=5, steps=steps, stop=True),
        member("square", queries=queries),
    ]


def _randomised(steps: int, eot: int) -> list[Member]:
    return [member("apgd-ce", steps=steps, eot=eot), member("apgd-dlr", steps=steps, eot=eot)]


IDLE = {
    "eot": [{"version": "standard"}, {"version": "v1"}],
    "top": [{"version": "v1"}, {"version": "rand"}],
    "queries": [{"version": "rand"}],
}


@ATTACKS.register("autoattack", tags=[USES_DLR], idle=IDLE)
def autoattack(
    version: Literal["standard", "v1", "rand"] = "standard",
    steps: int = 100,
    queries: int = 5000,
    top: int = 9,
    eot: int = 20,
) -> Attack:
    """AutoAttack: APGD-CE, APGD-T, FAB-T and Square, each on what is still standing.

    `v1` is the form of before August 2020: APGD-CE, APGD-DLR and FAB five times each, then Square. `rand` is
    for networks that answer at random: APGD-CE and APGD-DLR, their gradients averaged over `eot` looks.
    """
    if version == "rand":
        return InTurn(tuple(_randomised(steps, eot)))
    return InTurn(
        tuple(_first_version(steps, queries) if version == "v1" else _standard(steps, queries, top))
    )
