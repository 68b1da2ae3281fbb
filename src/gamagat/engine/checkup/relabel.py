"""Labels that are numbered otherwise than the network's outputs."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from gamagat.engine.checkup.exam import Exam, listed, percent, surplus
from gamagat.engine.findings import Finding
from gamagat.pieces.types import Labels

SURE = 4.0  # standard errors; stricter than for images, as a numbering has many more degrees of freedom


class Numbering(NamedTuple):
    """A guess at which label each of the network's classes stands for, image by image."""

    words: str
    guess: Labels


def relabelled(exam: Exam) -> Iterator[tuple[float, Finding]]:
    """The numbering that explains the network's answers best, with the accuracy it gives."""
    said, true = exam.logits.argmax(1).cpu(), exam.labels.cpu()
    size = max(exam.classes, len(exam.case.data.classes))
    best = max(numberings(said, true, size), key=lambda numbering: int((numbering.guess == true).sum()))
    if explains(best.guess, said, true):
        yield percent(best.guess == true), _finding(exam, best, said, true)


def numberings(said: Labels, true: Labels, size: int) -> Iterator[Numbering]:
    """Numberings to try, those that need nothing learned first."""
    yield Numbering("one less than the network's", (said - 1) % size)
    yield Numbering("one more than the network's", (said + 1) % size)
    as_text = torch.tensor(sorted(range(size), key=str))
    yield Numbering("in numerical order, the network's in alphabetical order", as_text[said])
    yield Numbering("in alphabetical order, the network's in numerical order", as_text.argsort()[said])
    yield Numbering("in another order than the network's", learned(said, true, size))


def learned(said: Labels, true: Labels, size: int) -> Labels:
    """For each image the label that the network's answer mostly goes with among the other half of images."""
    half = torch.randperm(len(said), generator=torch.Generator().manual_seed(0)) % 2 == 0
    guess = said.clone()
    for here in (half, ~half):
        guess[here] = _majority(said[~here], true[~here], size)[said[here]]
    return guess


def _majority(said: Labels, true: Labels, size: int) -> Tensor:
    """The label that goes with each answer most often; the answer itself where it was never given."""
    votes = torch.zeros(size, size).index_put_((said, true), torch.ones(len(said)), accumulate=True)
    return torch.where(votes.sum(1) > 0, votes.argmax(1), torch.arange(size))


def explains(guess: Labels, said: Labels, true: Labels) -> bool:
    """Whether, where the numbering differs, the answers were wrong and are now mostly right."""
    moved = guess != said
    before, after = said[moved] == true[moved], guess[moved] == true[moved]
    if surplus(before, after) <= SURE or len(set(true[moved].tolist())) < 2:
        return False
    return percent(after) >= 50 and percent(before) <= 0.2 * percent(after)


def _finding(exam: Exam, best: Numbering, said: Labels, true: Labels) -> Finding:
    names = exam.case.data.classes
    fits = (best.guess == true) & (best.guess != said)
    label_of = _majority(said[fits], true[fits], max(exam.classes, len(names))).tolist()
    pairs = [(output, label_of[output]) for output in sorted(set(said[fits].tolist()))]
    shown = listed([f"output {output} is {names[label]!r} ({label})" for output, label in pairs])
    return Finding(
        "label-order",
        "stop",
        f"clean accuracy is {percent(said == true):.1f} %, but {percent(best.guess == true):.1f} % if the "
        f"labels are numbered {best.words}: {shown}.",
        "Images count as misclassified that are not, so the accuracy left says nothing about the network.",
        "Renumber the labels of the data, or the outputs of the network, in the order of its training.",
    )
