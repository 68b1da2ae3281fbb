"""One process at a time in a folder or a file; what a killed process held is free again."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None  # type: ignore[assignment]


CREATED = os.O_RDWR | os.O_CREAT
LOCK = ".alone"  # a file that is there for nothing else: others are replaced whenever they are written
WITHIN = ".held"  # the same in a folder that cannot be locked itself


@contextmanager
def alone_in(place: Path, busy: Callable[[], None]) -> Iterator[None]:
    """While no other process is here. As long as one is, `busy` is called: it waits a little, or gives up.

    The place is a folder, or a file that is made if need be. Where there are no such locks, without them.
    """
    ways = (place, place / WITHIN) if place.is_dir() else (place,)
    held = next((held for held in map(_opened, ways) if held is not None), None)
    try:
        while held is not None and _taken(held):
            busy()
        yield
    finally:
        if held is not None:
            os.close(held)


def beside(place: Path) -> Path:
    """The file to hold for a folder that may be moved meanwhile."""
    return place.with_name(f".{place.name}{LOCK}")


def _opened(place: Path) -> int | None:
    """Open it, if it can be locked: NFS locks nothing that is open for reading alone, as folders are."""
    try:
        if fcntl is None:
            return None
        held = os.open(place, os.O_RDONLY if place.is_dir() else CREATED, 0o666)
    except OSError:  # whoever wants to write there will say so
        return None
    if _taken(held) is None:
        os.close(held)
        return None
    return held


def _taken(held: int) -> bool | None:
    """Whether another process has it; if not, it is ours now. None where nothing can be locked."""
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return None
    return False
