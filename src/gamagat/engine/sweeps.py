"""The same attack with one number changed: over the weight lambda of the guided attacks, or over eps.

Every point is an ordinary evaluation, judged and recorded like any other, so that a sweep can be kept in a
folder, killed and gone on with.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from gamagat.attacks.core import ATTACKS
from gamagat.engine.request import EvaluationRequest, Prepared, prepare
from gamagat.engine.run import Run, read_run
from gamagat.engine.watch import Onlooker
from gamagat.errors import ConfigError
from gamagat.pieces.threat import ThreatModel
from gamagat.registry import format_spec, parse_spec, write_value

FACTORS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0)  # of eps, where nobody says which radii
WEIGHTS = (0.0, 1.0, 5.0, 10.0, 25.0, 50.0, 100.0)


def sweep_weights(
    request: EvaluationRequest, weights: Sequence[float] = WEIGHTS, onlooker: Onlooker = Onlooker()
) -> Run:
    """Every attack of the request with each of these weights, as one run."""
    _check(weights, "weight")
    specs = tuple(_weighted(spec, weight) for spec in request.attacks for weight in weights)
    with _place(request.out) as folder:
        return _finished(prepare(replace(request, attacks=specs, out=folder)), onlooker)


def _weighted(spec: str, weight: float) -> str:
    name, options = parse_spec(spec)
    if "weight" not in ATTACKS[name].defaults():
        guided = [known for known in ATTACKS.names() if "weight" in ATTACKS[known].defaults()]
        raise ConfigError(f"{name!r} has no weight to change; the guided attacks are {', '.join(guided)}")
    if "weight" in options:
        raise ConfigError(f"{spec!r} sets the weight that is to change; leave weight= out of it")
    return format_spec(name, options | {"weight": weight})


def sweep_eps(
    request: EvaluationRequest, radii: Sequence[float] = (), onlooker: Onlooker = Onlooker()
) -> list[Run]:
    """The attacks of the request at each of these radii, a run each; without radii, around the usual eps.

    Minimum-norm attacks find the distance of each image at once, so that one run tells of every eps.
    """
    prepared = prepare(request)
    if not radii and all(attack.nearest for attack in prepared.plan):
        radii = [prepared.threat.eps]
    radii = _radii(prepared.threat, radii)
    with _place(request.out) as folder:
        return [
            _finished(_at_radius(prepared, eps, folder / f"eps-{write_value(eps)}"), onlooker)
            for eps in radii
            if eps > 0  # an untouched image needs no attack; every run knows what the network makes of it
        ]


def _radii(threat: ThreatModel, radii: Sequence[float]) -> list[float]:
    """The radii in order; each is looked at before the first is run."""
    most = 1.0 if threat.norm.name == "linf" else float("inf")
    if not radii:
        return sorted({min(round(factor * threat.eps, 12), most) for factor in FACTORS})
    _check(radii, "eps")
    if max(radii) > most:
        raise ConfigError(
            f"eps must be at most 1 in linf, where pixels lie in [0, 1], got {max(radii):g}; write 8/255"
        )
    if max(radii) <= 0:
        raise ConfigError("a sweep of eps needs a positive one, got 0 alone; write radii=0+0.1+0.2")
    return sorted(radii)


def radii_with_zero(threat: ThreatModel, radii: Sequence[float] = ()) -> list[float]:
    """The radii of a sweep, beginning with the untouched images."""
    return sorted({0.0, *_radii(threat, radii)})


def _at_radius(prepared: Prepared, eps: float, folder: Path) -> Prepared:
    request = replace(prepared.request, eps=repr(eps), out=folder)
    return replace(prepared, request=request, threat=replace(prepared.threat, eps=eps))


def _check(values: Sequence[float], what: str) -> None:
    """Values of a sweep are finite, not negative, and each is there once."""
    if not values or len(set(values)) < len(values) or not all(0 <= value < float("inf") for value in values):
        raise ConfigError(
            f"a sweep needs values of {what} from 0 on, each once, got {write_value(tuple(values))!r}; "
            "write them as 0+1+5"
        )


def _finished(prepared: Prepared, onlooker: Onlooker) -> Run:
    if prepared.run(onlooker).stopped:
        raise KeyboardInterrupt  # half a sweep draws a line that is not true
    folder = prepared.request.out
    assert folder is not None
    return read_run(folder)


@contextmanager
def _place(out: Path | None) -> Iterator[Path]:
    """The folder where the runs are kept, or one that is gone afterwards."""
    if out is not None:
        yield out
        return
    with tempfile.TemporaryDirectory(prefix="gamagat-") as name:
        yield Path(name)
