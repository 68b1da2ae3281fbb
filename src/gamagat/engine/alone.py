"""One process at a time in a folder or a file; what a killed process held is free again."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None  # type: ignore[assignment]


CREATED = os.O_RDWR | os.O_CREAT  # some disks lock only what can be written to
LOCK = ".alone"  # a file that is there for nothing else: others are replaced whenever they are written


@contextmanager
def alone_in(place: Path, busy: Callable[[], None]) -> Iterator[None]:
    """While no other process is here. As long as one is, `busy` is called: it waits a little, or gives up.

    The place is a folder, or a file that is made if need be. Where there are no such locks, without them.
    """
    held = _opened(place)
    try:
        while held is not None and _taken(held):
            busy()
        yield
    finally:
        if held is not None:
            os.close(held)


def _opened(place: Path) -> int | None:
    try:
        return None if fcntl is None else os.open(place, os.O_RDONLY if place.is_dir() else CREATED, 0o666)
    except OSError:  # whoever wants to write there will say so
        return None


def _taken(held: int) -> bool:
    """Whether another process has it; if not, it is ours now."""
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
