"""Why clean accuracy is poor: images or labels that are not those the network was trained on."""

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

from torch import Tensor

from gamagat.engine.checkup.exam import Exam, percent, surplus
from gamagat.engine.checkup.relabel import relabelled
from gamagat.engine.findings import Finding
from gamagat.models.normalize import NORMALIZATIONS
from gamagat.pieces.types import Images

FEW = 16  # images that say something about accuracy
TRIED = 128  # images that each candidate sees
POOR = {True: 60.0, False: 90.0}  # percent below which candidates are tried, quickly or not
GAIN = 10.0  # points of accuracy
CLOSE = 2.0  # points: of two changes that do about the same, the commoner mistake is the likelier
SURE = 3.0  # standard errors of the paired difference
MNIST = (0.1307,), (0.3081,)


class Change(NamedTuple):
    """Something that may have happened to the images on their way to the network."""

    check: str
    words: str
    apply: Callable[[Images], Images]
    do: str


def mistaken_input(exam: Exam) -> Iterator[Finding]:
    """The change of images or labels that explains poor accuracy best."""
    explanations = list(relabelled(exam))
    if percent(exam.right()) < POOR[exam.case.quick]:
        explanations += changed(exam)
    if explanations:
        yield max(explanations, key=lambda explanation: explanation[0])[1]


def chance_accuracy(exam: Exam) -> Iterator[Finding]:
    """A network that seems to guess."""
    accuracy = percent(exam.right())
    if len(exam.labels) >= FEW and _is_chance(accuracy, exam.classes, len(exam.labels)):
        yield Finding(
            "chance-accuracy",
            "warn",
            f"clean accuracy is {accuracy:.1f} % on {len(exam.labels)} images; guessing gives "
            f"{100 / exam.classes:.1f} %.",
            "Attacks only see images that are classified correctly, and there are hardly any.",
            "Make sure that the weights belong to this network and the network to this data.",
        )


def changed(exam: Exam) -> Iterator[tuple[float, Finding]]:
    """The change of the images that lifts accuracy most, if it lifts it clearly."""
    images = exam.images[:TRIED]
    before = exam.right(exam.logits[: len(images)])
    tries = [(change, exam.right(exam.ask(change.apply(images)))) for change in changes(images)]
    most = max(percent(after) for _, after in tries)
    change, after = next(pair for pair in tries if percent(pair[1]) >= most - CLOSE)
    old, new = percent(before), percent(after)
    if new - old >= GAIN and surplus(before, after) > SURE and not _is_chance(new, exam.classes, len(after)):
        yield new, _mistaken(change, old, new, len(images))


def changes(images: Images) -> Iterator[Change]:
    """All changes worth trying on such images, the commonest mistakes first."""
    channels, height, width = images.shape[1:]
    yield _missing("255 * x", lambda x: 255 * x, "multiply by 255 inside the network")
    for name, (mean, std) in NORMALIZATIONS.items():
        if len(mean) in (1, channels):
            yield from _both_ways(f"normalize={name}", images.new_tensor(mean), images.new_tensor(std))
    if channels == 1:
        yield from _both_ways("MNIST (0.1307 and 0.3081)", *map(images.new_tensor, MNIST))
    own = images.mean((0, 2, 3)), images.std((0, 2, 3)).clamp_min(1e-6)
    yield from _both_ways("the mean and the deviation of these images", *own)
    yield _double("x / 255", lambda x: x / 255)
    if channels == 3:
        yield _other("channel-order", "x with red and blue swapped", lambda x: x.flip(1), "Swap red and blue")
    yield _other("inverted-images", "1 - x", lambda x: 1 - x, "Invert the images")
    if height == width:
        yield _other("transposed-images", "x.mT", lambda x: x.mT.contiguous(), "Swap rows and columns")


def _both_ways(name: str, mean: Tensor, std: Tensor) -> Iterator[Change]:
    mean, std = mean[:, None, None], std[:, None, None]
    yield _missing(f"(x - mean) / std of {name}", lambda x: (x - mean) / std, f"normalise inside: {name}")
    yield _double(f"x * std + mean of {name}", lambda x: x * std + mean)


def _missing(words: str, apply: Callable[[Images], Images], do: str) -> Change:
    return Change("missing-normalisation", words, apply, f"Keep the images in [0, 1] and {do}.")


def _double(words: str, apply: Callable[[Images], Images]) -> Change:
    do = "Normalise once: leave out normalize=..., or take the normalisation out of the network itself."
    return Change("double-normalisation", words, apply, do)


def _other(check: str, words: str, apply: Callable[[Images], Images], do: str) -> Change:
    return Change(check, words, apply, f"{do} when the data is read, or inside the network.")


def _mistaken(change: Change, old: float, new: float, count: int) -> Finding:
    return Finding(
        change.check,
        "stop" if old < 0.6 * new else "warn",
        f"clean accuracy is {old:.1f} % on {count} images, but {new:.1f} % if the network is handed "
        f"{change.words}.",
        "An image that the network cannot read is not robustly classified, and every number below clean "
        "accuracy inherits the mistake.",
        change.do,
    )


def _is_chance(accuracy: float, classes: int, count: int) -> bool:
    """Whether this accuracy, in percent, could be guessing, or is barely better than that."""
    chance = 1 / classes
    doubt = 2 * math.sqrt(chance * (1 - chance) / count)
    return accuracy / 100 <= chance + min(doubt, 0.15 * (1 - chance))
