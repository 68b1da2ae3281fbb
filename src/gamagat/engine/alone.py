"""One process at a time in a folder or a file; what a killed process held is free again."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None  # type: ignore[assignment]


@contextmanager
def alone_in(place: Path, busy: Callable[[], None]) -> Iterator[None]:
    """While no other process is here. As long as one is, `busy` is called: it waits a little, or gives up.

    Where a system or a disk has no such locks, without them.
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
        return None if fcntl is None else os.open(place, os.O_RDONLY)
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
