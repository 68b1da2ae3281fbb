"""Table S7: black-box transfer of FGSM images."""

from gamagat.experiments.core import EXPERIMENTS, Table
from gamagat.experiments.transfers import transfer_table


@EXPERIMENTS.register("tableS7")
def table_s7() -> Table:
    """Black-box transfer of FGSM images to seven defences, on three data sets."""
    return transfer_table("tableS7", "fgsm:as_published=true")
