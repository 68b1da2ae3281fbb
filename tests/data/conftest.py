"""What the tests of the data sets share: no network, no folder of the user's, tiny files."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pooch
import pytest
from PIL import Image

Tree = Callable[..., Path]


@pytest.fixture(autouse=True)
def downloads(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Every download fails and is listed; the user's own folders are out of reach."""
    asked: list[str] = []

    def offline(url: str, *_: object, **__: object) -> str:
        asked.append(url)
        raise OSError(f"the network is\ndown {'x' * 60} {'y' * 60}")

    monkeypatch.setattr(pooch, "retrieve", offline)
    monkeypatch.setenv("GAMAGAT_DATA", str(tmp_path / "nothing here"))
    return asked


@pytest.fixture
def tree() -> Tree:
    """Writes small random images at `root/name` for each name; suffixes choose the format."""

    def write(root: Path, *names: str, size: tuple[int, int] = (8, 6), mode: str = "RGB") -> Path:
        rng = np.random.default_rng(0)
        for name in names:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            pixels = rng.integers(0, 256, (size[1], size[0], 3), np.uint8)
            Image.fromarray(pixels).convert(mode).save(root / name)
        return root

    return write
