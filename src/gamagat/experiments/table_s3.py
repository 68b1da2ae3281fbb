"""Table S3: GAT without one of its parts."""

from gamagat.experiments.core import EXPERIMENTS, Measure, Network, Table, grid
from gamagat.experiments.defences import AUTOATTACK, MODELS, defence, pgd

NOTES = {
    "AA": AUTOATTACK,
    "GAT": "The paper's own six reruns of GAT reach 51.70 to 52.35 under PGD-100.",
    "A4": "As in the paper, this is RFGSM-AT of table 2.",
}


@EXPERIMENTS.register("tableS3")
def table_s3() -> Table:
    """Ablations of GAT (A1 to A5) on CIFAR-10, ResNet-18."""
    rows = {"GAT": defence("GAT")} | {
        name: defence("RFGSM-AT") if name == "A4" else _without(name)
        for name in ("A1", "A2", "A3", "A4", "A5")
    }
    columns = {"Clean": Measure(), **pgd(100), "AA": Measure("autoattack")}
    return Table("tableS3", grid(rows, columns), "tableS3", notes=NOTES)


def _without(name: str) -> Network:
    return Network("cifar10", MODELS["cifar10"], f"gat:ablation={name}")
