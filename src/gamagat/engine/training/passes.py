"""How often images pass through the network while it is trained and looked at: what time is forecast from."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from gamagat.defenses.adversary import Adversary
from gamagat.defenses.core import Stage, Tick
from gamagat.engine.training.settings import Plan
from gamagat.pieces.noise import Noise
from gamagat.pieces.threat import LINF, ThreatModel

GUESSED = 3.0  # where it cannot be counted: one step of an attack, and two views


class _Counter(nn.Module):
    """Counts how often images pass through it."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.count = nn.Parameter(torch.eye(3, 4)), 0  # drawn by nobody: dropout draws as well

    def forward(self, images: Tensor) -> Tensor:
        self.count += 1
        return images.flatten(1) @ self.weight.T


def training_passes(plan: Plan) -> float:
    """How often an image passes through the network in one step of a recipe, forward and back."""
    counter, turns = _Counter(), range(plan.recipe.turns)
    x, y = torch.full((2, 1, 2, 2), 0.5), torch.zeros(2, dtype=torch.long)
    try:
        for turn in turns:
            memory = {"delta": torch.zeros_like(x)} if plan.recipe.carries else {}
            noise, threat = Noise.for_images(torch.arange(2), 0), ThreatModel(LINF, 0.1)
            plan.recipe(Stage(counter, x, y, threat, noise, Tick(turn, 1.0), memory=memory))
    except Exception:  # somebody's recipe, which wants more of a network than this one has
        return GUESSED
    return counter.count / len(turns)


def probe_passes(attacks: Mapping[str, Adversary]) -> int:
    """How often a validation image passes through the network after an epoch, forward and back."""
    return 1 + sum(attack.steps for attack in attacks.values())
