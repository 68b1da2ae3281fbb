"""The command `gamagat`: parse, call, print."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from typing import Any

STOPPED = "note: stopped: it was interrupted"


def main() -> None:
    """Run the command; Ctrl-C at any moment is one line and exit code 130."""
    try:
        # Not at the top: what it needs takes seconds to come, and Ctrl-C may be pressed in them.
        with leaving_at_once():
            from gamagat.cli.app import load, run  # noqa: PLC0415

            command = load(sys.argv[1:])
        run(command)
    except KeyboardInterrupt:
        print(STOPPED, file=sys.stderr)
        sys.exit(130)


@contextmanager
def leaving_at_once() -> Iterator[None]:
    """Let Ctrl-C end the process while modules are imported.

    An exception would not do: libraries turn one that comes in the middle of their import into another.
    """
    if current_thread() is not main_thread() or signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        yield
        return
    before = signal.signal(signal.SIGINT, _leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _leave(*_: Any) -> None:
    """Nothing is open yet that would have to be closed."""
    print(STOPPED, file=sys.stderr, flush=True)
    os._exit(130)
