"""From the words a user writes to the runs an evaluation makes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gamagat.attacks.combine import entries, restarts
from gamagat.attacks.core import ATTACKS, MINIMUM_NORM, Attack, check_norm
from gamagat.defenses.core import DEFENSES
from gamagat.errors import ConfigError
from gamagat.pieces.threat import Norm, ThreatModel, norm_named
from gamagat.registry import format_spec, parse_spec, read_number, read_value


@dataclass(frozen=True, slots=True)
class PlannedAttack:
    """One attack of an evaluation: its single runs, each on the images the runs before it left standing."""

    name: str
    spec: str
    runs: tuple[tuple[str, Attack], ...]
    nearest: bool = False  # whether it looks for the nearest adversarial image, also beyond eps

    def as_json(self) -> dict[str, Any]:
        """The attack as the manifest has it."""
        nearest = {"nearest": True} if self.nearest else {}
        return {"name": self.name, "spec": self.spec, "runs": [name for name, _ in self.runs], **nearest}


def plan_attack(
    spec: str, preset: str | None = None, times: int = 1, label: str | None = None
) -> PlannedAttack:
    """Read one attack; `restarts` is an option of every attack, `times` its value where it is not given."""
    name, options = parse_spec(spec)
    given = options.pop("restarts", None)
    times = times if given is None else read_value(given, int, f"{name}:restarts")
    settings = ATTACKS.settings(name, preset, **options)
    attack = restarts(ATTACKS[name].factory(**settings), times)
    spelled = format_spec(name, settings | {"restarts": times})
    # One that stops as soon as it is inside eps knows nothing of what is nearer, nor of what is further away.
    nearest = MINIMUM_NORM in ATTACKS[name].tags and not settings.get("stop", False)
    return PlannedAttack(spec, spelled, tuple(entries(label or name, attack)), nearest)


def families() -> set[str]:
    """The kinds of data that attacks or recipes have settings for."""
    return {name.partition("/")[0] for name in (*ATTACKS.families(), *DEFENSES.families())}


def plan_attacks(
    specs: Sequence[str], preset: str | None = None, times: int = 1, norm: Norm | None = None
) -> tuple[PlannedAttack, ...]:
    """Read all attacks, so that a mistake in the last is found before the first has run."""
    if not specs:
        raise ConfigError("an evaluation needs at least one attack; see: gamagat list attacks")
    for spec in specs:
        if specs.count(spec) > 1:
            name = spec.split(":", maxsplit=1)[0]
            raise ConfigError(f"attack {spec!r} is given twice; for another try use {name}:restarts=2")
    names = [parse_spec(spec)[0] for spec in specs]
    for name in names:
        if norm is not None:
            check_norm(name, norm)
    # Runs are kept under the attack's name; where two attacks share it, under all that was said.
    return tuple(
        plan_attack(spec, preset, times, spec if names.count(name) > 1 else name)
        for spec, name in zip(specs, names, strict=True)
    )


def read_threat(norm: str, eps: str | float | None, usual: dict[str, float] | None = None) -> ThreatModel:
    """The threat model in the user's words; without eps, the usual one of the data set."""
    geometry = norm_named(norm)
    if eps is None:
        if geometry.name not in (usual or {}):
            raise ConfigError(
                f"there is no usual eps for {geometry.name} on this data; say it, such as --eps 8/255"
            )
        return ThreatModel(geometry, (usual or {})[geometry.name])
    radius = read_number(eps, "eps") if isinstance(eps, str) else _plain(eps)
    if geometry.name == "linf" and radius > 1:
        raise ConfigError(
            f"eps must be at most 1 in linf, where pixels lie in [0, 1], got {eps}; 8 levels are 8/255"
        )
    return ThreatModel(geometry, radius)


def _plain(eps: Any) -> float:
    """A number of Python's, of numpy's or of torch's."""
    try:
        return float(eps)
    except (TypeError, ValueError, RuntimeError):
        raise ConfigError(
            f"eps must be one number such as 0.3 or '8/255', got {type(eps).__name__} {eps}"
        ) from None
