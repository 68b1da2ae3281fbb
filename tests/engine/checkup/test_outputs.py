import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from gamagat.data.core import from_tensors


def rounded(z: Tensor) -> Tensor:
    """Probabilities with two digits whose gradient is that of exact ones."""
    p = z.softmax(1)
    return p + (p.round(decimals=2) - p).detach()


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize(
    "squash",
    [
        lambda z: z.softmax(1),
        lambda z: (z / 20).softmax(1),
        lambda z: (5 * z).softmax(1),
        lambda z: 100 * z.softmax(1),
        rounded,
    ],
    ids=["plain", "hot", "cold", "percent", "rounded"],
)
def test_probabilities_stop(found, broken, squash, quick):
    assert found(broken(squash), quick=quick)["probabilities"] == "stop"


def test_probabilities_of_a_single_image_stop(found, broken, digits):
    assert found(broken(lambda z: z.softmax(1)), digits.head(1))["probabilities"] == "stop"


def test_logits_of_one_image_that_nearly_sum_to_one_are_no_probabilities(found, broken, digits):
    one = digits.head(1)

    def shifted(total: float) -> dict[str, str]:
        return found(broken(lambda z: z.softmax(1) * total), one)

    assert shifted(0.976).get("probabilities") != "stop"
    assert shifted(1.03).get("probabilities") != "stop"
    assert shifted(0.995)["probabilities"] == "stop"  # as half precision may leave them


def test_a_last_sigmoid_is_found(found, broken):
    assert found(broken(torch.sigmoid)) == {"probabilities": "warn"}


@pytest.mark.parametrize("form", [lambda z: z.log_softmax(1), lambda z: z.double(), lambda z: z + 100])
def test_log_probabilities_and_shifted_logits_are_fine(found, broken, form):
    assert found(broken(form)) == {}


@pytest.mark.parametrize(("scale", "share"), [(5, "104 for 0 %"), (30, "104 for 74.9 %")])
def test_saturated_logits_are_found(findings, broken, scale, share):
    (finding,) = findings(broken(lambda z: scale * z)).values()
    assert (finding.check, finding.severity) == ("saturated-softmax", "warn")
    assert share in finding.seen


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_outputs_that_are_not_numbers_stop(found, broken, value):
    assert found(broken(lambda z: torch.where(z > 8, value, z))) == {"nan": "stop"}


@pytest.mark.parametrize(
    "form",
    [
        lambda z: (z,),
        lambda z: z.argmax(1),
        lambda z: z[:, :1],
        lambda z: z > 0,
        lambda z: z.sum(),
        lambda z: z[1:],
    ],
    ids=["tuple", "classes", "one column", "not floats", "one number", "an image short"],
)
def test_outputs_of_another_form_stop(found, broken, form):
    assert found(broken(form)) == {"outputs": "stop"}


def test_a_network_that_ignores_its_input_is_found(found, broken):
    assert found(broken(lambda z: 0 * z + torch.arange(10))) == {
        "constant-output": "stop",
        "input-gradients": "stop",
        "chance-accuracy": "warn",
    }


def without_gradient(z: Tensor) -> Tensor:
    with torch.no_grad():
        return z + 0


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize(
    "change",
    [
        {"after": without_gradient},
        {"after": lambda z: torch.from_numpy(z.numpy())},
        {"after": lambda z: F.one_hot(z.argmax(1), 10).float()},
        {"before": lambda x: (8 * x).round() / 8},
        {"before": lambda x: x + 0 * x.sqrt()},
        {"before": lambda x: x.mul_(1)},
    ],
    ids=["no_grad", "numpy", "argmax", "rounded pixels", "infinite slope", "in place"],
)
def test_gradients_that_lead_nowhere_stop(found, broken, change, quick):
    assert found(broken(**change), quick=quick)["input-gradients"] == "stop"


def test_gradients_that_are_dead_for_some_images_are_found(found, broken):
    flat = broken(lambda z: torch.where(z.amax(1, keepdim=True) > 8, z.detach(), z))
    assert found(flat) == {"input-gradients": "warn"}


def test_too_few_and_too_many_outputs_are_found(found, broken):
    assert found(broken(lambda z: z[:, :8])) == {"class-count": "stop"}
    assert found(broken(lambda z: F.pad(z, (0, 2), value=-20.0))) == {"class-count": "warn"}


@pytest.mark.parametrize(
    ("classes", "attacks", "expected"),
    [
        (2, ["gama-pgd", "apgd-dlr:steps=3"], {"dlr-classes": "warn"}),
        (3, ["apgd-t"], {"dlr-classes": "warn"}),
        (3, ["autoattack:seed=1"], {"dlr-classes": "warn"}),
        (3, ["apgd-dlr"], {"dlr-classes": "warn"}),
        (3, ["gama-pgd", "apgd-ce"], {}),
        (4, ["apgd-t"], {}),
    ],
)
def test_dlr_needs_four_classes(found, broken, digits, classes, attacks, expected):
    few = digits.take(digits.labels < classes)
    names = map(str, range(classes))
    data = from_tensors(few.read(torch.arange(len(few))), name="few", labels=few.labels, classes=names)
    assert found(broken(lambda z: z[:, :classes] / 2), data, attacks=attacks) == expected
