"""Images as bytes and back, to the last bit."""

import math
import zlib
from concurrent.futures import ThreadPoolExecutor
from itertools import chain

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gamagat.errors import RunError

Pixels = NDArray[np.float32]
Planes = NDArray[np.uint8]  # (image, place in a float, pixel)

BLOCK = 32  # images that a thread takes at a time


def encode(image: Pixels) -> bytes:
    """Compress an image without loss."""
    return encode_all(planes_of(torch.from_numpy(image)[None]))[0]


def planes_of(images: Tensor) -> Planes:
    """The bytes of single-precision images sorted by their weight, which zlib likes; on a GPU at once."""
    count, pixels = len(images), math.prod(images.shape[1:])
    floats = images.reshape(count, pixels).contiguous().view(torch.uint8).reshape(count, pixels, 4)
    return floats.transpose(1, 2).contiguous().cpu().numpy()


def encode_all(images: Planes) -> list[bytes]:
    """Every image as `encode` gives it, on all cores: compressing leaves the interpreter free."""
    # Blocks: handed over one by one, images would wait for the interpreter longer than for zlib.
    blocks = (images[start : start + BLOCK] for start in range(0, len(images), BLOCK))
    with ThreadPoolExecutor() as pool:
        return list(chain.from_iterable(pool.map(_encoded, blocks)))


def _encoded(images: Planes) -> list[bytes]:
    return [zlib.compress(image, level=1) for image in images]


def decode(content: bytes, shape: tuple[int, ...]) -> Pixels:
    """The image that `encode` was given."""
    try:
        planes = np.frombuffer(zlib.decompress(content), np.uint8).reshape(4, -1)
        return np.ascontiguousarray(planes.T).view("<f4").reshape(shape).astype(np.float32, copy=False)
    except (zlib.error, ValueError) as error:
        raise RunError(f"a stored image of shape {shape} is damaged: {error}") from None
