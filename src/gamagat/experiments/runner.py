"""A table from its first slot to its last; what was measured before is taken from the cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from gamagat.attacks.network import OutOfTime
from gamagat.engine.checks import check_batch_size
from gamagat.engine.evaluate import INTERRUPTED, TIME_OVER
from gamagat.engine.plan import plan_attack
from gamagat.engine.runtime import GPU_LOST, choose_device
from gamagat.engine.training.run import choose_precision
from gamagat.engine.training.settings import make_plan
from gamagat.errors import DataError, DeviceError, ModelError, RunError
from gamagat.experiments.cells import Cell, not_run, of_others
from gamagat.experiments.choice import Experiment
from gamagat.experiments.core import Network, Slot, Table
from gamagat.experiments.workshop import Workshop

Told = Callable[[Cell], None]


@dataclass(slots=True)
class Outcome:
    """What a run left: a cell for every place of the table, and why it stopped if it did."""

    table: Table
    cells: list[Cell] = field(default_factory=list)
    stopped: str | None = None

    @property
    def missing(self) -> list[Cell]:
        return [cell for cell in self.cells if not cell.measured]


def check(experiment: Experiment, shop: Workshop) -> None:
    """Find mistakes in words before anything runs, also where all is known and nothing will."""
    choose_precision(shop.cache.precision, choose_device(shop.device))
    check_batch_size(shop.batch_size)
    shop.cache.check()
    for network in experiment.networks:
        if network.given:
            shop.cache.home(network)
        elif network.recipe is not None:
            make_plan(network.recipe, None, network.model, **shop.cache.options)
    for attack in experiment.attacks:
        plan_attack(attack)


def run(table: Table, shop: Workshop, told: Told = lambda cell: None) -> Outcome:
    """Fill every slot; each cell is told as soon as it is known."""
    check(table, shop)
    outcome = Outcome(table)
    for cell in _cells(table, shop, outcome):
        outcome.cells.append(cell)
        told(cell)
    for place in table.derived:
        outcome.cells.append(of_others(table, place, outcome.cells))
        told(outcome.cells[-1])
    return outcome


def _cells(table: Table, shop: Workshop, outcome: Outcome) -> Iterator[Cell]:
    failed: dict[Network, str] = {}  # what cannot be had is not tried again for every column
    for slot in table.slots:
        try:
            yield _filled(table, slot, shop, failed, outcome.stopped)
        except (OutOfTime, KeyboardInterrupt) as stop:
            outcome.stopped = TIME_OVER if isinstance(stop, OutOfTime) else INTERRUPTED
            yield not_run(table, slot, outcome.stopped)
        except DeviceError as error:
            outcome.stopped = GPU_LOST
            yield not_run(table, slot, str(error))
        except (DataError, ModelError, RunError) as error:
            yield not_run(table, slot, str(error))


def _filled(
    table: Table, slot: Slot, shop: Workshop, failed: dict[Network, str], stopped: str | None
) -> Cell:
    """One cell; after a stop, only what is known already."""
    if not slot.network.to_be_had:
        words = f"bring the network: --checkpoint '{slot.row}={slot.network.model}@FILE'"
        return not_run(table, slot, words)
    if stopped:
        return shop.known(table, slot) or not_run(table, slot, stopped)
    for network in slot.networks:
        if network in failed:
            return not_run(table, slot, failed[network])
        try:
            shop.trained(network)
        except (DataError, ModelError, RunError) as error:
            failed[network] = str(error)
            raise
    return shop.measured(table, slot)


def train_networks(
    experiment: Experiment, shop: Workshop, told: Callable[[Network, str, bool], None]
) -> str | None:
    """Only the networks, each told with its folder or what is wrong; why it stopped, if it did."""
    check(experiment, shop)
    for network in experiment.networks:
        if not network.to_be_had:
            told(network, "bring it with --checkpoint", False)
            continue
        try:
            told(network, str(shop.trained(network)), True)
        except OutOfTime:
            return TIME_OVER
        except KeyboardInterrupt:
            return INTERRUPTED
        except DeviceError:
            return GPU_LOST
        except (DataError, ModelError, RunError) as error:
            told(network, f"not trained: {error}", False)
    return None
