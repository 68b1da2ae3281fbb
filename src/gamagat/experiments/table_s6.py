"""Table S6: GAT under long targeted and untargeted PGD, and under PGD-50 with many restarts."""

from gamagat.experiments.core import EXPERIMENTS, Measure, Slot, Table
from gamagat.experiments.defences import defence, published

PLACES = {"CIFAR-10": "cifar10", "ImageNet-100": "imagenet100", "MNIST": "mnist"}
ATTACKS = {
    "least likely": "pgd-targeted:target=least-likely,steps={}",
    "random target": "pgd-targeted:target=random,steps={}",
    "untargeted": "pgd:steps={}",
}
TRIES = {"cifar10": 1000, "imagenet100": 500, "mnist": 1000}
SUBSETS = {"cifar10": 1000, "imagenet100": 1000}  # MNIST's restarts run over all images
NOTES = {"restarts": "Which 1,000 images the paper took is not stated; ours are the first of the test set."}


def restarts(data: str, times: int) -> Measure:
    attack = f"pgd:steps=50,restarts={times},as_published=true"
    return Measure(attack, n=SUBSETS.get(data))


@EXPERIMENTS.register("tableS6")
def table_s6() -> Table:
    """GAT under PGD of 500 and 1,000 steps, targeted and not, and PGD-50 with up to 1,000 restarts."""
    networks = {place: defence("GAT", data) for place, data in PLACES.items()}
    long = tuple(
        Slot(row, f"{place} {letter}", network, published(attack.format(steps)))
        for row, attack in ATTACKS.items()
        for place, network in networks.items()
        for letter, steps in (("a", 500), ("b", 1000))
    )
    many = tuple(
        Slot("restarts", f"{place} {letter}", network, restarts(network.data, times))
        for place, network in networks.items()
        for letter, times in (("a", 1), ("b", TRIES[network.data]))
    )
    return Table("tableS6", long + many, "tableS6", notes=NOTES)
