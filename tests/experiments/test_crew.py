"""Processes side by side: so many at a time, none left behind, once more after a fault of the GPU."""

import signal
import subprocess
import sys
from pathlib import Path
from time import monotonic, sleep

import pytest

from gamagat.errors import ConfigError
from gamagat.experiments import crew
from gamagat.experiments.crew import Crew, device_elsewhere


def saying(code: str) -> list[str]:
    return [sys.executable, "-c", f"import pathlib, signal, sys, time\n{code}"]


def ending(code: int) -> list[str]:
    return saying(f"sys.exit({code})")


@pytest.fixture(autouse=True)
def in_haste(monkeypatch):
    monkeypatch.setattr(crew, "REST", 0.0)
    monkeypatch.setattr(crew, "LOOK", 0.01)


@pytest.mark.parametrize(
    ("codes", "worst", "turns"),
    [
        ([0, 0], 0, [0, 1]),
        ([2, 3], 3, [0, 1]),
        ([-9, 3], 9, [0, 1]),
        ([130, 0], 130, [0]),  # interrupted: nobody has a turn any more
        ([4, 0], 4, [0, 1, 0]),  # who loses the GPU has one more turn in the end
    ],
)
def test_the_worst_code_and_the_turns(codes, worst, turns, capsys):
    jobs = {
        str(number): ending(code) if code >= 0 else saying("import os; os.kill(os.getpid(), 9)")
        for number, code in enumerate(codes)
    }
    assert Crew().work(jobs) == worst
    out = capsys.readouterr().out
    assert [int(line[0]) for line in out.splitlines()] == turns
    assert f"0: exit code {codes[0]}, 0 s in all" in out


def test_a_second_turn_may_be_better(tmp_path, monkeypatch):
    once = tmp_path / "once"
    lost = saying(f"p = pathlib.Path({str(once)!r}); e = p.exists(); p.touch(); sys.exit(0 if e else 4)")
    rests = []
    monkeypatch.setattr(crew, "REST", 7.0)
    monkeypatch.setattr(crew, "sleep", rests.append)
    assert Crew().work({"gat": lost, "trades": ending(0)}) == 0
    assert rests.count(7.0) == 1  # a GPU that has failed is not asked at once


@pytest.mark.parametrize("at_once", [1, 2, 3])
def test_never_more_than_so_many_at_a_time(at_once, tmp_path):
    code = f"""
here = pathlib.Path({str(tmp_path)!r})
(here / sys.argv[1]).touch()
time.sleep(0.4)
print(len([*here.iterdir()]), file=open(here.parent / f"{{here.name}}-{{sys.argv[1]}}", "w"))
(here / sys.argv[1]).unlink()
"""
    assert Crew(at_once).work({str(n): [*saying(code), str(n)] for n in range(4)}) == 0
    seen = [int((tmp_path.parent / f"{tmp_path.name}-{n}").read_text()) for n in range(4)]
    assert max(seen) == at_once


def test_of_several_each_line_says_whose_it_is(capsys):
    jobs = {"a": saying("print('one'); print('two', file=sys.stderr)"), "b": saying("print('three')")}
    assert Crew(2).work(jobs) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {"[a] one", "[a] two", "[b] three"} < set(lines)


def test_each_hears_how_long_it_may_take_and_nobody_begins_too_late(capfd):
    asking = saying("print(sys.argv[1:]); time.sleep(1.5)")
    assert Crew(1, 2.0).work({"a": asking, "b": asking}) == 3
    told = capfd.readouterr()
    assert told.out.startswith("['--max-seconds', '2.0']") or told.out.startswith("['--max-seconds', '1.9']")
    assert told.out.count("max-seconds") == 1
    assert told.err == "the time is over; the same line goes on\n"


def test_one_that_does_not_end_in_time_is_killed(monkeypatch):
    monkeypatch.setattr(crew, "PATIENCE", 0.5)
    began = monotonic()
    assert Crew(2, 1.5).work({"a": saying("time.sleep(60)"), "b": ending(0)}) == 9
    assert monotonic() - began < 30


def test_where_one_is_stopped_by_hand_all_are(tmp_path):
    patient = saying(f"""
signal.signal(signal.SIGTERM, signal.default_int_handler)
pathlib.Path({str(tmp_path / "began")!r}).touch()
try:
    time.sleep(60)
except KeyboardInterrupt:
    pathlib.Path({str(tmp_path / "ended")!r}).touch()
    sys.exit(130)
""")
    stopped = saying(f"""
while not pathlib.Path({str(tmp_path / "began")!r}).exists():
    time.sleep(0.01)
sys.exit(130)
""")
    began = monotonic()
    assert Crew(2).work({"a": patient, "b": stopped, "c": saying("time.sleep(60)")}) == 130
    assert (tmp_path / "ended").exists()
    assert monotonic() - began < 30


def test_an_interrupted_process_may_come_to_its_end(monkeypatch, tmp_path):
    naps = []

    def interrupted(seconds: float) -> None:
        naps.append(seconds)
        raise KeyboardInterrupt

    monkeypatch.setattr(crew, "sleep", interrupted)
    code = f"time.sleep(0.5); pathlib.Path({str(tmp_path / 'end')!r}).touch()"
    with pytest.raises(KeyboardInterrupt):
        Crew().work({"a": saying(code)})
    assert (tmp_path / "end").exists()


