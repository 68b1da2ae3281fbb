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
    """Run the command; Ctrl-C, or a scheduler's SIGTERM, is one line and exit code 130."""
    try:
        # Not at the top: what it needs takes seconds to come, and Ctrl-C may be pressed in them.
        with leaving_at_once():
            from gamagat.cli.app import load, run  # noqa: PLC0415

            command = load(sys.argv[1:])
        with told_to_end():
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


@contextmanager
def told_to_end() -> Iterator[None]:
    """Let SIGTERM be Ctrl-C: schedulers send it before they kill, and what is known is worth telling.

    Processes that torchrun has started end at once, as it wants: one of them may wait for another.
    """
    usual = signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    if current_thread() is not main_thread() or not usual or "TORCHELASTIC_RUN_ID" in os.environ:
        yield
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _leave(*_: Any) -> None:
    """Nothing is open yet that would have to be closed."""
    print(STOPPED, file=sys.stderr, flush=True)
    os._exit(130)
