"""Table S10: adaptive attacks on GAT, which climb the loss that it was trained with."""

from gamagat.experiments.core import EXPERIMENTS, Slot, Table
from gamagat.experiments.defences import SHORT, defence, published

LOSSES = {"GA-CE": "ga-ce", "GAMA": "gama-pgd"}
INITIAL = {"cifar10": 10, "imagenet100": 20, "mnist": 15}
FINAL = {"cifar10": 40, "imagenet100": 140, "mnist": 45}  # stepped up once


def settings(data: str) -> dict[str, str]:
    """The rows for one data set: lambda, and the share of the 100 steps in which it falls to zero."""
    constant = {"lambda 0": 0, "lambda initial": INITIAL[data], "lambda final": FINAL[data]}
    falling = {
        f"lambda {weight} over {steps}": f"weight={weight},fade={steps / 100:g}"
        for steps in (25, 50, 100)
        for weight in (50, 100)
    }
    return {row: f"weight={weight},fade=none" for row, weight in constant.items()} | falling


@EXPERIMENTS.register("tableS10")
def table_s10() -> Table:
    """GAT under GA-CE and GAMA with nine settings of lambda, on three data sets."""
    slots = tuple(
        Slot(row, f"{short} {loss}", defence("GAT", data), published(f"{attack}:{settings(data)[row]}"))
        for row in settings("cifar10")
        for short, data in SHORT.items()
        for loss, attack in LOSSES.items()
    )
    final = (
        "The paper calls GAT's first lambda times its step-up final; on MNIST lambda steps up thrice, to 405."
    )
    return Table("tableS10", slots, "tableS10", notes={"lambda final": final})
