"""Whether the images are what an attack takes them for: pixels in [0, 1]."""

from collections.abc import Iterator

from torch import Tensor

from gamagat.data.core import to_unit
from gamagat.engine.findings import Finding, Severity


def pixel_range(raw: Tensor) -> Iterator[Finding]:
    """Images outside [0, 1], or in a suspiciously small part of it."""
    images = to_unit(raw)
    low, high = float(images.min()), float(images.max())
    if not (low >= 0 and high <= 1):
        yield _finding("stop", low, high, _outside(low, high))
    elif low == high:
        yield _finding("stop", low, high, "Look at the images: they are all blank.")
    elif high <= 2 / 255:
        yield _finding("stop", low, high, "Divide by 255 once, not twice, or store bytes from 0 to 255.")
    elif high - low < 0.5:
        yield _finding("warn", low, high, "Scale the images so that black is 0 and white is 1.")


def _outside(low: float, high: float) -> str:
    if low >= 0 and high <= 255:
        return "Divide the images by 255."
    return "Give raw images in [0, 1] and put the normalisation into the network (normalize=...)."


def _finding(severity: Severity, low: float, high: float, do: str) -> Finding:
    return Finding(
        "pixel-range",
        severity,
        f"pixels run from {low:.4g} to {high:.4g}.",
        "The radius eps and the clipping of an attack are in units of a pixel range from 0 to 1.",
        do,
    )
