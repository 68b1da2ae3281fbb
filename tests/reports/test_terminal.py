"""How a run speaks while it works."""

import sys
from time import sleep

import pytest
from rich.console import Console

from gamagat.reports import terminal
from gamagat.reports.terminal import Pulse, busy, onlooker, tell_line


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test moves."""
    now = [100.0]
    monkeypatch.setattr(terminal, "monotonic", lambda: now[0])
    return now


def test_a_pulse_waits_before_the_first_line_and_between_lines(clock):
    pulse, heard = Pulse(), []
    for second in range(100, 200):
        clock[0] = float(second)
        if pulse.beats():
            heard.append(second)
    assert heard == [130, 160, 190]


def test_in_a_log_a_long_run_says_now_and_then_how_far_it_is(clock, capsys):
    with onlooker() as watching:
        for done in range(0, 101, 10):
            watching.progress("gama-pgd#2", done, 1000)
            clock[0] += 7
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "gama-pgd#2: 50 of 1000 images, 1.43 images/s",
        "gama-pgd#2: 100 of 1000 images, 1.43 images/s",
    ]


def test_a_short_run_and_one_for_a_machine_say_nothing_but_what_is_unusual(clock, capsys):
    with onlooker() as watching:
        watching.progress("fgsm", 0, 10)
        watching.progress("fgsm", 10, 10)
    with onlooker(quiet=True) as watching:
        for done in range(10):
            clock[0] += 100
            watching.progress("fgsm", done, 10)
    assert capsys.readouterr() == ("", "")
    with onlooker(quiet=True) as watching:
        watching.say("odd")
    assert capsys.readouterr().err == "note: odd\n"


def test_a_long_line_breaks_at_spaces_on_a_terminal_and_is_one_line_in_a_file(monkeypatch, capsys):
    words = "    [dim]" + "steps=100 " * 9 + "[/]"
    tell_line(words)
    assert capsys.readouterr().out.rstrip() == "    " + ("steps=100 " * 9).rstrip()
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(terminal, "console", lambda: Console(width=60, color_system=None))
    tell_line(words)
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines == ["    " + " ".join(["steps=100"] * count) for count in (5, 4)]


def test_work_without_an_end_in_sight_turns_on_a_terminal_alone(monkeypatch, capsys):
    with busy("looking [at] it"):
        pass
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    with busy("looking [at] it"):
        sleep(0.3)
    out, err = capsys.readouterr()
    assert out == ""
    assert "looking [at] it" in err


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_only_the_run_for_people_logs_its_progress(monkeypatch, capsys, more):
    from gamagat import cli  # noqa: PLC0415

    monkeypatch.setattr(terminal, "EVERY", 0.0)
    words = ["evaluate", "digits-cnn", "--n", "5", "--attack", "fgsm", "--device", "cpu", *more]
    monkeypatch.setattr(sys, "argv", ["gamagat", *words])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert not stop.value.code
    out, err = capsys.readouterr()
    assert "of 5 images" not in out
    assert ("fgsm: 5 of 5 images" in err) != bool(more)
    assert err == "" or not more
