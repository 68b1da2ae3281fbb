"""Writing that nobody waits for: files are brought up to date while the device goes on with its work."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Self


class Scribe:
    """Writes one thing after another in a thread of its own; leaving it waits for the last one.

    What goes wrong is raised where it is next spoken to.
    """

    def __init__(self) -> None:
        self.pool, self.task = ThreadPoolExecutor(1), Future[None]()
        self.task.set_result(None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.wait()
        finally:
            self.pool.shutdown()

    def write(self, task: Callable[[], None]) -> None:
        """Begin with this as soon as what was begun is done."""
        self.wait()
        self.task = self.pool.submit(task)

    def wait(self) -> None:
        """Until all is written."""
        self.task.result()
