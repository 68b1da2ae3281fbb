"""Table S5: defences on MNIST under white-box attacks."""

from gamagat.experiments.core import EXPERIMENTS, Table, grid
from gamagat.experiments.defences import AUTOATTACK, COMMON, CW, defences, white_box


@EXPERIMENTS.register("tableS5")
def table_s5() -> Table:
    """Seven defences on MNIST under white-box attacks, M-LeNet."""
    rows = defences(COMMON, "mnist")
    notes = {"AA": AUTOATTACK, "CW mean L2": CW, "R-MGM": "The weight of its regulariser is not published."}
    return Table("tableS5", grid(rows, white_box(40, (40, 100, 500))), "tableS5", notes=notes)
