"""Table S4: defences on ImageNet-100 under white-box attacks."""

from gamagat.experiments.core import EXPERIMENTS, Table, grid
from gamagat.experiments.defences import AUTOATTACK, COMMON, HOW_CW, defences, white_box


@EXPERIMENTS.register("tableS4")
def table_s4() -> Table:
    """Seven defences on ImageNet-100 under white-box attacks, ResNet-18."""
    rows = defences(COMMON, "imagenet100")
    notes = {
        "AA": AUTOATTACK,
        "CW mean L2": HOW_CW,
        "GAMA-PGD-100": "The paper's 29.30 for GAT is what its table S10 has for lambda 100 over 50 steps.",
    }
    return Table("tableS4", grid(rows, white_box(7, (7, 20, 500))), "tableS4", notes=notes)
