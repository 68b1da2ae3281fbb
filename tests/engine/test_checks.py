import pytest
import torch
from torch import nn

from gamagat.data.core import check_unit
from gamagat.engine.checks import check_images, check_labels, check_model
from gamagat.errors import DataError, ModelError

IMAGES = torch.full((3, 1, 4, 4), 0.5)
LABELS = torch.tensor([0, 1, 2])


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (IMAGES.numpy(), LABELS, "must be tensors"),
        (IMAGES[0], LABELS, "must have the shape"),
        (IMAGES[:0], LABELS[:0], "at least one image"),
        ((IMAGES * 255).byte(), LABELS, "must be floats in"),
        (IMAGES * 255, LABELS, "values from 127.5 to 127.5"),
        (IMAGES * float("nan"), LABELS, "found NaN"),
        (IMAGES - 1, LABELS, "pixels must lie in"),
        (IMAGES, LABELS[:2], "must be 3 whole numbers"),
        (IMAGES, LABELS.float(), "must be 3 whole numbers"),
    ],
)
def test_wrong_images_are_turned_away(images, labels, message):
    with pytest.raises(DataError) as caught:
        check_images(images, labels)
    assert message in str(caught.value)


@pytest.mark.parametrize("labels", [torch.tensor([0, 10]), torch.tensor([-1, 3])])
def test_labels_outside_the_classes_are_turned_away(labels):
    with pytest.raises(DataError, match="outputs are numbered 0 to 9"):
        check_labels(labels, 10)


class Probabilities(nn.Sequential):
    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return super().forward(images).softmax(1)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (nn.Conv2d(3, 2, 3), "they have 1 channels, and its first convolution takes 3; give it images"),
        (nn.Sequential(nn.Flatten(), nn.Linear(9, 5)), "cannot be multiplied (3x16 and 9x5); give it images"),
        (
            Probabilities(nn.Conv2d(1, 2, 5)),
            "of shape (3, 1, 4, 4) (batch, channel, height, width): Calculated",
        ),
        (nn.Conv2d(1, 2, 3), "must return logits of shape (3, classes)"),
        (lambda images: [images], "got list"),
        (nn.Sequential(nn.Flatten(), nn.Linear(16, 1)), "at least 2 classes"),
        (lambda images: images.flatten(1) / 0, "NaN or infinite"),
        (Probabilities(nn.Flatten(), nn.Linear(16, 5)), "returns probabilities, not logits"),
    ],
)
def test_networks_that_return_no_logits_are_turned_away(model, message):
    with pytest.raises(ModelError) as caught:
        check_model(model, IMAGES)
    assert message in str(caught.value)


def test_a_sound_network_tells_its_number_of_classes():
    assert check_model(nn.Sequential(nn.Flatten(), nn.Linear(16, 7)), IMAGES) == 7
    assert check_model(nn.Sequential(nn.Flatten(), nn.Linear(16, 7)), IMAGES[:1]) == 7
    assert check_model(nn.Sequential(nn.Flatten(), nn.Linear(16, 7), nn.LogSoftmax(1)), IMAGES) == 7


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (float("nan"), "found NaN; leave out or mend these images"),
        (253.9, "found values from 0 to 253.9; give raw images, and divide them by 255"),
        (1.0000001, r"found values from 0 to 1.00000012; take rounding errors off: images.clamp\(0, 1\)"),
        (-2.98e-8, "found values from -2.98000007e-08 to 0; take rounding errors off"),
        (1.5, "found values from 0 to 1.5; give raw images, and divide them by 255"),
        (-1.5, "found values from -1.5 to 0; give raw images, and let the model normalise them"),
    ],
)
def test_pixels_outside_are_told_apart(value, words):
    images = torch.zeros(2, 1, 2, 2)
    images[1, 0, 1, 1] = value
    for look in (lambda: check_images(images, torch.zeros(2).long()), lambda: check_unit(images, "mine")):
        with pytest.raises(DataError, match=words):
            look()
