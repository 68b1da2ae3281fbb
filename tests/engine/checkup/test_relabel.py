import pytest
import torch
import torch.nn.functional as F

from gamagat.data.core import from_tensors
from gamagat.engine.checkup.relabel import explains, learned, numberings

SHUFFLED = [3, 1, 4, 0, 5, 9, 2, 6, 8, 7]


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize(
    ("order", "words"),
    [
        (lambda z: z.roll(1, 1), "one less than"),
        (lambda z: z.roll(-1, 1), "one more than"),
        (lambda z: F.pad(z, (1, 0), value=-20.0), "one less than"),
        (lambda z: z[:, SHUFFLED], "in another order"),
    ],
    ids=["rolled up", "rolled down", "background class", "shuffled"],
)
def test_labels_in_another_order_stop(findings, broken, order, words, quick):
    finding = findings(broken(order), quick=quick)["label-order"]
    assert finding.stops
    assert words in finding.seen


def test_two_swapped_labels_are_named(findings, broken):
    (finding,) = findings(broken(lambda z: z[:, [0, 1, 2, 5, 4, 3, 6, 7, 8, 9]])).values()
    assert finding.check == "label-order"
    assert "output 3 is '5' (5), output 5 is '3' (3)" in finding.seen


def test_names_sorted_as_text_are_recognised():
    true = torch.arange(12).repeat(20)
    said = torch.tensor(sorted(range(12), key=str)).argsort()[true]
    right = {words: bool((guess == true).all()) for words, guess in numberings(said, true, 12)}
    assert right["in numerical order, the network's in alphabetical order"]
    assert sum(right.values()) == 2  # and the numbering learned from the other half


def test_a_numbering_is_learned_from_other_images_than_it_is_judged_on():
    dice = torch.Generator().manual_seed(0)
    said, true = torch.randint(50, (2, 200), generator=dice)
    assert (learned(said, true, 50) == true).float().mean() < 0.1


@pytest.mark.parametrize("accuracy", [0.3, 0.6, 0.9])
@pytest.mark.parametrize("classes", [2, 10, 100])
def test_a_network_that_is_merely_weak_is_not_accused(accuracy, classes):
    dice = torch.Generator().manual_seed(1)
    true, other = torch.randint(classes, (2, 500), generator=dice)
    said = torch.where(torch.rand(500, generator=dice) < accuracy, true, other)
    for _, guess in numberings(said, true, classes):
        assert not explains(guess, said, true)


@pytest.mark.parametrize("quick", [True, False])
def test_labels_that_mean_nothing_leave_chance(found, healthy, digits, quick):
    # Always wrong, so that any guessing does better; yet there is nothing to explain it by.
    off = torch.randint(1, 10, (len(digits),), generator=torch.Generator().manual_seed(3))
    labels = (digits.labels + off) % 10
    data = from_tensors(digits.read(torch.arange(len(digits))), name="noise", labels=labels)
    assert found(healthy, data, quick=quick) == {"chance-accuracy": "warn"}
