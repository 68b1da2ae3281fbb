"""Where an attack begins: the first perturbation of each image."""

from collections.abc import Callable

import torch

from gamagat.pieces.noise import Noise
from gamagat.pieces.threat import ThreatModel
from gamagat.pieces.trees import lift
from gamagat.pieces.types import Images

Start = Callable[[Images, ThreatModel, Noise], Images]


def at_image(x: Images, threat: ThreatModel, noise: Noise) -> Images:
    """No perturbation."""
    return torch.zeros_like(x)


def unclipped(start: Start) -> Start:
    """The start as it is drawn, also where it leaves the pixel range, as the published scripts have it."""
    return lambda x, threat, noise: start(torch.zeros_like(x), _boundless(threat), noise)


def uniform(x: Images, threat: ThreatModel, noise: Noise) -> Images:
    """Anywhere in the ball."""
    return threat.project(threat.eps * threat.norm.anywhere(x, noise), x)


def surface(x: Images, threat: ThreatModel, noise: Noise) -> Images:
    """Anywhere in the ball, pushed out to its surface."""
    point = threat.norm.anywhere(x, noise)
    return threat.project(threat.eps * point / lift(threat.norm.size(point), x), x)


def gaussian(scale: float) -> Start:
    """Normal noise of standard deviation `scale` in every pixel."""
    return lambda x, threat, noise: threat.project(scale * noise.normal(x), x)


def corner(fraction: float = 1.0) -> Start:
    """Every pixel up or down with equal chance, on the surface of the ball shrunk by `fraction`."""
    return lambda x, threat, noise: threat.project(fraction * threat.vertex(noise.signs(x)), x)


def _boundless(threat: ThreatModel) -> ThreatModel:
    return ThreatModel(threat.norm, threat.eps, float("-inf"), float("inf"))
