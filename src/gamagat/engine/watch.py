"""Progress: what is running and how far it is, told with every batch that passes through the network."""

from collections.abc import Callable
from typing import NamedTuple


def _nothing(*_: object) -> None:
    """Say nothing."""


class Onlooker(NamedTuple):
    """Whom an evaluation talks to while it runs."""

    progress: Callable[[str, float, int], None] = _nothing  # what is running, images done, images in all
    say: Callable[[str], None] = _nothing  # something unusual


class Watch:
    """Counts the passes of one run, to tell how far it is before its first chunk has ended."""

    def __init__(self, onlooker: Onlooker, what: str, total: int, passes: int = 1) -> None:
        self._tell = onlooker.progress
        self._what, self._total = what, total
        self._passes = max(1, passes)  # that an image may need at the most
        self._done, self._within, self._most = 0, 0.0, 0
        self._tell(what, 0, total)

    def begin(self, count: int) -> None:
        """The next `count` images are on their way."""
        self._within, self._most = 0.0, count

    def seen(self, count: int) -> None:
        """So many images have passed through the network once."""
        self._within = min(self._within + count / self._passes, self._most)
        self._tell(self._what, self._done + self._within, self._total)

    def end(self, count: int) -> None:
        """A chunk of `count` images is through."""
        self._done, self._within, self._most = self._done + count, 0.0, 0
        self._tell(self._what, self._done, self._total)
