import pytest
import torch

from gamagat.data.core import from_tensors


@pytest.mark.parametrize(
    ("scale", "shift", "severity", "advice"),
    [
        (1 / 255, 0.0, "stop", "once, not twice"),
        (255.0, 0.0, "stop", "Divide the images by 255"),
        (2.0, -1.0, "stop", "put the normalisation into the network"),
        (float("nan"), 0.0, "stop", "put the normalisation into the network"),
        (0.0, 0.5, "stop", "blank"),
        (0.3, 0.3, "warn", "black is 0 and white is 1"),
    ],
)
def test_an_odd_pixel_range_is_found(findings, healthy, digits, scale, shift, severity, advice):
    images, labels = digits.batch(torch.arange(40))
    finding = findings(healthy, from_tensors(scale * images + shift, name="odd", labels=labels))[
        "pixel-range"
    ]
    assert finding.severity == severity
    assert advice in finding.do


def test_floats_cut_to_bytes_are_found(found, healthy, digits):
    images, labels = digits.batch(torch.arange(40))
    assert found(healthy, from_tensors(images.byte(), name="cut", labels=labels)) == {"pixel-range": "stop"}
