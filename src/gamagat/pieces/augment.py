"""Augmentation on the device, drawn for each image by itself: the same in any batch and any process."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from gamagat.pieces.noise import Noise
from gamagat.pieces.types import Images

Augment = Callable[[Images, Noise], Images]


def untouched(images: Images, noise: Noise) -> Images:
    """The images as they are."""
    return images


def crop_flip(pad: int = 4) -> Augment:
    """Shift by up to `pad` pixels, filling with black, and mirror every second image."""

    def augment(images: Images, noise: Noise) -> Images:
        count, channels, height, width = images.shape
        draws = noise.uniform(images.new_empty(count, 3, dtype=torch.float32))
        shift = (draws[:, :2] * (2 * pad + 1)).long().clamp_max(2 * pad)
        rows = shift[:, :1] + torch.arange(height, device=images.device)
        columns = torch.arange(width, device=images.device).expand(count, -1)
        columns = shift[:, 1:2] + torch.where(draws[:, 2:] < 0.5, width - 1 - columns, columns)
        padded = F.pad(images, (pad, pad, pad, pad))
        which = torch.arange(count, device=images.device)[:, None, None, None]
        channel = torch.arange(channels, device=images.device)[None, :, None, None]
        return padded[which, channel, rows[:, None, :, None], columns[:, None, None, :]]

    return augment


def resized_crop_flip(smallest: float = 0.08, widest: float = 4 / 3) -> Augment:
    """A window of `smallest` to all of the area, sides up to `widest` apart, at full size; half mirrored."""

    def augment(images: Images, noise: Noise) -> Images:
        draws = noise.uniform(images.new_empty(len(images), 5, dtype=torch.float32))
        area = smallest + (1 - smallest) * draws[:, 0]
        ratio = torch.full_like(area, widest) ** (2 * draws[:, 1] - 1)
        # Where a wide window of this area does not fit, it is cut to the image.
        wide, high = (area * ratio).sqrt().clamp_max(1.0), (area / ratio).sqrt().clamp_max(1.0)
        right, down = (2 * draws[:, 2] - 1) * (1 - wide), (2 * draws[:, 3] - 1) * (1 - high)
        mirror = torch.where(draws[:, 4] < 0.5, -1.0, 1.0)
        none = torch.zeros_like(wide)
        motion = torch.stack([mirror * wide, none, right, none, high, down], 1).view(-1, 2, 3)
        return _resampled(images, motion)

    return augment


def _resampled(images: Images, motion: Tensor) -> Images:
    grid = F.affine_grid(motion, list(images.shape), align_corners=False)
    moved = F.grid_sample(images.float(), grid, padding_mode="reflection", align_corners=False)
    return moved.round().to(images.dtype) if images.dtype == torch.uint8 else moved.to(images.dtype)
