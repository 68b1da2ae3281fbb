"""Pixels as pictures that a page carries within itself."""

from __future__ import annotations

import base64
import io

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from gamagat.engine.codec import Pixels

SMALL = 64  # pixels; up to this size every pixel is kept, larger pictures are compressed with loss


def data_uri(image: Pixels) -> str:
    """An image with channels first and values in [0, 1], as the address of a picture."""
    picture = Image.fromarray(_bytes(image))
    kind, options = (
        ("png", {"optimize": True}) if max(image.shape[1:]) <= SMALL else ("jpeg", {"quality": 88})
    )
    content = io.BytesIO()
    picture.save(content, kind, **options)
    return f"data:image/{kind};base64,{base64.b64encode(content.getvalue()).decode()}"


def magnified(clean: Pixels, adversarial: Pixels) -> tuple[Pixels, float]:
    """The difference around grey, so large that it just fits, and the factor."""
    difference = adversarial - clean
    most = float(np.abs(difference).max())
    factor = 0.5 / most if most > 0 else 1.0
    return (0.5 + factor * difference).astype(np.float32), factor


def _bytes(image: Pixels) -> NDArray[np.uint8]:
    """Levels as a screen shows them: one channel grey, three in colour, of others the mean."""
    levels = np.round(np.nan_to_num(image).clip(0, 1) * 255).astype(np.uint8)
    if len(levels) == 3:
        return np.ascontiguousarray(levels.transpose(1, 2, 0))
    return np.asarray(levels[0] if len(levels) == 1 else np.round(levels.mean(0)).astype(np.uint8))
