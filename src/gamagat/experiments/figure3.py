"""Figure 3: accuracy against restarts, or against targets tried, on three public defences."""

from collections.abc import Mapping

from gamagat.experiments.core import Measure, Network
from gamagat.experiments.defences import at, defence, published
from gamagat.experiments.figures import FIGURES, Figure, Line, Point, curves

TIMES = 10
ROWS = {
    "TRADES-CIFAR10": (at(defence("TRADES", model="wrn-34-10"), "0.031"), "cifar10", None),
    "Madry-ImageNet": (
        Network("folder:imagenet", "torchvision:resnet50:normalize=imagenet", eps="8/255"), "imagenet", 1000,
    ),
    "TRADES-MNIST": (Network("mnist", "small-cnn", "trades"), "mnist", None),
}  # fmt: skip
ATTACKS = {
    "APGD-CE": Measure(f"apgd-ce:restarts={TIMES}"),
    "APGD-DLR": Measure(f"apgd-dlr:restarts={TIMES}"),
    "FAB": Measure(f"fab:stop=true,restarts={TIMES}"),
    "GAMA-PGD": published(f"gama-pgd:restarts={TIMES}"),
    "GAMA-FW": published(f"gama-fw:restarts={TIMES}"),
    "Multi-Targeted": published("multitargeted:top={top}"),
    "GAMA-MT": published("gama-mt:top={top}"),
}
TARGETS = (
    "The k-th try aims at the k-th likeliest wrong class, of which there are nine on ten classes; the paper "
    "does not say what its tenth aims at."
)
STEP = (
    "Its step is not stated either; ours is the strongest of five that were tried on TRADES' MNIST network, "
    "where ours finds more than the paper's."
)
NOTES = {
    "": "Networks are ours unless you bring the public ones with --checkpoint ROW=MODEL@FILE.",
    "Madry-ImageNet": (
        "Images are read from the folder imagenet, one sub-folder per class; they are taken from each class "
        "in turn, and which the paper calls its first 1,000 is not stated."
    ),
    "Multi-Targeted": f"{TARGETS} {STEP}",
    "GAMA-MT": TARGETS,
}


def lines(row: str, network: Network, part: str, n: int | None) -> list[Line]:
    """All attacks on one network; the paper has no FAB on ImageNet."""
    known: Mapping[str, object] = curves("fig3", part)
    top = TIMES if part == "imagenet" else TIMES - 1
    return [
        Line(
            row,
            name,
            "restarts",
            (Point(network, Measure(str(measure.attack).format(top=top), n=n)),),
            paper=tuple(curves("fig3", part)[name]),
        )
        for name, measure in ATTACKS.items()
        if name in known
    ]


@FIGURES.register("figure3")
def figure3() -> Figure:
    """Accuracy under seven attacks against restarts, on CIFAR-10, ImageNet and MNIST."""
    every = (line for row, (network, part, n) in ROWS.items() for line in lines(row, network, part, n))
    return Figure("figure3", tuple(every), "fig3", "Accuracy against restarts", NOTES)
