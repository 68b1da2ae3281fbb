"""What tests of experiments share."""

from collections.abc import Callable
from pathlib import Path

import pytest

from experiments.toy import shop_at, toy_table
from gamagat.experiments.core import EXPERIMENTS, Table
from gamagat.experiments.runner import run
from gamagat.experiments.workshop import Workshop


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> Table:
    """The toy table under its name, as a file in the package would put it there."""
    EXPERIMENTS.names()  # all others are there before
    monkeypatch.setattr(EXPERIMENTS, "_entries", dict(EXPERIMENTS._entries))

    @EXPERIMENTS.register("toy")
    def toy() -> Table:
        """A toy."""
        return toy_table()

    return toy_table()


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache in which the toy table is measured; no test may add to it."""
    root = tmp_path_factory.mktemp("filled")
    assert run(toy_table(), shop_at(root)).missing == []
    return root


@pytest.fixture
def shop(tmp_path: Path) -> Callable[..., Workshop]:
    """Workshops in one fresh cache."""
    return lambda *words, **options: shop_at(tmp_path / "cache", *words, **options)
