"""Table S9: the Square attack, which asks for no gradients."""

from gamagat.experiments.core import EXPERIMENTS, Measure, Slot, Table
from gamagat.experiments.defences import COMMON, NETWORKS, SHORT, defence
from gamagat.experiments.trainings import WHY


@EXPERIMENTS.register("tableS9")
def table_s9() -> Table:
    """Seven defences under the Square attack, on three data sets."""
    slots = tuple(
        Slot(row, f"{short} {column}", defence(row, data), measure)
        for row in COMMON
        for short, data in SHORT.items()
        for column, measure in (("Clean", Measure()), ("Square", Measure("square")))
    )
    words = f"The number of queries is not stated; ours is 5,000, as in AutoAttack. {NETWORKS}"
    return Table("tableS9", slots, "tableS9", notes=WHY | {"": words})
