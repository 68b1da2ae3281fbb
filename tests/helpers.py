"""Small networks and images that tests build on."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

ROOT = Path(__file__).resolve().parent.parent


def seeded(build: Callable[[], nn.Module], seed: int = 0) -> nn.Module:
    """A network with the same random weights every time; the global random state stays as it was."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return build().eval()


def tiny_network(classes: int = 5, channels: int = 3) -> nn.Module:
    """A network with a bend in it, for 8 x 8 images."""
    return nn.Sequential(
        nn.Conv2d(channels, 6, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(6 * 64, classes)
    )


def images_like(count: int, channels: int = 3, seed: int = 1) -> Tensor:
    """Random images, 8 x 8."""
    return torch.rand(count, channels, 8, 8, generator=torch.Generator().manual_seed(seed))


LISTENING = (
    "import runpy, signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "runpy.run_module('gamagat', run_name='__main__', alter_sys=True)"
)


def spoken_to(words: list[str]) -> subprocess.Popen[str]:
    """The command as a process that hears Ctrl-C, also where the tests run in a shell's background."""
    command = [sys.executable, "-c", LISTENING, *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
