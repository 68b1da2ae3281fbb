"""A toy table on the built-in digits, and a workshop that makes it in a second or two."""

from pathlib import Path
from typing import Any

from gamagat.experiments.cache import Cache
from gamagat.experiments.clock import Clock
from gamagat.experiments.core import Measure, Network, Table, grid
from gamagat.experiments.workshop import Workshop

QUICK = {"epochs": "1", "probe": "20"}
NORMAL = Network("digits", "digits-cnn", "standard")
GAT = Network("digits", "digits-cnn", "gat")
COLUMNS = {
    "Clean": Measure(),
    "FGSM": Measure("fgsm:as_published=true"),
    "PGD-40": Measure("pgd:steps=3,as_published=true"),
    "CW mean L2": Measure("ddn:steps=5", "distance", "l2", "0.5"),
    "transfer": Measure("fgsm", source=NORMAL),
}


def toy_table(name: str = "toy", rows: dict[str, Network] | None = None, **changes: Any) -> Table:
    """Rows and columns that table S5 has, too, so that there are figures of the paper to stand beside."""
    slots = grid(rows or {"Normal": NORMAL, "GAT": GAT}, changes.pop("columns", COLUMNS))
    return Table(name, slots, "tableS5", ours=frozenset({"transfer"}), **changes)


def shop_at(root: Path, seconds: float | None = None, n: int | None = 40, **options: str) -> Workshop:
    return Workshop(Cache(root, options=QUICK | options, n=n), "cpu", clock=Clock(seconds), command="toy")
