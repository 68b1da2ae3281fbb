"""Table S2: what each part of GAMA-PGD brings, on TRADES' WRN-34-10 at eps 0.031."""

from gamagat.experiments.core import EXPERIMENTS, Measure, Slot, Table
from gamagat.experiments.defences import at, defence, published

# Each row with its 100-step and its 10-step form.
ROWS = {
    "PGD CE": (published("pgd:steps=100"), published("pgd:steps=10")),
    "PGD logit margin": (Measure("pgd-margin"), Measure("pgd-margin:steps=10")),
    "PGD probability margin": (
        Measure("pgd-margin:space=probabilities"),
        Measure("pgd-margin:space=probabilities,steps=10"),
    ),
    "PGD probability margin + l2": (
        Measure("pgd-margin:space=probabilities,weight=50,fade=0.25"),
        Measure("pgd-margin:space=probabilities,weight=1,steps=10"),
    ),
    "GAMA-PGD": (published("gama-pgd"), published("gama-pgd-10")),
    "GAMA-FW": (published("gama-fw"), published("gama-fw-10")),
}
FADING = (
    "As in the paper, lambda falls to zero in the 100-step attack and stays constant in the 10-step one; "
    "what sets GAMA-PGD apart from this row is its start."
)
NOTES = {
    "": (
        "The network is not the paper's unless you bring TRADES' own with --checkpoint all=wrn-34-10@FILE; "
        "of another what counts is how the rows compare."
    ),
    **{
        f"PGD probability margin + l2/{column}": FADING
        for column in ("100-step single", "100-step x5", "10-step single", "10-step x5")
    },
    "10-step single": "The paper does not state lambda and the steps of its 10-step attacks.",
    "10-step x5": "The paper does not state lambda and the steps of its 10-step attacks.",
}


def five_times(measure: Measure) -> Measure:
    attack = str(measure.attack)
    return Measure(f"{attack}{',' if ':' in attack else ':'}restarts=5")


@EXPERIMENTS.register("tableS2")
def table_s2() -> Table:
    """Ablation of the attack: losses, decay and start, 100 and 10 steps, one run and five restarts."""
    network = at(defence("TRADES", model="wrn-34-10"), "0.031")
    slots = tuple(
        Slot(row, column, network, measure)
        for row, (long, short) in ROWS.items()
        for column, measure in {
            "100-step single": long,
            "100-step x5": five_times(long),
            "10-step single": short,
            "10-step x5": five_times(short),
        }.items()
    )
    return Table("tableS2", slots, "tableS2", notes=NOTES)
