"""How much time a run has left."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from gamagat.attacks.network import OutOfTime
from gamagat.engine.training.run import Listener
from gamagat.engine.watch import Onlooker
from gamagat.errors import ConfigError


@dataclass(slots=True)
class Clock:
    """How much time is left; training stops before an epoch that would not be finished."""

    seconds: float | None = None
    _end: float = field(init=False)

    def __post_init__(self) -> None:
        if self.seconds is not None and not self.seconds > 0:
            raise ConfigError(f"the time must be positive, got {self.seconds:g} seconds")
        self._end = math.inf if self.seconds is None else monotonic() + self.seconds

    @property
    def left(self) -> float:
        return self._end - monotonic()

    def check(self, needed: float = 0.0) -> None:
        """Stop if less is left than needed."""
        if self.left <= needed:
            raise OutOfTime

    def onlooker(self, other: Onlooker) -> Onlooker:
        """The same onlooker, looking at the clock with every batch."""

        def progress(what: str, done: float, total: int) -> None:
            self.check()
            other.progress(what, done, total)

        return Onlooker(progress, other.say)

    def watched(self, listener: Listener) -> Listener:
        """The same listener, looking at the clock at every batch."""
        spent = 0.0

        def epoch(row: dict[str, Any], settings: Any) -> None:
            nonlocal spent
            spent = float(row["seconds"])
            listener.epoch(row, settings)

        def batch(number: int, epochs: int, done: int, total: int) -> None:
            # The epoch before is written down whatever happens; this one is lost if it is not finished.
            self.check(spent if done == 1 else 0.0)
            listener.batch(number, epochs, done, total)

        return listener._replace(epoch=epoch, batch=batch)
