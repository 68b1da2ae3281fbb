"""How long something took, what passed through the network meanwhile, and how much memory it held."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter, process_time
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from gamagat.pieces.types import Images, Model, Scores

Result = TypeVar("Result")
OWN = Path("/proc/self")  # what Linux tells a process of itself


class Counted(nn.Module):
    """A network that counts the images that pass through it and the gradients that come back."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model
        self.forwards, self.backwards = 0, 0
        self.eval()  # a peer that finds it in training leaves it so

    def forward(self, images: Images) -> Scores:
        logits: Scores = self.model(images)
        self.forwards += len(images)
        if logits.requires_grad:
            logits.register_hook(self._came_back)  # type: ignore[no-untyped-call]
        return logits

    def _came_back(self, slope: Tensor) -> None:
        self.backwards += len(slope)


class Timed(NamedTuple, Generic[Result]):
    """What came out, after how long, and the most memory that was held."""

    result: Result
    seconds: float
    peak: int  # bytes
    cpu_seconds: float  # of this process, all its threads together: what others do meanwhile is not in it


def timed(action: Callable[[], Result], device: torch.device) -> Timed[Result]:
    """Do it, from an idle device to an idle device."""
    forget_peak(device)
    settle(device)
    began, busy = perf_counter(), process_time()
    result = action()
    settle(device)
    seconds, cpu_seconds = perf_counter() - began, process_time() - busy
    return Timed(result, seconds, peak(device), cpu_seconds)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """The same random numbers in every round, from torch and from numpy; numpy's go on as they were."""
    before = np.random.get_state()
    torch.manual_seed(seed)
    np.random.seed(seed % (1 << 32))
    try:
        yield
    finally:
        np.random.set_state(before)


def settle(device: torch.device) -> None:
    """Wait until the device has done all that it was told."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def forget_peak(device: torch.device) -> None:
    """Measure the peak anew from here on, where that can be done."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return
    try:
        (OWN / "clear_refs").write_text(
            "5"
        )  # Linux: the highest water mark of this process, and nothing else
    except OSError:
        return  # then the peak is that of the process since it began


def peak(device: torch.device) -> int:
    """The most bytes held: by tensors on a GPU; on a CPU by the whole process."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    try:
        line = next(line for line in (OWN / "status").read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    except (OSError, StopIteration):
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def machine(device: torch.device) -> str:
    """The device, as a reader knows it."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"CPU, {torch.get_num_threads()} of {os.cpu_count()} cores{_load()}"


def _load() -> str:
    """How busy the machine is, where it says so: more than its threads means that others are at work."""
    return f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
