"""Images as bytes and back, to the last bit."""

import zlib
from concurrent.futures import ThreadPoolExecutor
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from gamagat.errors import RunError

Pixels = NDArray[np.float32]

BLOCK = 32  # images that a thread takes at a time


def encode(image: Pixels) -> bytes:
    """Compress an image without loss."""
    return _encoded(image[None])[0]


def encode_all(images: Pixels) -> list[bytes]:
    """Every image as `encode` gives it, on all cores: compressing leaves the interpreter free."""
    # Blocks: handed over one by one, images would wait for the interpreter longer than for zlib.
    blocks = (images[start : start + BLOCK] for start in range(0, len(images), BLOCK))
    with ThreadPoolExecutor() as pool:
        return list(chain.from_iterable(pool.map(_encoded, blocks)))


def _encoded(images: Pixels) -> list[bytes]:
    """Each image by itself: the bytes of its floats are sorted by their weight, which zlib likes."""
    floats = np.ascontiguousarray(images, "<f4").view(np.uint8)
    planes = np.ascontiguousarray(floats.reshape(len(images), -1, 4).swapaxes(1, 2))
    return [zlib.compress(image, level=1) for image in planes]


def decode(content: bytes, shape: tuple[int, ...]) -> Pixels:
    """The image that `encode` was given."""
    try:
        planes = np.frombuffer(zlib.decompress(content), np.uint8).reshape(4, -1)
        return np.ascontiguousarray(planes.T).view("<f4").reshape(shape).astype(np.float32, copy=False)
    except (zlib.error, ValueError) as error:
        raise RunError(f"a stored image of shape {shape} is damaged: {error}") from None