@pytest.mark.parametrize("deaf", [False, True])
@pytest.mark.parametrize("at_once", [1, 2])
def test_processes_are_ended_with_the_crew(tmp_path, deaf, at_once):
    """One that is left behind would hold the GPU; a call into a GPU that hangs hears no signal."""
    child = f"""
import pathlib, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN if {deaf} else signal.default_int_handler)
pathlib.Path({str(tmp_path / "began")!r}).write_text(str(__import__("os").getpid()))
try:
    time.sleep(60)
except KeyboardInterrupt:
    pathlib.Path({str(tmp_path / "ended")!r}).touch()
    sys.exit(130)
"""
    parent = f"""
import sys
from gamagat.experiments import crew
crew.PATIENCE = 0.5 if {deaf} else 60.0
sys.exit(crew.Crew({at_once}).work({{"a": [sys.executable, "-c", {child!r}]}}))
"""
    process = subprocess.Popen([sys.executable, "-c", parent])
    until = monotonic() + 60
    while not (tmp_path / "began").exists() or not (tmp_path / "began").read_text():
        assert monotonic() < until
        sleep(0.05)
    process.terminate()
    assert process.wait(60) == 130
    assert (tmp_path / "ended").exists() is not deaf
    assert not alive(int((tmp_path / "began").read_text()))


def alive(number: int) -> bool:
    return Path(f"/proc/{number}").exists()


def test_a_device_is_asked_for_elsewhere():
    assert device_elsewhere("cpu") == "cpu"
    with pytest.raises(ConfigError, match=r"^device 'nonsense' is not to be had here; use "):
        device_elsewhere("nonsense")


def test_a_device_is_asked_for_whatever_lies_where_it_is_called(tmp_path, monkeypatch):
    (tmp_path / "torch.py").write_text("raise SystemExit('not the torch that was meant')")
    monkeypatch.chdir(tmp_path)
    assert device_elsewhere("cpu") == "cpu"


def test_bytes_that_are_no_text_are_passed_on_and_end_nothing(capsys):
    saying_it = saying(
        r"sys.stdout.buffer.write(b'caf\xe9\n'); sys.stdout.flush(); time.sleep(0.5); print('on')"
    )
    assert Crew(2).work({"a": saying_it}) == 0
    assert {r"[a] caf\xe9", "[a] on"} < set(capsys.readouterr().out.splitlines())


def test_a_last_line_without_an_end_has_one(capsys):
    half = saying("sys.stdout.write('half a line')")
    assert Crew(2).work({"a": half, "b": half}) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {"[a] half a line", "[b] half a line"} < set(lines)


def test_who_is_no_longer_heard_goes_on(tmp_path):
    """Ctrl-C ends `| tee log` at once, and what is known is written down after that."""
    child = f"import pathlib; print('x' * 1_000_000); pathlib.Path({str(tmp_path / 'end')!r}).touch()"
    parent = f"""
import sys
from gamagat.experiments import crew
def broken(words, **how):
    if words.startswith("["):
        raise BrokenPipeError
crew.print = broken
sys.exit(crew.Crew(2).work({{"a": [sys.executable, "-c", {child!r}]}}))
"""
    process = subprocess.run([sys.executable, "-c", parent], capture_output=True, text=True, check=False)
    assert (process.returncode, process.stderr) == (0, "")
    assert (tmp_path / "end").exists()


@pytest.fixture
def patient(tmp_path):
    """One that has something to write down when it is told to end."""
    return saying(f"""
signal.signal(signal.SIGTERM, signal.default_int_handler)
signal.signal(signal.SIGINT, signal.SIG_IGN)
try:
    pathlib.Path({str(tmp_path / "began")!r}).touch()
    time.sleep(60)
except KeyboardInterrupt:
    time.sleep(0.5)
    pathlib.Path({str(tmp_path / "ended")!r}).touch()
    sys.exit(130)
""")


def test_an_interrupt_that_reaches_one_process_alone_reaches_all(monkeypatch, tmp_path, patient):
    monkeypatch.setattr(crew, "PATIENCE", 4.0)

    def interrupted(seconds: float) -> None:
        if (tmp_path / "began").exists():
            raise KeyboardInterrupt

    monkeypatch.setattr(crew, "sleep", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Crew().work({"a": patient})
    assert (tmp_path / "ended").exists()


def test_a_fault_of_who_started_them_does_not_cost_their_work(monkeypatch, tmp_path, patient):
    def failing(seconds: float) -> None:
        if (tmp_path / "began").exists():
            raise OSError("nobody hears it any more")

    monkeypatch.setattr(crew, "sleep", failing)
    with pytest.raises(OSError, match="nobody hears"):
        Crew().work({"a": patient})
    assert (tmp_path / "ended").exists()


def test_an_interrupt_while_one_is_started_leaves_nobody_behind(monkeypatch):
    begun = []

    def started(*words, **how):
        begun.append(subprocess_popen(*words, **how))
        signal.raise_signal(signal.SIGINT)
        return begun[-1]

    subprocess_popen = subprocess.Popen
    monkeypatch.setattr(crew, "PATIENCE", 0.2)
    monkeypatch.setattr(crew.subprocess, "Popen", started)
    with pytest.raises(KeyboardInterrupt):
        Crew().work({"a": saying("time.sleep(60)")})
    assert begun[0].poll() is not None
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_one_that_cannot_even_be_killed_is_given_up(monkeypatch):
    class Hung:
        def wait(self, seconds):
            assert seconds is not None
            sleep(seconds)
            raise subprocess.TimeoutExpired("a", seconds)

        def poll(self):
            return None

        terminate = kill = poll

    monkeypatch.setattr(crew, "HUNG", 0.1)
    hung = Crew(1, 0.5)
    hung.began -= 100.0
    hung.running["a"] = Hung()
    assert hung.work({}) == 9
