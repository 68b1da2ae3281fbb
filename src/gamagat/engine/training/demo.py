"""The whole story on the built-in digits: a network trained without and with adversaries, both attacked."""

from __future__ import annotations

from pathlib import Path

from gamagat.engine.results import Evaluation
from gamagat.engine.training.card import evaluated
from gamagat.engine.training.run import Listener, TrainingRequest, train
from gamagat.engine.watch import Onlooker

RECIPES = ("standard", "gat")
ATTACKS = ("fgsm", "pgd", "gama-pgd")


def demo(folder: Path, listener: Listener, onlooker: Onlooker, device: str = "auto") -> dict[str, Evaluation]:
    """Train both, or go on with them, and measure both."""
    results = {}
    for recipe in RECIPES:
        trained = train(
            TrainingRequest(recipe, out=folder / recipe.partition(":")[0], device=device), listener
        )
        results[recipe] = evaluated(trained, "selected", ATTACKS, onlooker=onlooker)
    return results
