"""What users choose of an experiment: rows and columns, networks of their own, settings of attacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from gamagat.attacks.core import ATTACKS
from gamagat.errors import unknown
from gamagat.registry import format_spec, parse_spec

if TYPE_CHECKING:
    from gamagat.experiments.core import Network


class Experiment(Protocol):
    """What tables and figures have in common: rows and columns with names, networks and attacks."""

    @property
    def name(self) -> str: ...
    @property
    def rows(self) -> list[str]: ...
    @property
    def columns(self) -> list[str]: ...
    @property
    def networks(self) -> list[Network]: ...
    @property
    def attacks(self) -> list[str]: ...


def rows_given(experiment: Experiment, given: Mapping[str, Network]) -> dict[str, Network]:
    """The user's networks by row, `all` of them spelled out."""
    rows = {_spelled("row", row, experiment): network for row, network in given.items() if row != "all"}
    return {row: given["all"] for row in experiment.rows if "all" in given} | rows


def chosen_names(kind: str, given: Sequence[str], experiment: Experiment) -> list[str]:
    """The rows or columns that were asked for, or all of them."""
    names = experiment.rows if kind == "row" else experiment.columns
    return [_spelled(kind, name, experiment) for name in given] or names


def _spelled(kind: str, given: str, experiment: Experiment) -> str:
    """A row or column as the experiment has it; case does not matter."""
    names = experiment.rows if kind == "row" else experiment.columns
    known = {name.lower(): name for name in names}
    if given.lower() not in known:
        raise unknown(f"{kind} of {experiment.name}", given, names)
    return known[given.lower()]


def with_settings(attack: str, settings: Mapping[str, str]) -> str:
    """An attack with these settings; one that it does not have, or restarts of one that makes none, stay."""
    name, options = parse_spec(attack)
    known = {*ATTACKS[name].defaults(), *options}
    return format_spec(name, options | {key: value for key, value in settings.items() if key in known})


def check_settings(experiment: Experiment, settings: Mapping[str, str]) -> None:
    """Refuse a setting that changes no attack."""
    specs = [parse_spec(attack) for attack in experiment.attacks]
    known = {key for name, options in specs for key in (*ATTACKS[name].defaults(), *options)}
    for key in settings:
        if key not in known:
            raise unknown(f"setting of the attacks of {experiment.name}", key, known)
