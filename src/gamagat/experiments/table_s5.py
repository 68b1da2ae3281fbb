"""Table S5: defences on MNIST under white-box attacks."""

from gamagat.experiments.core import EXPERIMENTS, Table, grid
from gamagat.experiments.defences import AUTOATTACK, COMMON, CONVERGED, HOW_CW, defences, white_box

FBF = (
    f"{CONVERGED}. With the ten epochs and the rates of FBF's authors, who train a smaller network so, it "
    "began collapsed and kept 63.21 under GAMA-PGD-100 and 42.63 under AutoAttack."
)
STEP = "R-FGSM's full step"
GAT = (
    "Ours is selected on 2,000 validation images, where the scripts take 10,000; the network in zoo/, "
    "another training, of an earlier version, was selected on 10,000 and has 99.25 clean. Whether that is "
    "why was not tried."
)
PGD_AT = (
    "Ours trains for 30 epochs of 1,000 steps, where its first authors take 100; in a training of 46 the "
    "accuracy on validation images rose by no more than 0.1 after the 29th."
)
TRADES = (
    "Ours trains for the first 50 epochs of its authors' 100, before the rate falls; in a training of 89 "
    "none was better than the 38th."
)


@EXPERIMENTS.register("tableS5")
def table_s5() -> Table:
    """Seven defences on MNIST under white-box attacks, M-LeNet."""
    rows = defences(COMMON, "mnist")
    notes = {
        "AA": AUTOATTACK,
        "CW mean L2": HOW_CW,
        "Normal": f"{CONVERGED}.",
        "RFGSM-AT": f"{CONVERGED}, and {STEP}.",
        "FBF": FBF,
        "R-MGM": f"{CONVERGED}, and {STEP}; the weight of its regulariser is not published.",
        "GAT": GAT,
        "PGD-AT": PGD_AT,
        "TRADES": TRADES,
    }
    return Table("tableS5", grid(rows, white_box(40, (40, 100, 500))), "tableS5", notes=notes)
