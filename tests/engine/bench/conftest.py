"""A machine whose rate is known at once: its measurement takes a second, and has a test of its own."""

import pytest

from gamagat.engine.bench import attack, train

RATE = 1e11


@pytest.fixture
def known_rate(monkeypatch):
    for module in (attack, train):
        monkeypatch.setattr(module, "machine_rate", lambda device, kind: RATE)
    return RATE
