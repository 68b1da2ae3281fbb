"""What every test may use."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from gamagat import cli
from helpers import ROOT, images_like, seeded, tiny_network

SHARED = Path(os.environ.get("GAMAGAT_SHARED", ROOT.parent / "shared"))


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real data and public weights; tests that need it skip where it is absent."""
    if not SHARED.is_dir():
        pytest.skip("no folder of real data: set GAMAGAT_SHARED to it")
    return SHARED


@pytest.fixture
def small_model() -> nn.Module:
    return seeded(tiny_network)


@pytest.fixture
def batch(small_model: nn.Module) -> tuple[Tensor, Tensor]:
    """Twelve images that the small network classifies correctly, by definition."""
    images = images_like(12)
    with torch.no_grad():
        return images, small_model(images).argmax(1)


@pytest.fixture
def command(monkeypatch, capsys):
    """Run the command in this process: exit code, standard output, standard error."""
    monkeypatch.setattr("gamagat.reports.terminal.EVERY", float("inf"))  # on a busy machine it would speak up

    def call(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["gamagat", *map(str, words)])
        try:
            cli.main()
            code = 0
        except SystemExit as stop:
            code = stop.code or 0
        out, err = capsys.readouterr()
        return code, out, err

    return call


@pytest.fixture
def tf32() -> Iterator[None]:
    """Convolutions may be coarse, as torch allows on a GPU unless somebody says otherwise."""
    place = torch.backends.cudnn.conv
    before, place.fp32_precision = place.fp32_precision, "tf32"
    yield
    place.fp32_precision = before
