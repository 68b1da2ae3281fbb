"""A small library in C, built for this machine when it is first needed: where there is a compiler."""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

COMPILERS = ("cc", "gcc", "clang")
# Threads are torch's: the library is linked with none, and finds those that are there when it is loaded.
COMPILE = ("-O3", "-march=native", "-fPIC", "-fopenmp", "-c")
LINK = ("-shared",)
PATIENCE = 60  # seconds for the compiler
# It is not there or fails; its words cannot be told apart; there is no home to keep the library in.
FAILURES = (OSError, subprocess.SubprocessError, ValueError, RuntimeError)


@cache
def native(source: Path) -> ctypes.CDLL | None:
    """The library of this source; None where it can be neither built nor loaded."""
    try:
        compiler = _compiler()
        return None if compiler is None else ctypes.CDLL(str(_built(source, compiler)))
    except FAILURES:
        return None


def _compiler() -> list[str] | None:
    if given := os.environ.get("CC"):
        return shlex.split(given)
    found = next(filter(None, map(shutil.which, COMPILERS)), None)
    return None if found is None else [found]


def _built(source: Path, compiler: list[str]) -> Path:
    """The library's file, built if it is not there; its name tells source, compiler and processor apart."""
    texts = [path.read_text() for path in (source, *sorted(source.parent.glob("*.h")))]
    parts = (*texts, *compiler, *COMPILE, *LINK, _processor())
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
    library = _home() / f"{source.stem}-{digest}.so"
    if not _is_whole(library):
        library.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=library.parent) as name:
            compiled, linked, known = (Path(name) / part for part in ("code.o", "code.so", "code.sha256"))
            _call(*compiler, *COMPILE, str(source), "-o", str(compiled))
            _call(*compiler, *LINK, str(compiled), "-o", str(linked))
            known.write_text(_sha256(linked))
            linked.replace(library)
            known.replace(_beside(library))
    return library


def _home() -> Path:
    given = Path(os.environ.get("XDG_CACHE_HOME") or "")
    return (given if given.is_absolute() else Path.home() / ".cache") / "gamagat"


def _is_whole(library: Path) -> bool:
    """Whether it is as it was built: one that is damaged would end the program when it is loaded."""
    try:
        return _beside(library).read_text() == _sha256(library)
    except (OSError, ValueError):
        return False


def _beside(library: Path) -> Path:
    return library.with_suffix(".sha256")


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _call(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE)


def _processor() -> str:
    """What programs for this processor may use: a home may be shared by unlike machines."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    known = sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))})
    return "\n".join((platform.machine(), platform.processor(), *known))


def ordered(values: Tensor) -> Tensor:
    """Numbers as such a library expects them: single precision, images with their channels last."""
    if values.dtype != torch.float32 or values.device.type != "cpu":
        raise TypeError(f"numbers in single precision on a CPU, not {values.dtype} on {values.device}")
    return values.contiguous(memory_format=torch.channels_last) if values.ndim == 4 else values.contiguous()
