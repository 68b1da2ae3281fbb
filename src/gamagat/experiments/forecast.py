"""What a table would run, and for how long: passes through each network times the pace of this device."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile

from gamagat.attacks.combine import gradients, passes
from gamagat.engine.plan import plan_attack
from gamagat.engine.surfaces import USUAL
from gamagat.engine.sweeps import FACTORS
from gamagat.engine.training.passes import probe_passes, training_passes
from gamagat.engine.training.probe import probes
from gamagat.engine.training.run import METRICS
from gamagat.engine.training.settings import Plan
from gamagat.errors import DataError, ModelError, RunError
from gamagat.experiments.cache import EVALUATED, read_kept
from gamagat.experiments.core import Network, Slot, Table
from gamagat.experiments.drawing import EPOCHS, LOOKED
from gamagat.experiments.figures import Figure, Line
from gamagat.experiments.pace import Pace, Paces
from gamagat.experiments.runner import check
from gamagat.experiments.workshop import Workshop

THERE, MISSING = "there", "cannot be had"
SURFACE = USUAL.points**2 + 2  # looks at the network that a surface takes


@dataclass(frozen=True, slots=True)
class Item:
    """One thing to do."""

    kind: str  # fetch, train, measure or draw
    name: str
    state: str
    seconds: float = 0.0


@dataclass(slots=True)
class Forecast:
    """All that a table would run."""

    items: list[Item] = field(default_factory=list)
    told: set[str] = field(default_factory=set)  # why things cannot be had

    def add(self, kind: str, name: str, look: Callable[[], tuple[str, float]]) -> None:
        """One thing more. Why it cannot be had is told once: what is measured fails as its network does."""
        try:
            item = Item(kind, name, *look())
        except (DataError, ModelError, RunError) as error:
            why = str(error)
            item = Item(kind, name, MISSING if why in self.told else f"{MISSING}: {why}")
            self.told.add(why)
        self.items.append(item)

    def fetching(self, absent: Mapping[str, str]) -> Forecast:
        """With the data that will be downloaded, which comes first."""
        return Forecast([*(Item("fetch", data, words) for data, words in absent.items()), *self.items])

    def of_networks(self) -> Forecast:
        """Only what is trained, and what that needs."""
        return Forecast([item for item in self.items if item.kind in ("fetch", "train")])

    @property
    def seconds(self) -> float:
        return sum(item.seconds for item in self.items)

    @property
    def complete(self) -> bool:
        """Whether there is nothing that cannot be had, and whose time is not counted."""
        return not any(item.state.startswith(MISSING) for item in self.items)


def forecast(table: Table, shop: Workshop) -> Forecast:
    """Look at the cache, and measure the pace of each network that has something to do."""
    check(table, shop)
    plan, paces = Forecast(), Paces(shop)
    for network in table.networks:
        plan.add("train", network.name, partial(_training, network, shop, paces))
    for slot in table.slots:
        name = f"{slot.row}, {slot.column}"
        plan.add("measure", name, partial(_measuring, table, slot, shop, paces))
    return plan.fetching(shop.cache.absent)


def forecast_figure(figure: Figure, shop: Workshop) -> Forecast:
    """The same for a figure: evaluations, and what is drawn of networks themselves."""
    check(figure, shop)
    plan, paces = Forecast(), Paces(shop)
    for network in figure.networks:
        plan.add("train", network.name, partial(_training, network, shop, paces))
    for line in figure.lines:
        table = figure.table(line)
        for slot in line.slots:
            name = f"{slot.row}, {slot.column}"
            plan.add("measure", name, partial(_measuring, table, slot, shop, paces))
        if not line.points:
            name = f"{line.row}, {line.column}"
            plan.add("draw", name, partial(_drawing, line, shop, paces))
    return plan.fetching(shop.cache.absent)


def _drawing(line: Line, shop: Workshop, paces: Paces) -> tuple[str, float]:
    if line.network is None or line.kind == EPOCHS:
        return "as soon as it is trained" if line.network else "at once", 0.0
    if not line.network.to_be_had:
        return f"{MISSING}: bring it with --checkpoint", 0.0
    slot = line.as_slot()
    if (
        shop.cache.is_trained(line.network)
        and read_kept(shop.cache.drawing(slot.network, slot.measure, line.plot), LOOKED) is not None
    ):
        return THERE, 0.0
    if (lack := shop.cache.lack(line.network)) is not None:
        raise lack
    images, pace = shop.cache.images(slot.network, slot.measure), paces.of(line.network)
    each = SURFACE * pace.forward if line.attack is None else _image_seconds(slot, shop, pace)
    # Along an attack every step is looked at once more; against eps the attack runs at each of several.
    turns = {"iterations": 1.5, "loss-eps": len(FACTORS)}.get(line.kind, 1)
    return f"{images} images", images * turns * each


def _training(network: Network, shop: Workshop, paces: Paces) -> tuple[str, float]:
    if not network.to_be_had:
        return f"{MISSING}: bring it with --checkpoint", 0.0
    if shop.cache.is_trained(network):
        return THERE, 0.0
    if (lack := shop.cache.lack(network)) is not None:
        raise lack
    plan = shop.cache.plan(network)
    spent = _epochs(shop, network)
    left = plan.settings.epochs - len(spent)
    words = f"goes on, {len(spent)} of {plan.settings.epochs} epochs done" if spent else f"{left} epochs"
    each = sum(spent) / len(spent) if spent else _epoch_seconds(network, plan, shop, paces)
    return words, left * each


def _epochs(shop: Workshop, network: Network) -> list[float]:
    """The seconds of the epochs that are done; of a damaged record none."""
    path = shop.cache.home(network) / METRICS
    try:
        return [json.loads(line)["seconds"] for line in path.read_text().splitlines()]
    except (OSError, ValueError, TypeError, KeyError):
        return []


def _epoch_seconds(network: Network, plan: Plan, shop: Workshop, paces: Paces) -> float:
    images, pace = shop.cache.training(network.data), paces.of(network, training=True)
    count = images.count * plan.settings.replays * training_passes(plan)
    looks = plan.settings.probe * probe_passes(probes(images.family))
    return (count + looks) * (pace.forward + pace.backward)


def _measuring(table: Table, slot: Slot, shop: Workshop, paces: Paces) -> tuple[str, float]:
    if not all(network.to_be_had for network in slot.networks):
        return f"{MISSING}: bring it with --checkpoint", 0.0
    if shop.known(table, slot) is not None:
        return THERE, 0.0
    for network in slot.networks:
        if (lack := shop.cache.lack(network)) is not None:
            raise lack
    images = shop.cache.images(slot.network, slot.measure)
    if _made_before(table, slot, shop):
        return f"{images} images", images * paces.of(slot.network).forward
    # Images for a transfer are made on the source.
    pace = paces.of(slot.measure.source or slot.network)
    return f"{images} images", images * _reaching(table, slot) * _image_seconds(slot, shop, pace)


def _made_before(table: Table, slot: Slot, shop: Workshop) -> bool:
    """Whether images for a transfer are only to be judged, as an earlier row makes them."""
    if slot.measure.source is None or not shop.cache.is_trained(slot.network):
        return False
    earlier = takewhile(lambda other: other != slot, table.slots)
    asked = (other for other in earlier if other.measure == slot.measure and other.network.to_be_had)
    return any(shop.known(table, other) is None for other in asked)


def _image_seconds(slot: Slot, shop: Workshop, pace: Pace) -> float:
    facts = shop.cache.facts(slot.network.data)
    runs = [run for _, run in plan_attack(slot.measure.attack or EVALUATED, facts.preset).runs]
    forwards, backwards = sum(map(passes, runs)), sum(gradients(run, facts.classes) for run in runs)
    return (1 + forwards) * pace.forward + backwards * pace.backward


def _reaching(table: Table, slot: Slot) -> float:
    """The share of the images that go all the way: all, unless those that are fooled leave at once."""
    attack = slot.measure.attack or EVALUATED
    if slot.measure.what == "distance" or slot.measure.source or "as_published=true" in attack:
        return 1.0
    published = table.published(slot.row, slot.column)
    return 0.5 if published is None else max(0.02, published / 100)
