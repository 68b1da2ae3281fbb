"""Augmentation against cropping by hand, and its draws against the distributions they should have."""

import pytest
import torch
from torch import Tensor

from gamagat.pieces.augment import Augment, crop_flip, resized_crop_flip, untouched
from gamagat.pieces.noise import Noise

WAYS: dict[str, Augment] = {
    "untouched": untouched, "crop_flip": crop_flip(), "crop_flip 2": crop_flip(2),
    "resized_crop_flip": resized_crop_flip(),
}  # fmt: skip


def photos(count: int, channels: int = 3, height: int = 10, width: int = 12) -> Tensor:
    draws = torch.Generator().manual_seed(5)
    return torch.randint(256, (count, channels, height, width), generator=draws).byte()


def noise_for(images: Tensor, seed: int = 0) -> Noise:
    return Noise.for_images(torch.arange(len(images)), seed)


def squares(count: int, size: int) -> Tensor:
    """Images whose pixels say where they are: row and column, counted from one."""
    place = torch.arange(1, size + 1, dtype=torch.uint8)
    rows, columns = place[:, None].expand(size, size), place.expand(size, size)
    return torch.stack([rows, columns]).expand(count, -1, -1, -1)


def moves(moved: Tensor, size: int, pad: int) -> tuple[Tensor, Tensor, Tensor]:
    """By how much each image of `squares` was shifted down and right, and whether it was mirrored."""
    middle = size // 2
    row, column = moved[:, 0, middle, middle].int(), moved[:, 1, middle, middle].int()
    mirrored = moved[:, 1, middle, middle - 1] > moved[:, 1, middle, middle]
    at = torch.where(mirrored, size - 1 - middle, middle)
    return row - 1 - middle + pad, column - 1 - at + pad, mirrored


@pytest.mark.parametrize("pad", [0, 1, 4])
@pytest.mark.parametrize(("height", "width"), [(8, 8), (10, 12)])
def test_crop_flip_is_padding_and_slicing_by_hand(pad, height, width):
    images = photos(40, height=height, width=width)
    noise = noise_for(images)
    draws = noise.uniform(torch.empty(40, 3))
    moved = crop_flip(pad)(images, noise)
    for image, (down, right, mirror), ours in zip(images, draws.tolist(), moved, strict=True):
        canvas = torch.zeros(3, height + 2 * pad, width + 2 * pad, dtype=torch.uint8)
        canvas[:, pad : pad + height, pad : pad + width] = image
        top, left = int(down * (2 * pad + 1)), int(right * (2 * pad + 1))
        window = canvas[:, top : top + height, left : left + width]
        assert torch.equal(ours, window.flip(2) if mirror < 0.5 else window)


@pytest.mark.parametrize("pad", [1, 4])
def test_every_offset_comes_up_equally_often_and_half_of_the_images_are_mirrored(pad):
    count, size = 20_000, 16
    images = squares(count, size)
    down, right, mirrored = moves(crop_flip(pad)(images, noise_for(images, seed=3)), size, pad)
    places = 2 * pad + 1
    both = torch.bincount(down * places + right, minlength=places**2).double()
    assert len(both) == places**2
    expected = count / places**2
    chi_squared = float(((both - expected) ** 2 / expected).sum())
    # Its mean is the number of places less one, its variance twice that; five deviations are too many.
    free = places**2 - 1
    assert abs(chi_squared - free) < 5 * (2 * free) ** 0.5
    assert abs(float(mirrored.double().mean()) - 0.5) < 5 * 0.5 / count**0.5
    # Mirroring knows nothing of the shift.
    assert abs(float((down[mirrored] - pad).double().mean())) < 5 * places / count**0.5
    assert abs(float((right[mirrored] - pad).double().mean())) < 5 * places / count**0.5


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_shape_type_and_range_stay(way, dtype):
    images = photos(30)
    images = images if dtype == torch.uint8 else images / 255
    moved = WAYS[way](images, noise_for(images))
    assert moved.shape == images.shape
    assert moved.dtype == dtype
    assert moved.min() >= 0
    assert moved.max() <= (255 if dtype == torch.uint8 else 1)


@pytest.mark.parametrize("way", WAYS)
def test_an_image_is_moved_alike_in_any_batch(way):
    images = photos(20)
    noise = noise_for(images)
    whole = WAYS[way](images, noise)
    order = torch.randperm(20, generator=torch.Generator().manual_seed(1))
    assert torch.equal(WAYS[way](images[order], noise[order]), whole[order])
    for one in range(20):
        place = torch.tensor([one])
        assert torch.equal(WAYS[way](images[place], noise[place]), whole[place])


@pytest.mark.parametrize("way", [way for way in WAYS if way != "untouched"])
def test_another_epoch_moves_the_images_otherwise_and_leaves_them_as_they_were(way):
    images = photos(20)
    before, random_state = images.clone(), torch.get_rng_state()
    first, second = (WAYS[way](images, noise_for(images).fold(epoch)) for epoch in (0, 1))
    assert (first != second).flatten(1).any(1).sum() >= 15
    assert torch.equal(images, before)
    assert torch.equal(random_state, torch.get_rng_state())


def test_the_window_of_the_whole_image_is_the_image_or_its_mirror_image():
    images = photos(60)
    moved = resized_crop_flip(smallest=1.0, widest=1.0)(images, noise_for(images))
    straight = (moved == images).flatten(1).all(1)
    mirrored = (moved == images.flip(3)).flatten(1).all(1)
    assert (straight ^ mirrored).all()
    assert 15 <= int(mirrored.sum()) <= 45
    real = resized_crop_flip(smallest=1.0, widest=1.0)(images / 255, noise_for(images))
    assert torch.allclose(
        real, torch.where(mirrored[:, None, None, None], images.flip(3), images) / 255, atol=1e-5
    )


def test_a_constant_image_stays_constant_since_nothing_is_filled_in():
    images = torch.full((40, 3, 16, 16), 77, dtype=torch.uint8)
    assert (resized_crop_flip()(images, noise_for(images)) == 77).all()


def test_windows_have_the_areas_and_the_shapes_that_were_asked_for():
    """On ramps: the slope along an axis is the window's side, the value at the middle where it lies."""
    count, size = 4000, 32
    ramp = (torch.arange(size) + 0.5) / size
    images = torch.stack([ramp[:, None].expand(size, size), ramp.expand(size, size)]).expand(
        count, -1, -1, -1
    )
    moved = resized_crop_flip(smallest=0.25)(images, noise_for(images))
    # Away from the border, where a window that reaches it is reflected.
    high = (moved[:, 0, 24, 16] - moved[:, 0, 8, 16]) * 2
    wide = (moved[:, 1, 16, 24] - moved[:, 1, 16, 8]).abs() * 2
    area = (high * wide).double()
    assert area.min() > 0.25 * 0.98
    assert area.max() < 1.001
    whole = (wide < 0.99) & (high < 0.99)  # not cut to the image
    assert (wide / high)[whole].max() < 4 / 3 + 0.01
    assert (wide / high)[whole].min() > 3 / 4 - 0.01
    # Uniform from 0.25 to 1, but for the large ones that are cut: below a half lies a third of them.
    assert abs(float((area < 0.5).double().mean()) - 1 / 3) < 5 * (2 / 9 / count) ** 0.5
    # Inside the image, everywhere alike.
    middle = (moved[:, 0, 15, 16] + moved[:, 0, 16, 16]) / 2
    assert (middle - high / 2).min() > -1e-3
    assert (middle + high / 2).max() < 1 + 1e-3
    assert abs(float(middle.mean()) - 0.5) < 5 * float(middle.std()) / count**0.5
