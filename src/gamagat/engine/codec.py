"""Images as bytes and back, to the last bit."""

import zlib

import numpy as np
from numpy.typing import NDArray

from gamagat.errors import RunError

Pixels = NDArray[np.float32]


def encode(image: Pixels) -> bytes:
    """Compress an image without loss: the bytes of a float are sorted by their weight, which zlib likes."""
    planes = np.ascontiguousarray(image, "<f4").view(np.uint8).reshape(-1, 4).T
    return zlib.compress(np.ascontiguousarray(planes).tobytes(), level=1)


def decode(content: bytes, shape: tuple[int, ...]) -> Pixels:
    """The image that `encode` was given."""
    try:
        planes = np.frombuffer(zlib.decompress(content), np.uint8).reshape(4, -1)
        return np.ascontiguousarray(planes.T).view("<f4").reshape(shape).astype(np.float32, copy=False)
    except (zlib.error, ValueError) as error:
        raise RunError(f"a stored image of shape {shape} is damaged: {error}") from None
