"""Stability over seeds: GAT trained six times."""

from gamagat.experiments.core import EXPERIMENTS, Derived, Table, grid
from gamagat.experiments.defences import defence, pgd
from gamagat.experiments.trainings import BATCH


@EXPERIMENTS.register("stability")
def stability() -> Table:
    """Six trainings of GAT on CIFAR-10 with other seeds, under PGD-100; their mean and standard deviation."""
    rows = {f"run {seed + 1}": defence("GAT", seed=seed) for seed in range(6)}
    derived = tuple(Derived(how, "PGD-100", tuple(rows), how) for how in ("mean", "std"))
    words = (
        "Runs are compared in the order of their seeds; only mean and standard deviation say much. The "
        "paper's mean is worked out from its runs."
    )
    notes = {"": words} | dict.fromkeys((*rows, "mean"), f"Ours has {BATCH}.")
    return Table("stability", grid(rows, pgd(100)), "stability", derived=derived, notes=notes)
