"""Numbers that the paper gives in its text alone."""

from gamagat.experiments.core import EXPERIMENTS, Measure, Slot, Table
from gamagat.experiments.defences import CW, HOW_CW, L2_EPS, at, defence, published


@EXPERIMENTS.register("text")
def text_numbers() -> Table:
    """GAT under DDN, C&W, SPSA and Square, and GAMA with Adam's steps on TRADES' WRN-34-10."""
    gat, trades = defence("GAT"), at(defence("TRADES", model="wrn-34-10"), "0.031")
    measures = {
        "DDN mean L2": Measure("ddn", "distance", "l2", L2_EPS),
        "CW mean L2": CW,
        "SPSA": Measure("spsa"),
        "Square": Measure("square"),
    }
    slots = tuple(Slot(row, "value", gat, measure) for row, measure in measures.items())
    adam = Slot("GAMA-Adam", "value", trades, published("gama-adam"))
    notes = {
        "CW mean L2": HOW_CW,
        "DDN mean L2": "The paper does not say how many steps DDN takes; ours takes 100.",
    }
    return Table("text", (*slots, adam), "text_numbers", notes=notes)
