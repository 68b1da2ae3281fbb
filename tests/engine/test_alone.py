"""One process at a time."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path
from time import monotonic, sleep

import pytest

from gamagat.engine import alone
from gamagat.engine.alone import LOCK, alone_in
from gamagat.errors import RunError

HOLDER = """
import sys, time
from pathlib import Path
from gamagat.engine.alone import alone_in

def never():
    raise SystemExit("it is taken")

with alone_in(Path(sys.argv[1]), never):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that is there."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_who_comes_second_waits_until_the_first_is_gone_however_it_went(holder, tmp_path):
    asked, entered = [], False

    def busy() -> None:
        asked.append(monotonic())
        if len(asked) == 3:
            holder.send_signal(signal.SIGKILL)
        assert len(asked) < 1000
        sleep(0.02)

    with alone_in(tmp_path, busy):
        entered = True
    assert entered
    assert len(asked) >= 3


def open_files() -> int:
    """Where the system tells."""
    place = Path("/proc/self/fd")
    return len(list(place.iterdir())) if place.is_dir() else 0


def test_who_gives_up_leaves_nothing_open(holder, tmp_path):
    def busy() -> None:
        raise RunError("another process is here")

    before = open_files()
    with pytest.raises(RunError, match="another"), alone_in(tmp_path, busy):
        pytest.fail("it went in")
    assert open_files() == before


@pytest.mark.parametrize("missing", ["system", "folder"])
def test_without_locks_everybody_goes_in(tmp_path, monkeypatch, missing):
    place = tmp_path / "folder" / LOCK
    if missing == "system":
        monkeypatch.setattr(alone, "fcntl", None)
        place.parent.mkdir()
    with alone_in(place, lambda: pytest.fail("it waits")):
        assert not place.exists()


@pytest.mark.skipif(alone.fcntl is None, reason="Windows has no such locks")
@pytest.mark.parametrize("kind", ["folder", "file"])
def test_where_nothing_is_locked_that_cannot_be_written_to(tmp_path, monkeypatch, kind):
    """As on NFS."""
    lock = alone.fcntl.flock

    def flock(held: int, how: int) -> None:
        if not is_writable(held):
            raise OSError(errno.EBADF, "bad file descriptor")
        lock(held, how)

    def busy() -> None:
        raise RunError("somebody is here")

    monkeypatch.setattr(alone.fcntl, "flock", flock)
    place = tmp_path if kind == "folder" else tmp_path / LOCK
    before = open_files()
    with alone_in(place, busy), pytest.raises(RunError, match="somebody"), alone_in(place, busy):
        pytest.fail("it went in")
    with alone_in(place, busy):
        assert [path.name for path in tmp_path.iterdir()] == [alone.WITHIN if kind == "folder" else LOCK]
    assert open_files() == before


def is_writable(held: int) -> bool:
    return alone.fcntl.fcntl(held, alone.fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDWR


def test_a_file_is_made_to_be_held(tmp_path):
    def busy() -> None:
        raise RunError("somebody is here")

    with alone_in(tmp_path / LOCK, busy):
        with pytest.raises(RunError), alone_in(tmp_path / LOCK, busy):
            pytest.fail("it went in")
        with alone_in(tmp_path, busy):  # which is another place
            pass
