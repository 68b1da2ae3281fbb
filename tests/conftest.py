"""What every test may use."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("GAMAGAT_SHARED", ROOT.parent / "shared"))


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real data and public weights; tests that need it skip where it is absent."""
    if not SHARED.is_dir():
        pytest.skip("no folder of real data: set GAMAGAT_SHARED to it")
    return SHARED
