"""Writing that nobody waits for."""

import threading

import pytest

from gamagat.engine.scribe import Scribe


def test_it_writes_in_order_and_leaving_waits_for_the_last():
    written, gate = [], threading.Event()
    with Scribe() as scribe:
        scribe.write(lambda: (gate.wait(10), written.append(1))[1])
        assert written == []  # nobody has waited
        gate.set()
        scribe.write(lambda: written.append(2))
        scribe.write(lambda: written.append(3))
    assert written == [1, 2, 3]


@pytest.mark.parametrize("again", ["write", "wait", "leave"])
def test_what_goes_wrong_is_raised_where_it_is_next_spoken_to(again):
    def fail() -> None:
        raise OSError("the disk is full")

    def work() -> None:
        with Scribe() as scribe:
            scribe.write(fail)
            if again == "write":
                scribe.write(lambda: None)
                pytest.fail("it went on")
            if again == "wait":
                scribe.wait()
                pytest.fail("it went on")

    with pytest.raises(OSError, match="the disk is full"):
        work()


def test_an_interruption_waits_for_what_was_begun():
    written = []

    def work() -> None:
        with Scribe() as scribe:
            scribe.write(lambda: written.append(1))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()
    assert written == [1]
