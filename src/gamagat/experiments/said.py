"""What the paper says of attacks and defences, claim by claim."""

from gamagat.experiments import paper
from gamagat.experiments.claims import Claim, Comparison, Place, above, as_high, below, in_order

ONE_STEP = ("Normal", "FGSM-AT", "RFGSM-AT", "ATF", "FBF", "R-MGM", "GAT")
STRONGEST = ("GAMA-PGD-100", "AA")
GAMA = ("GAMA-PGD", "GAMA-FW")
LONG, SHORT = ("100-step single", "100-step x5"), ("10-step single", "10-step x5")
STEPS = {"table2": ("FGSM", "IFGSM-7", "PGD-500"), "tableS5": ("FGSM", "IFGSM-40", "PGD-500")}
CARRIED = (  # of both tables of transfers: the same attack on the network itself, and the sources
    ("table2", "FGSM", "tableS7", ("CIFAR VGG11", "CIFAR ResNet18")),
    ("table2", "PGD-7", "tableS8", ("CIFAR VGG11", "CIFAR ResNet18")),
    ("tableS5", "FGSM", "tableS7", ("MNIST BB-MNIST", "MNIST M-LeNet")),
    ("tableS5", "PGD-40", "tableS8", ("MNIST BB-MNIST", "MNIST M-LeNet")),
)


def claims() -> list[Claim]:
    """All that our tables can be put to, attacks first."""
    return [*_of_attacks(), *_of_defences(), *_of_masking()]


def _of_attacks() -> list[Claim]:
    networks = (*paper.rows("table1"), "GAT RN18", "TRADES RN18")
    once, five = ("PGD-100", "APGD-CE", "APGD-DLR", "FAB"), ("APGD-DLR x5", "FAB x5")
    return [
        Claim(
            "One run of GAMA-PGD or GAMA-FW leaves less than one of PGD-100, APGD-CE, APGD-DLR or FAB.",
            below("table1", networks, GAMA, once),
        ),
        Claim(
            "Five restarts of GAMA-PGD or GAMA-FW leave less than five of APGD-DLR or FAB.",
            below("table1", networks, [f"{name} x5" for name in GAMA], five),
        ),
        Claim(
            "GAMA-MT leaves less than MultiTargeted.",
            below("table1", networks, ["GAMA-PGD-MT top5"], ["MT top5"]),
        ),
        Claim(
            "The margin is a stronger loss than the cross-entropy, in probabilities stronger than in logits.",
            above("tableS2", LONG + SHORT, ["PGD CE"], ["PGD logit margin"])
            + above("tableS2", LONG + SHORT, ["PGD logit margin"], ["PGD probability margin"]),
        ),
        Claim(
            "In 100 steps a relaxation that fades helps, and a Bernoulli start as well.",
            above("tableS2", LONG, ["PGD probability margin"], ["PGD probability margin + l2"])
            + above("tableS2", LONG, ["PGD probability margin + l2"], ["GAMA-PGD"]),
        ),
        Claim(
            "GAMA-PGD is the stronger one in 100 steps, GAMA-FW in 10.",
            above("tableS2", LONG, ["GAMA-FW"], ["GAMA-PGD"])
            + above("tableS2", SHORT, ["GAMA-PGD"], ["GAMA-FW"]),
        ),
    ]


def _of_defences() -> list[Claim]:
    rest, figures = ONE_STEP[:-1], ("Clean", *STRONGEST)
    known = [name for name in ONE_STEP if name in paper.rows("tableS5")]
    ablations = [f"A{number}" for number in range(1, 6)]
    return [
        Claim(
            "GAT has at least the paper's accuracies, untouched and under attack, but for our interval.",
            as_high("table2", "GAT", figures) + as_high("tableS5", "GAT", figures),
        ),
        Claim(
            "GAT is more robust than all other single-step defences.",
            above("table2", STRONGEST, ["GAT"], rest) + above("tableS5", STRONGEST, ["GAT"], known[:-1]),
        ),
        Claim(
            "Single-step defences stand to each other as in the paper, on CIFAR-10.",
            in_order("table2", STRONGEST, ONE_STEP),
        ),
        Claim(
            "Single-step defences stand to each other as in the paper, on MNIST.",
            in_order("tableS5", STRONGEST, known),
        ),
        Claim("TR-GAT is more robust than TRADES.", above("table2", STRONGEST, ["TR-GAT"], ["TRADES"])),
        Claim("GAT is more robust than each of its ablations.", above("tableS3", ["AA"], ["GAT"], ablations)),
    ]


def _of_masking() -> list[Claim]:
    many = tuple(
        comparison
        for table, (one, few, most) in STEPS.items()
        for comparison in (*below(table, ["GAT"], [few], [one]), *below(table, ["GAT"], [most], [few]))
    )
    carried = tuple(
        Comparison(Place(own, "GAT", attack), Place(table, "GAT", source))
        for own, attack, table, sources in CARRIED
        for source in sources
    )
    square = (
        Comparison(Place("table2", "GAT", "PGD-500"), Place("tableS9", "GAT", "CIFAR Square")),
        Comparison(Place("tableS9", "GAT", "MNIST Square"), Place("tableS5", "GAT", "PGD-500")),
    )
    adaptive = tuple(
        Comparison(Place(table, "GAT", "AA"), Place("tableS10", row, f"{data} {loss}"))
        for table, data in (("table2", "CIFAR"), ("tableS5", "MNIST"))
        for loss in ("GA-CE", "GAMA")
        for row in paper.rows("tableS10")
    )
    return [
        Claim("More steps find more on GAT: its gradients are not masked.", many),
        Claim("Images made on other networks find less than those made on GAT itself.", carried),
        Claim("Square is weaker than PGD-500 on CIFAR-10 and stronger on MNIST.", square),
        Claim("Attacks that know GAT's loss do not go below AutoAttack.", adaptive),
    ]
