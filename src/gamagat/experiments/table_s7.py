"""Table S7: black-box transfer of FGSM images."""

from gamagat.experiments.core import EXPERIMENTS, Table
from gamagat.experiments.transfers import transfer_table

NORMAL = (
    "What FGSM leaves of an undefended network differs from training to training: 20.10 in table2, of "
    "another one of ours."
)


@EXPERIMENTS.register("tableS7")
def table_s7() -> Table:
    """Black-box transfer of FGSM images to seven defences, on three data sets."""
    return transfer_table("tableS7", "fgsm:as_published=true", {"Normal/CIFAR ResNet18": NORMAL})
