"""Stored images are the same bytes, however many are stored at a time and however they lie in memory."""

import zlib

import numpy as np
import pytest
import torch

from gamagat.engine.codec import BLOCK, Pixels, decode, encode, encode_all, planes_of

SHAPE = (3, 4, 5)
GREY = (1, 4, 5)


def some(count: int) -> Pixels:
    return np.random.default_rng(count).random((count, *SHAPE), np.float32)


def test_the_first_bytes_of_all_floats_come_first_then_the_second_ones():
    (image,) = some(1)
    content = image.astype("<f4").tobytes()
    sorted_bytes = content[0::4] + content[1::4] + content[2::4] + content[3::4]
    assert encode(image) == zlib.compress(sorted_bytes, level=1)


@pytest.mark.parametrize("count", [0, 1, BLOCK, 2 * BLOCK + 3])
def test_images_together_are_the_images_one_by_one(count):
    images = some(count)
    together = encode_all(planes_of(torch.from_numpy(images)))
    assert together == [encode(image) for image in images]
    assert [decode(content, SHAPE).tolist() for content in together] == images.tolist()


@pytest.mark.parametrize("shape", [SHAPE, GREY])
def test_images_with_channels_last_in_memory_are_stored_alike(shape):
    channels, height, width = shape
    turned = torch.rand(BLOCK + 1, height, width, channels).permute(0, 3, 1, 2)
    images = turned.clone(memory_format=torch.contiguous_format)
    assert turned.stride() != images.stride()
    assert encode_all(planes_of(turned)) == encode_all(planes_of(images))
    assert encode(turned[0].numpy()) == encode(images[0].numpy())
