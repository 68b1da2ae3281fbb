"""Adversarial images as a PNG would hold them."""

import torch

from gamagat.pieces.threat import LINF, ThreatModel
from gamagat.pieces.types import Images


def eight_bit(images: Images, x: Images, threat: ThreatModel) -> Images:
    """The nearest of 256 levels for each pixel that keeps the image within the ball around `x`."""
    levels = 255 * images.double()
    if threat.norm is LINF:
        # A little slack, well within the tolerance, or eps = 8/255 would lose its eighth level to rounding.
        low = (255 * (x.double() - threat.eps) - 1e-4).ceil()
        high = (255 * (x.double() + threat.eps) + 1e-4).floor()
        return _pixels(levels.round().clamp(low, high), x)
    nearest = _pixels(levels.round(), x)
    # Where the nearest levels lie outside, those towards the clean image are inside.
    towards = _pixels(torch.where(images > x, levels.floor(), levels.ceil()), x)
    return torch.where(threat.contains(nearest, x)[:, None, None, None], nearest, towards)


def _pixels(levels: Images, like: Images) -> Images:
    return (levels.clamp(0, 255) / 255).to(like.dtype)
