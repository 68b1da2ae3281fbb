"""Attacks whose steps together do not lead from the image to the edge of the ball."""

from collections.abc import Iterator, Sequence

from gamagat.attacks.core import ATTACKS, STRIDES
from gamagat.engine.findings import Finding
from gamagat.registry import Options, parse_spec

NEAR = 1e-9  # what rounding makes of a whole
USUAL = 2.5  # how far many let PGD walk, in radii


def reach_findings(attacks: Sequence[str], preset: str | None = None) -> Iterator[Finding]:
    """One for each attack that walks less than eps in all."""
    for spec in attacks:
        name, options = parse_spec(spec)
        if STRIDES in ATTACKS[name].tags:
            steps, rate = _stride(name, options, preset)
            if 0 < steps * rate < 1 - NEAR:
                yield _short(name, steps, rate)


def reaching(name: str, options: Options, preset: str | None = None) -> Options:
    """The same settings, with longer steps where nobody set their length and they lead nowhere."""
    if STRIDES not in ATTACKS[name].tags or "rate" in options:
        return options
    steps, rate = _stride(name, options, preset)
    return options | {"rate": USUAL / steps} if steps * rate < 1 - NEAR else options


def _stride(name: str, options: Options, preset: str | None) -> tuple[int, float]:
    """How many steps it takes, and how long they are."""
    own = {key: value for key, value in options.items() if key in ATTACKS[name].defaults()}
    settings = ATTACKS.settings(name, preset, **own)  # restarts are not the attack's own
    return settings["steps"], settings["rate"]


def _short(name: str, steps: int, rate: float) -> Finding:
    return Finding(
        "reach",
        "warn",
        f"{name} takes {steps} steps of {rate:.3g} eps, which is {steps * rate:.2g} eps in all.",
        "Most of the ball is out of its reach, and the network looks more robust than it is.",
        f"Give more steps, or longer ones: {name}:steps={steps},rate={USUAL / steps:.3g}.",
    )
