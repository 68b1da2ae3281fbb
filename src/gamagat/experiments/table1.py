"""Table 1: public defences under 100-step attacks. Most of them are yours to bring, with --checkpoint."""

from gamagat.experiments.core import EXPERIMENTS, Measure, Network, Table, grid
from gamagat.experiments.defences import at, defence, published

ROWS = {
    "Carmon": Network("cifar10", "wrn-28-10"),
    "Sehwag": Network("cifar10", "wrn-28-10"),
    "Wang RN18": Network("cifar10", "resnet18"),
    "Wang WRN-28-10": Network("cifar10", "wrn-28-10"),
    "Hendrycks": Network("cifar10", "wrn-28-10:normalize=half"),
    "Rice": Network("cifar10", "wrn-34-20:normalize=cifar10", "pgd-at"),
    "Zhang": at(defence("TRADES", model="wrn-34-10"), "0.031"),
    "Madry": Network("cifar10", "resnet50-madry", "pgd-at"),
    "Wong": Network("cifar10", "preact-resnet18-fbf", "fbf"),
    "GAT": defence("GAT", model="wrn-34-10-gat"),
    "GAT RN18": defence("GAT"),
    "TRADES RN18": defence("TRADES"),
}
COLUMNS = {
    "PGD-100": published("pgd:steps=100"),
    "APGD-CE": Measure("apgd-ce"),
    "APGD-DLR": Measure("apgd-dlr"),
    "FAB": Measure("fab:stop=true"),
    "GAMA-PGD": published("gama-pgd"),
    "GAMA-FW": published("gama-fw"),
    "APGD-DLR x5": Measure("apgd-dlr:restarts=5"),
    "FAB x5": Measure("fab:stop=true,restarts=5"),
    "GAMA-PGD x5": published("gama-pgd:restarts=5"),
    "GAMA-FW x5": published("gama-fw:restarts=5"),
    "MT top5": published("multitargeted:top=5"),
    "GAMA-PGD-MT top5": published("gama-mt:top=5"),
}
OWN = "Without --checkpoint this is a network that we trained with the same method, not the authors' own."


@EXPERIMENTS.register("table1")
def table1() -> Table:
    """Public CIFAR-10 defences under single attacks of 100 steps, with restarts and with targets."""
    return Table(
        "table1",
        grid(ROWS, COLUMNS),
        "table1",
        ours=frozenset({"GAT RN18", "TRADES RN18"}),
        notes=dict.fromkeys(("Rice", "Zhang", "Madry", "Wong", "GAT"), OWN)
        | {"Madry": f"{OWN} The paper's PGD-100 equals what the network's authors state for 20 steps."}
        | {"MT top5": "The step of MultiTargeted is not stated; ours is the strongest of five on MNIST."},
    )
