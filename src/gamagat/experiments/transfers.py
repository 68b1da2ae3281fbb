"""What tables S7 and S8 share: images made on normally trained networks, judged by every defence."""

from collections.abc import Mapping

from gamagat.experiments.core import Measure, Network, Slot, Table
from gamagat.experiments.defences import COMMON, NETWORKS, SHORT, defence
from gamagat.experiments.trainings import WHY

SOURCES = {
    "CIFAR": {"VGG11": "vgg11", "ResNet18": "resnet18-gat"},
    "IN100": {"AlexNet": "alexnet", "ResNet18": "resnet18-imagenet"},
    "MNIST": {"BB-MNIST": "bb-mnist", "M-LeNet": "m-lenet"},
}
NO_TRANSFER = (
    "The paper's entries for RFGSM-AT, PGD-AT and TRADES equal those networks' white-box figures in table "
    "S5: they are no transfer."
)
SOURCES_OF_OURS = (
    "The sources are undefended networks of ours with GAT's epochs and rates; the paper says nothing of its "
    "own, nor which VGG-11 it took (ours has the usual CIFAR form), and how far these figures vary from one "
    "source to the next was not measured."
)
NOTES = {
    **WHY,
    "": f"{SOURCES_OF_OURS} {NETWORKS}",
    "MNIST M-LeNet": NO_TRANSFER,
    "CIFAR Clean": "The paper has 89.66 for RFGSM-AT here and 89.24 in table 2.",
}


def transfer_table(name: str, attack: str, notes: Mapping[str, str] | None = None) -> Table:
    """Rows of defences; for each data set the clean accuracy, then one column for each source."""
    slots = tuple(slot for row in COMMON for slot in _row(row, attack))
    return Table(name, slots, name, notes=NOTES | dict(notes or {}))


def _row(row: str, attack: str) -> list[Slot]:
    slots = []
    for short, data in SHORT.items():
        target = defence(row, data)
        slots.append(Slot(row, f"{short} Clean", target, Measure()))
        for source, model in SOURCES[short].items():
            made_on = Network(data, model, "standard")
            slots.append(Slot(row, f"{short} {source}", target, Measure(attack, source=made_on)))
    return slots
