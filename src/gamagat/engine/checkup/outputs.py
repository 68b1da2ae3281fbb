"""What the network returns: whether it is logits at all, and whether an attack can climb them."""

from collections.abc import Iterator
from typing import Any

import torch

from gamagat.attacks.combine import gradients
from gamagat.attacks.core import ATTACKS, FEW_CLASSES, USES_DLR
from gamagat.engine.checkup.exam import Exam, listed, percent, reason
from gamagat.engine.findings import Finding, Severity
from gamagat.engine.plan import plan_attack
from gamagat.pieces.losses import take, without
from gamagat.pieces.types import Scores
from gamagat.registry import parse_spec

ROUNDS_TO_ONE = 17.3  # from this gap on 1 - p of the true class is below half a unit in the last place
UNDERFLOWS = 104.0  # from this gap on the other classes' probabilities are zero
SATURATED = 10.0  # percent of the images
# How far sums of probabilities may stray: in bf16, and rounded to two digits, where ten of them are 0.05 off.
UNEVEN, ROUNDED = 0.01, 0.05


def wrong_form(outputs: Any, count: int) -> Iterator[Finding]:
    """Anything but one row of finite real numbers for each image."""
    if not isinstance(outputs, torch.Tensor) or outputs.ndim != 2 or outputs.shape[0] != count:
        what = tuple(outputs.shape) if isinstance(outputs, torch.Tensor) else type(outputs).__name__
        yield _form(f"for {count} images the network returns {what}.")
    elif outputs.shape[1] < 2 or not outputs.is_floating_point():
        yield _form(f"the network returns {outputs.shape[1]} columns of {outputs.dtype}.")
    elif not bool(outputs.isfinite().all()):
        bad = percent(~outputs.isfinite().all(1))
        yield Finding(
            "nan",
            "stop",
            f"NaN or infinite outputs for {bad:.3g} % of {count} clean images.",
            "NaN is neither right nor wrong, and it has no gradient that an attack could follow.",
            "Look for broken weights, a division by zero, or half precision that overflows.",
        )


def _form(seen: str) -> Finding:
    return Finding(
        "outputs",
        "stop",
        seen,
        "Attacks and the judge need one row of logits for each image, with a column for each class.",
        "Wrap the network so that it returns a float tensor of logits (batch, classes).",
    )


def constant_output(exam: Exam) -> Iterator[Finding]:
    """The same answer to every image."""
    logits, images = exam.logits, exam.images
    if bool((images != images[0]).any()) and bool(
        ((logits - logits[0]).abs() <= 1e-6 * logits.abs().max()).all()
    ):
        yield Finding(
            "constant-output",
            "stop",
            f"the network gives the same outputs for all of {len(logits)} images.",
            "It does not look at its input, so there is nothing to attack.",
            "Make sure that the trained weights are loaded and that no layer has died.",
        )


def probabilities(exam: Exam) -> Iterator[Finding]:
    """Outputs behind a softmax or a sigmoid."""
    outputs, sums = exam.logits, exam.logits.sum(1)
    if bool((outputs < 0).any()):
        return
    if any(bool(((sums / whole - 1).abs() <= _stray(outputs / whole)).all()) for whole in (1, 100)):
        yield _squashed(
            "stop", f"every row of outputs is positive and sums to {float(sums.mean()):.3g}.", "softmax"
        )
    elif bool((outputs <= 1).all()) and bool((outputs > 0.5).any()):
        yield _squashed("warn", "all outputs lie in [0, 1].", "sigmoid")


def _stray(outputs: Scores) -> float:
    """The logits of an image or two may happen to sum to nearly one, but not to be round as well."""
    hundredths = 100 * outputs
    is_round = bool((hundredths - hundredths.round()).abs().max() < 1e-3)
    return ROUNDED if is_round and bool((hundredths < 100.5).all()) else UNEVEN


def _squashed(severity: Severity, seen: str, layer: str) -> Finding:
    return Finding(
        "probabilities",
        severity,
        seen,
        "Losses take a softmax of the outputs; of squashed ones it is nearly flat, gradients vanish, and the "
        "network looks more robust than it is.",
        f"Take off the last {layer}, so that the network returns logits (log-probabilities will do).",
    )


