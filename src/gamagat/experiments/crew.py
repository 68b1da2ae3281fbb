"""Processes side by side: never more than so many, none left behind, once more after a fault of the GPU."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from math import inf
from threading import Thread
from time import monotonic, sleep
from typing import IO

from gamagat.errors import ConfigError

UNFINISHED, LOST, STOPPED = 3, 4, 130  # exit codes
PATIENCE = 60.0  # seconds to write down what is known, once the time is over
REST = 10.0  # seconds until a GPU that has failed is asked again
HUNG = 10.0  # seconds until one that was killed is given up: a driver that hangs holds it
LOOK = 0.2  # seconds between two looks at who has ended
WHICH = """
import sys
from gamagat.engine.runtime import choose_device
from gamagat.errors import ConfigError
try:
    print(choose_device(sys.argv[1]))
except ConfigError as error:
    sys.exit(str(error))
"""


def device_elsewhere(name: str) -> str:
    """What a device is called, by the word of another process.

    Who only starts others does not hold the GPU: none of them could have it after a fault of one.
    """
    # -P: as in a script, no module is looked for where it happens to be called.
    words = [sys.executable, "-P", "-c", WHICH, name]
    asked = subprocess.run(words, capture_output=True, text=True, check=False)
    if asked.returncode:
        raise ConfigError(asked.stderr.strip())
    return asked.stdout.strip()


@dataclass(slots=True)
class Crew:
    """So many processes at a time, each told with `--max-seconds` how long it may take.

    One that loses the GPU has another turn in the end: a new process can use it again. When one is stopped
    by hand, all are.
    """

    at_once: int = 1
    seconds: float | None = None
    began: float = field(default_factory=monotonic)
    running: dict[str, subprocess.Popen[str]] = field(default_factory=dict)
    readers: list[Thread] = field(default_factory=list)
    again: set[str] = field(default_factory=set)  # whose second turn it is
    stopped: bool = False

    def work(self, jobs: Mapping[str, Sequence[str]]) -> int:
        """Run all commands, by what they are called; the worst exit code."""
        waiting, worst = deque(jobs), 0
        with self._together():
            self._begin(waiting, jobs)
            while self.running:
                for name, code in self._ended().items():
                    worst = max(worst, self._told(name, code, waiting))
                self._begin(waiting, jobs)
        if self.stopped:
            return STOPPED
        if waiting:
            print("the time is over; the same line goes on", file=sys.stderr)
        return max(worst, UNFINISHED) if waiting else worst

    def _begin(self, waiting: deque[str], jobs: Mapping[str, Sequence[str]]) -> None:
        """As many as may run."""
        while waiting and len(self.running) < self.at_once and self.left >= 1 and not self.stopped:
            self._start(waiting[0], jobs[waiting.popleft()])

    def _told(self, name: str, code: int, waiting: deque[str]) -> int:
        """What the end of one means for the others; its exit code, unless it has another turn."""
        print(f"{name}: exit code {code}, {monotonic() - self.began:.0f} s in all", flush=True)
        if code == STOPPED:
            self.stop()
        if code == LOST:
            sleep(REST)
        if code == LOST and name not in self.again:
            self.again.add(name)
            waiting.append(name)
            return 0
        return abs(code)

    @contextmanager
    def _together(self) -> Iterator[None]:
        """Whatever ends this process ends all of them; Ctrl-C mostly reaches them by itself."""
        before = signal.signal(signal.SIGTERM, lambda *_: self.stop())
        try:
            yield
        except KeyboardInterrupt:
            self._await(PATIENCE / 2)
            self.stop()  # the signal may have been sent to this process alone
            self._kill(PATIENCE / 2)
            raise
        except Exception:  # of this process, and none of theirs
            self.stop()
            self._kill(PATIENCE)
            raise
        finally:
            self._kill(0.0)
            signal.signal(signal.SIGTERM, before)

    @property
    def left(self) -> float:
        """The seconds that are left."""
        return inf if self.seconds is None else self.began + self.seconds - monotonic()

    def stop(self) -> None:
        """Tell all of them to end; who does not hear is killed in the end."""
        self.stopped, self.seconds = True, min(self.seconds or inf, monotonic() - self.began)
        for process in self.running.values():
            process.terminate()

    def _start(self, name: str, words: Sequence[str]) -> None:
        within = [] if self.left == inf else ["--max-seconds", f"{self.left:.1f}"]
        together = self.at_once > 1
        with _interrupted_after():
            process = self.running[name] = subprocess.Popen(
                [*words, *within],
                stdout=subprocess.PIPE if together else None,
                stderr=subprocess.STDOUT if together else None,
                text=True,
                errors="backslashreplace",
            )
        if process.stdout is not None:
            self.readers.append(Thread(target=_passed_on, args=(name, process.stdout), daemon=True))
            self.readers[-1].start()
        if self.stopped:  # before there was anyone to tell
            process.terminate()

    def _ended(self) -> dict[str, int]:
        """The exit codes of those that have ended, or were killed because they did not end in time."""
        if self.left < -PATIENCE:
            return self._kill(0.0)
        sleep(LOOK)
        codes = {name: code for name, process in self.running.items() if (code := process.poll()) is not None}
        for name in codes:
            del self.running[name]
        return codes

    def _await(self, seconds: float) -> None:
        """Give all that run so many seconds to end."""
        until = monotonic() + seconds
        for process in self.running.values():
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(until - monotonic(), 0.0))

    def _kill(self, seconds: float) -> dict[str, int]:
        """The exit codes of all that run, killed if they do not end within so many seconds."""
        self._await(seconds)
        for process in self.running.values():
            process.kill()  # which those that have ended do not notice
        self._await(HUNG)
        codes = {name: process.poll() for name, process in self.running.items()}
        self.running.clear()
        for reader in self.readers:  # what they said last
            reader.join(1.0)
        return {name: -signal.SIGKILL if code is None else code for name, code in codes.items()}


@contextmanager
def _interrupted_after() -> Iterator[None]:
    """Ctrl-C waits until this is over: who has just been started must be known before it can be ended."""
    before, came = signal.getsignal(signal.SIGINT), list[int]()
    if not callable(before):  # nobody listens to it, neither will who is started
        yield
        return
    signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came:
        raise KeyboardInterrupt


def _passed_on(name: str, lines: IO[str]) -> None:
    """Say what a process says, and which one says it; it goes on where nobody hears it any more."""
    with lines:
        for line in lines:
            with suppress(OSError):
                print(f"[{name}] {line.rstrip()}\n", end="", flush=True)
