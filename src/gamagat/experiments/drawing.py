"""A figure from its first line to its last; what was measured or drawn before is taken from the cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic
from typing import Any

import torch

from gamagat.attacks.network import OutOfTime
from gamagat.engine.evaluate import INTERRUPTED, TIME_OVER
from gamagat.engine.manifest import circumstances, write_json
from gamagat.engine.request import EvaluationRequest
from gamagat.engine.runtime import GPU_LOST, choose_device
from gamagat.engine.watch import Onlooker
from gamagat.errors import ConfigError, DataError, DeviceError, ModelError, RunError
from gamagat.experiments.cache import read_kept
from gamagat.experiments.cells import Cell
from gamagat.experiments.core import Network
from gamagat.experiments.drawn import Drawn, Shown, drawn, not_drawn, of_points
from gamagat.experiments.figures import POINTS, Figure, Line
from gamagat.experiments.runner import check
from gamagat.experiments.telling import in_words
from gamagat.experiments.workshop import Workshop

# A kind of plot, its sources, and the words around them, as `gamagat plot` takes them; the picture as JSON.
Draw = Callable[[str, tuple[str, ...], EvaluationRequest, Onlooker], Shown]
NOTHING = EvaluationRequest("", attacks=())
EPOCHS = "epochs"  # the plot of a training
LOOKED = ("picture", "seconds", "made")  # what is kept of a plot of a network


@dataclass(slots=True)
class Sketch:
    """What a run left: every line of the figure, and why it stopped if it did."""

    figure: Figure
    lines: list[Drawn] = field(default_factory=list)
    stopped: str | None = None

    @property
    def missing(self) -> list[Drawn]:
        return [line for line in self.lines if not line.measured]


def run_figure(
    figure: Figure, shop: Workshop, draw: Draw, told: Callable[[Drawn], None] = lambda line: None
) -> Sketch:
    """Draw every line; each is told as soon as it is known."""
    check(figure, shop)
    sketch = Sketch(figure)
    for line in _lines(figure, Desk(figure, shop, draw), sketch):
        sketch.lines.append(line)
        told(line)
    return sketch


def _lines(figure: Figure, desk: Desk, sketch: Sketch) -> Iterator[Drawn]:
    failed: dict[Network, str] = {}  # what cannot be had is not tried again for every line
    for line in figure.lines:
        try:
            yield _filled(line, desk, failed, sketch.stopped)
        except (OutOfTime, KeyboardInterrupt) as stop:
            sketch.stopped = TIME_OVER if isinstance(stop, OutOfTime) else INTERRUPTED
            yield not_drawn(line, sketch.stopped)
        except DeviceError as error:
            sketch.stopped = GPU_LOST
            yield not_drawn(line, str(error))
        except (ConfigError, DataError, ModelError, RunError) as error:
            yield not_drawn(line, str(error))


def _filled(line: Line, desk: Desk, failed: dict[Network, str], stopped: str | None) -> Drawn:
    """One line; after a stop, only what is known already."""
    for network in line.networks:
        if not network.to_be_had:
            words = f"bring the network: --checkpoint '{line.row}={network.model}@FILE'"
            return not_drawn(line, words)
    if stopped:
        return desk.known(line) or not_drawn(line, stopped)
    for network in line.networks:
        if network in failed:
            return not_drawn(line, failed[network])
        try:
            desk.shop.trained(network)
        except (DataError, ModelError, RunError) as error:
            failed[network] = str(error)
            raise
    return desk.made(line)


def points_of(line: Line, shop: Workshop) -> list[list[Any]]:
    """What each point of a line is: where it lies, its network, attack and radius."""
    each = ((point.x, shop.about(slot, {})) for point, slot in zip(line.points, line.slots, strict=True))
    return [[x, about["network"], about["attack"], about["eps"]] for x, about in each]


@dataclass(slots=True)
class Desk:
    """Where lines are drawn: of evaluations that the workshop makes, or of networks themselves."""

    figure: Figure
    shop: Workshop
    draw: Draw

    def known(self, line: Line) -> Drawn | None:
        """A line that needs no more work than to be drawn, if all of it is there."""
        if not all(self.shop.cache.is_trained(network) for network in line.networks):
            return None
        if line.points:
            cells = [self.shop.known(self.figure.table(line), slot) for slot in line.slots]
            found = [cell for cell in cells if cell is not None]
            return self._of_cells(line, found) if len(found) == len(cells) else None
        if line.network is None or line.kind == EPOCHS:
            return self._of_network(line)
        content = read_kept(self.place(line), LOOKED)
        return None if content is None else self._kept(line, content)

    def made(self, line: Line) -> Drawn:
        """A line whose networks are trained."""
        if line.points:
            table = self.figure.table(line)
            return self._of_cells(line, [self.shop.measured(table, slot) for slot in line.slots])
        return self.known(line) or self._of_network(line)

    def place(self, line: Line) -> Path:
        """Where what is drawn of a network is kept."""
        slot = line.as_slot()
        return self.shop.cache.drawing(slot.network, slot.measure, line.plot)

    def _of_cells(self, line: Line, cells: list[Cell]) -> Drawn:
        """Drawn of finished evaluations."""
        seconds = sum(cell.seconds for cell in cells)
        if line.plot == POINTS:
            picture = of_points(line, cells)
        else:
            cache = self.shop.cache
            folders = [str(cache.evaluation(point.network, point.measure)) for point in line.points]
            picture = self.draw(line.plot, tuple(dict.fromkeys(folders)), NOTHING, Onlooker())
        about = cells[-1].about | {"points": points_of(line, self.shop)}
        return drawn(line, picture, max(cell.n for cell in cells), seconds, about)

    def _of_network(self, line: Line) -> Drawn:
        """Drawn of a network, of its training, or of nothing."""
        shop, network = self.shop, line.network
        made = circumstances(torch.device("cpu"), 0, 1)  # no network runs for these
        if network is None:
            picture = self.draw(line.plot, (), NOTHING, Onlooker())
            return drawn(line, picture, 0, 0.0, {"command": shop.command, "seed": None, "made": made})
        if line.kind == EPOCHS:
            about = shop.about(line.as_slot(), made) | shop.weights_of(network)
            folder = network.model if network.given else str(shop.cache.home(network))
            return drawn(line, self.draw(line.plot, (folder,), NOTHING, Onlooker()), 0, 0.0, about)
        return self._kept(line, self._look(line, self.place(line)))

    def _look(self, line: Line, place: Path) -> dict[str, Any]:
        """Run the network for the plot, and keep what came out."""
        shop = self.shop
        shop.clock.check()
        made = circumstances(choose_device(shop.device), shop.batch_size or 0, 1)
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(f"cannot make the folder {place.parent}: {error.strerror}") from None
        shop.examine(line.as_slot())
        shop.say(f"drawing {line.row}, {line.column}")
        attacks = () if line.attack is None else (line.attack,)
        request = replace(shop.request(line.as_slot(), None), attacks=attacks, max_seconds=None)
        began = monotonic()
        with shop.looking() as onlooker, in_words(f"drawing {line.plot}", shop.device):
            watched = shop.clock.onlooker(onlooker)
            picture = self.draw(line.plot, (request.model,), request, watched)
        content = {"picture": picture, "seconds": monotonic() - began, "made": made}
        write_json(place, content)
        return content

    def _kept(self, line: Line, content: Mapping[str, Any]) -> Drawn:
        slot = line.as_slot()
        count = self.shop.cache.images(slot.network, slot.measure)
        about = self.shop.about(slot, content["made"]) | self.shop.weights_of(slot.network)
        return drawn(line, content["picture"], count, content["seconds"], about)
