"""The contract of experiments: a table is a set of slots, each a network and a way to measure it.

One new table is one new file in this folder with a function that returns a `Table`, registered under a name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from gamagat.errors import ConfigError
from gamagat.experiments import paper
from gamagat.experiments.choice import check_settings, chosen_names, rows_given, with_settings
from gamagat.registry import Registry

EXPERIMENTS: Registry[Table] = Registry("experiment", "gamagat.experiments")


@dataclass(frozen=True, slots=True)
class Network:
    """A network in words: how it is trained, or the user's weights in place of that."""

    data: str
    model: str
    recipe: str | None = None  # None: nobody but the user can bring it
    seed: int = 0
    eps: str | None = None  # what it is trained for and measured at; None is the data's usual
    weights: str | None = None  # a file of the user's; of a folder with a card, `model` is the folder
    given: bool = False  # by the user, in place of a trained one

    @property
    def name(self) -> str:
        """A few words for people."""
        how = "yours" if self.given else (self.recipe or "no recipe")
        eps = f", eps {self.eps}" if self.eps else ""
        seed = f", seed {self.seed}" if self.seed else ""
        return f"{how}, {self.model}, {self.data}{eps}{seed}"

    @property
    def to_be_had(self) -> bool:
        """Whether it can be trained here, or is given."""
        return self.given or self.recipe is not None


@dataclass(frozen=True, slots=True)
class Measure:
    """What is measured: an accuracy under an attack, or how far away the nearest adversarial images are.

    Without an attack it is the accuracy on untouched images. With a `source`, the images are made on that
    network (transfer). `eps` is the network's own unless it is said, as it must be for another norm.
    """

    attack: str | None = None
    what: Literal["accuracy", "distance"] = "accuracy"
    norm: str = "linf"
    eps: str | None = None
    n: int | None = None  # the first so many test images
    source: Network | None = None

    @property
    def unit(self) -> str:
        return "%" if self.what == "accuracy" else "L2"

    def with_settings(self, settings: Mapping[str, str]) -> Measure:
        """The same with other settings of the attack, where it has them."""
        return self if self.attack is None else replace(self, attack=with_settings(self.attack, settings))


@dataclass(frozen=True, slots=True)
class Slot:
    """One place of a table: what is to stand there, and from what it comes."""

    row: str
    column: str
    network: Network
    measure: Measure

    @property
    def networks(self) -> tuple[Network, ...]:
        """The networks it needs."""
        source = self.measure.source
        return (self.network,) if source is None else (self.network, source)


@dataclass(frozen=True, slots=True)
class Derived:
    """A place that is worked out from others of its column."""

    row: str
    column: str
    of: tuple[str, ...]  # rows
    how: Literal["mean", "std"]


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the paper, or of ours: its slots in order, and what is known about differences."""

    name: str
    slots: tuple[Slot, ...]
    paper: str | None = None  # the table's key in the paper's data; None if it is ours
    title: str = ""  # the paper's unless it is said
    derived: tuple[Derived, ...] = ()
    ours: frozenset[str] = frozenset()  # rows and columns that the paper does not have
    notes: Mapping[str, str] = field(
        default_factory=dict
    )  # why ours may differ: by row, column, or "" for all

    @property
    def heading(self) -> str:
        return self.title or (paper.title(self.paper) if self.paper else self.name)

    @property
    def rows(self) -> list[str]:
        return list(dict.fromkeys([*(slot.row for slot in self.slots), *(one.row for one in self.derived)]))

    @property
    def columns(self) -> list[str]:
        return list(dict.fromkeys(slot.column for slot in self.slots))

    @property
    def networks(self) -> list[Network]:
        """The networks that it needs, each once, in the order of their use."""
        return list(dict.fromkeys(network for slot in self.slots for network in slot.networks))

    @property
    def attacks(self) -> list[str]:
        return [slot.measure.attack for slot in self.slots if slot.measure.attack is not None]

    def published(self, row: str, column: str) -> float | None:
        """What the paper says; None where it says nothing."""
        return None if self.paper is None else paper.value(self.paper, row, column)

    def only(self, rows: Sequence[str] = (), columns: Sequence[str] = ()) -> Table:
        """The part with these rows and columns, rows in the order given; none given means all."""
        wanted, across = chosen_names("row", rows, self), chosen_names("column", columns, self)
        chosen = [slot for slot in self.slots if slot.row in wanted and slot.column in across]
        slots = tuple(sorted(chosen, key=lambda slot: wanted.index(slot.row)))
        derived = tuple(place for place in self.derived if place.row in wanted and place.column in across)
        # A mean needs what it is the mean of, asked for or not.
        needed = {(row, place.column) for place in derived for row in place.of}
        extra = tuple(s for s in self.slots if (s.row, s.column) in needed and s not in slots)
        if not slots + extra:
            raise ConfigError(f"{self.name} has no figure in these rows and columns; leave one of them out")
        return replace(self, slots=slots + extra, derived=derived)

    def with_networks(self, given: Mapping[str, Network]) -> Table:
        """The table with the user's networks in some rows, or in `all` of them."""
        rows = rows_given(self, given)
        for row in rows:
            if len({slot.network for slot in self.slots if slot.row == row}) > 1:
                raise ConfigError(f"row {row!r} of {self.name} needs several networks, and none can be given")
        slots = tuple(
            replace(slot, network=in_place_of(slot.network, rows[slot.row])) if slot.row in rows else slot
            for slot in self.slots
        )
        return replace(self, slots=slots)

    def with_settings(self, settings: Mapping[str, str]) -> Table:
        """The table with these settings of attacks, where they have them."""
        check_settings(self, settings)
        slots = (replace(slot, measure=slot.measure.with_settings(settings)) for slot in self.slots)
        return replace(self, slots=tuple(slots))


def in_place_of(own: Network, given: Network) -> Network:
    """The user's network, measured as the experiment's own would be."""
    return replace(given, data=own.data, eps=own.eps, seed=own.seed, given=True)


def grid(rows: Mapping[str, Network], columns: Mapping[str, Measure]) -> tuple[Slot, ...]:
    """Every network in every column."""
    return tuple(
        Slot(row, column, network, measure)
        for row, network in rows.items()
        for column, measure in columns.items()
    )


def find(name: str) -> Table:
    """An experiment by its name; `S2` is `tableS2`, and case does not matter."""
    known = {key.lower(): key for key in EXPERIMENTS.names()}
    wanted = name.strip().lower()
    for spelling in (wanted, f"table{wanted}"):
        if spelling in known:
            return EXPERIMENTS.make(known[spelling])
    return EXPERIMENTS.make(name)  # which says what there is