def saturation(exam: Exam) -> Iterator[Finding]:
    """Logits so far apart that a softmax in float32 rounds them away."""
    if exam.classes < len(exam.case.data.classes):
        return
    gap = take(exam.logits, exam.labels) - without(exam.logits, exam.labels).amax(1)
    lost, dead = percent(gap > ROUNDS_TO_ONE), percent(gap > UNDERFLOWS)
    if lost >= SATURATED:
        yield Finding(
            "saturated-softmax",
            "warn",
            f"the true logit leads by more than {ROUNDS_TO_ONE:g} for {lost:.3g} % of the images, by more "
            f"than {UNDERFLOWS:g} for {dead:.3g} %; the median lead is {float(gap.median()):.3g}.",
            "Differentiated through a float32 softmax, the true class has no gradient beyond the first lead "
            "and nothing has beyond the second; gamagat's exact slopes cope, other tools' attacks get stuck.",
            "Nothing here; elsewhere use a loss on logits (margin, DLR) or divide the logits by a constant.",
        )


def input_gradients(exam: Exam) -> Iterator[Finding]:
    """Whether the lead of the winning class can be climbed down from every image."""
    exam.case.kept.rewind()
    images = exam.probe.clone().requires_grad_()
    try:
        with torch.enable_grad():
            best = exam.case.model(images).topk(2, dim=1).values
            (grad,) = torch.autograd.grad((best[:, 0] - best[:, 1]).sum(), images)
    except Exception as error:
        worst: Severity = "stop" if _wants_gradients(exam) else "warn"
        yield _no_gradient(worst, f"the outputs cannot be differentiated: {reason(error)}.")
        return
    pixels = grad.flatten(1)
    flat, broken = percent((pixels == 0).all(1)), percent(~pixels.isfinite().all(1))
    if flat + broken > 0:
        useless = flat + broken > 99.9 and _wants_gradients(exam)
        seen = f"the gradient of the winning margin is zero for {flat:.3g} % of {len(pixels)} images"
        yield _no_gradient("stop" if useless else "warn", f"{seen} and not finite for {broken:.3g} %.")


def _wants_gradients(exam: Exam) -> bool:
    """Whether an attack that is planned follows gradients; of attacks that nobody has named, most do."""
    runs = [run for spec in exam.case.attacks for _, run in plan_attack(spec).runs]
    return not runs or any(gradients(run, exam.classes) for run in runs)


def _no_gradient(severity: Severity, seen: str) -> Finding:
    return Finding(
        "input-gradients",
        severity,
        seen,
        "An attack that follows gradients stands still there, which looks like robustness and is not.",
        "Look for no_grad, detach, argmax, rounding or thresholds inside the network; replace them by a "
        "differentiable stand-in, or attack without gradients.",
    )


def class_count(exam: Exam) -> Iterator[Finding]:
    """As many outputs as the data has classes."""
    outputs, wanted = exam.classes, len(exam.case.data.classes)
    if outputs != wanted:
        yield Finding(
            "class-count",
            "stop" if outputs < wanted else "warn",
            f"the network has {outputs} outputs, {exam.case.data.name} has {wanted} classes.",
            "Images of classes without an output are always wrong."
            if outputs < wanted
            else "Extra outputs win images that no label can match, and may mean other classes altogether.",
            "Use a network for these classes, or the data that it was trained on.",
        )


def too_few_for_dlr(exam: Exam) -> Iterator[Finding]:
    """The DLR loss compares the first logit with the third, targeted also with the fourth."""
    dlr = [spec for spec in exam.case.attacks if USES_DLR in ATTACKS[parse_spec(spec)[0]].tags]
    if dlr and exam.classes < 4:
        yield Finding(
            "dlr-classes",
            "warn",
            f"{listed(dlr)} is planned, and the network has {exam.classes} outputs.",
            FEW_CLASSES,
            "Go on, or use attacks that need no third class, such as gama-pgd or apgd-ce.",
        )
