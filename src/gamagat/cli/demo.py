"""gamagat demo: the whole story in a minute."""

from __future__ import annotations

import tempfile
from pathlib import Path

from rich.text import Text

from gamagat.cli.app import app
from gamagat.cli.options import DEVICE, JSON, OUT
from gamagat.engine.training.card import figures_of, selection_attack
from gamagat.engine.training.demo import demo as run_demo
from gamagat.reports.terminal import onlooker, show
from gamagat.reports.training import final_table, training_listener

LESSON = (
    "Without adversaries in training, the network falls to every attack. After guided training (GAT) most "
    "digits stand, and the guided attack (GAMA) shows that fewer do than PGD would have it."
)


@app.command()
def demo(out: OUT = None, device: DEVICE = "auto", as_json: JSON = False) -> None:
    """Train a small network on the built-in digits without and with adversaries, and attack both."""
    folder = tempfile.TemporaryDirectory(prefix="gamagat-")
    listening = training_listener(as_json, selection_attack("digits").lower())
    with folder as name, listening as listener, onlooker(as_json) as watching:
        results = run_demo(out or Path(name), listener, watching, device)
    figures = {recipe: figures_of(result) for recipe, result in results.items()}
    table = final_table(results, "accuracy % on digits, linf 0.2", "training")
    show(figures, [table, Text(LESSON)], as_json)
