"""The idx format of the MNIST files: a magic number, the sizes, then the bytes; plain or gzipped."""

import gzip
import math
import struct
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gamagat.data.files import read_bytes
from gamagat.errors import DataError

GZIP_MAGIC = b"\x1f\x8b"
UNSIGNED_BYTE = 0x08  # the only one of idx's element types that these files use


def read_idx(path: Path, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """The array in an idx file, which must have this shape."""
    array = parse_idx(_gunzip(read_bytes(path), path), str(path), len(shape))
    if array.shape != shape:
        raise DataError(f"{path} holds an array of size {array.shape}, expected {shape}; it is another file")
    return array


def parse_idx(content: bytes, where: str, dimensions: int) -> NDArray[np.uint8]:
    """The array in the bytes of an idx file with this many dimensions."""
    expected = bytes([0, 0, UNSIGNED_BYTE, dimensions])
    if content[:4] != expected:
        raise DataError(f"{where} is damaged: it starts with {content[:4].hex()}, not with {expected.hex()}")
    start = 4 + 4 * dimensions
    if len(content) < start:
        raise DataError(f"{where} is damaged: it ends after {len(content)} bytes, inside its header")
    shape = struct.unpack(f">{dimensions}I", content[4:start])
    if len(content) - start != math.prod(shape):
        raise DataError(
            f"{where} is damaged: its header promises {math.prod(shape)} bytes, {len(content) - start} follow"
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape).copy()


def _gunzip(content: bytes, path: Path) -> bytes:
    """Unpack what is gzipped, whatever the file is called: some browsers unpack and keep the name."""
    if content[:2] != GZIP_MAGIC:
        return content
    try:
        return gzip.decompress(content)
    except (EOFError, OSError, zlib.error) as error:
        raise DataError(f"{path} is damaged: {error}; fetch it again") from error
