"""Settings of attacks that change nothing, given the others."""

from collections.abc import Iterator, Sequence

from gamagat.attacks.core import ATTACKS
from gamagat.engine.findings import Finding
from gamagat.registry import Options, idle_by, parse_spec, write_value

IDLE = "idle-setting"


def idle_findings(attacks: Sequence[str], preset: str | None = None) -> Iterator[Finding]:
    """One for each setting that was said in vain."""
    for spec in attacks:
        yield from idle_of(*parse_spec(spec), preset)


def idle_of(name: str, options: Options, preset: str | None = None) -> Iterator[Finding]:
    """The same for one attack; what nobody said is nobody's mistake."""
    for key, cause in idle_options(name, options, preset).items():
        value = options[key] if isinstance(options[key], str) else write_value(options[key])
        yield _finding(name, f"{key}={value}", key, cause)


def idle_options(name: str, options: Options, preset: str | None = None) -> dict[str, str]:
    """Which of these settings of an attack change nothing, and what makes it so."""
    own = {key: value for key, value in options.items() if key in ATTACKS[name].defaults()}
    return idle_by(ATTACKS[name].idle, ATTACKS.settings(name, preset, **own), own)


def _finding(name: str, said: str, key: str, cause: str) -> Finding:
    return Finding(
        IDLE,
        "warn",
        f"{said} changes nothing in {name} with {cause}.",
        "Whoever reads it takes it for something that was done.",
        f"Leave {key} out, or change {cause.replace(' and ', ' or ')}.",
    )
