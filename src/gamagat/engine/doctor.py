"""The doctor: look at a network and its data before any attack, and say what would spoil the numbers."""

from collections.abc import Sequence

import torch

from gamagat.data.core import Dataset, to_unit
from gamagat.engine.checkup.body import (
    changed_input,
    hooks,
    inference_weights,
    leftover_gradients,
    low_precision,
    train_mode,
    unsteady,
)
from gamagat.engine.checkup.care import named_parts, untouched
from gamagat.engine.checkup.exam import PROBE, Case, Check, Exam, answers, reason, spread, widened
from gamagat.engine.checkup.explain import chance_accuracy, mistaken_input
from gamagat.engine.checkup.idle import idle_findings
from gamagat.engine.checkup.outputs import (
    class_count,
    constant_output,
    input_gradients,
    probabilities,
    saturation,
    too_few_for_dlr,
    wrong_form,
)
from gamagat.engine.checkup.pixels import pixel_range
from gamagat.engine.checkup.radius import eps_findings
from gamagat.engine.checkup.reach import reach_findings
from gamagat.engine.findings import Finding, Severity, worst_first
from gamagat.engine.runtime import borrowed, fitted, full_precision
from gamagat.pieces.threat import ThreatModel
from gamagat.pieces.types import Images, Labels, Model

__all__ = ["Finding", "Severity", "examine"]

CHECKS: tuple[Check, ...] = (
    changed_input,
    unsteady,
    constant_output,
    probabilities,
    saturation,
    input_gradients,
    class_count,
    too_few_for_dlr,
    low_precision,
)


def examine(
    model: Model,
    data: Dataset,
    *,
    device: torch.device,
    threat: ThreatModel | None = None,
    attacks: Sequence[str] = (),
    quick: bool = False,
    eps_given: str | None = None,
) -> list[Finding]:
    """What is wrong with this network and this data, the worst first; neither is changed, nor is any state.

    `quick` looks at 32 images with a handful of passes. `attacks` are those that are to be run, as they were
    asked for.
    """
    found = list(eps_findings(threat, data, eps_given)) if threat else []
    found += [*reach_findings(attacks, data.preset), *idle_findings(attacks, data.preset)]
    if refused := list(inference_weights(model)):  # such a network cannot even be borrowed
        return worst_first(found + refused)
    with untouched(model) as kept:
        found += [*leftover_gradients(model), *hooks(model)]
        training = [part for _, part in named_parts(model) if part.training]
        with borrowed(model), full_precision(), torch.no_grad():
            found += train_mode(model, training)
            found += _with_images(Case(fitted(model), data, device, kept, tuple(attacks), quick))
    return worst_first(found)


def _with_images(case: Case) -> list[Finding]:
    """Read images; nothing is asked about images that cannot be used."""
    chosen = spread(case.data, case.quick)
    try:
        raw = case.data.read(chosen)
        found = list(pixel_range(raw))
    except Exception as error:
        return [_failure("data", f"reading {case.data.name}", error)]
    if any(finding.stops for finding in found):
        return found
    images, labels = to_unit(raw.to(case.device)), case.data.labels[chosen].to(case.device)
    return found + _with_network(case, images, labels)


def _with_network(case: Case, images: Images, labels: Labels) -> list[Finding]:
    """Ask the network for the first time; nothing more is asked of one that returns no logits."""
    first, rest = images[:PROBE], images[PROBE:]
    try:
        outputs = case.model(first.clone())
        found = list(wrong_form(outputs, len(first)))
        if not found and len(rest):
            outputs = torch.cat([outputs, answers(case.model, rest)])
            found = list(wrong_form(outputs, len(images)))
    except Exception as error:
        return [_failure("forward", "the network", error)]
    return found or _with_logits(Exam(case, images, labels, outputs, widened(outputs)))


def _with_logits(exam: Exam) -> list[Finding]:
    """All that asks the network again. Where accuracy has an explanation it comes first: it is the root."""
    found = [finding for check in CHECKS for finding in _guarded(check, exam)]
    if any(finding.stops and finding.check == "class-count" for finding in found):
        return found
    return (_guarded(mistaken_input, exam) or _guarded(chance_accuracy, exam)) + found


def _guarded(check: Check, exam: Exam) -> list[Finding]:
    """What a check finds; an error on the way is a finding, too."""
    try:
        return list(check(exam))
    except Exception as error:
        return [_failure(check.__name__.replace("_", "-"), "the network", error)]


def _failure(check: str, what: str, error: Exception) -> Finding:
    return Finding(
        check,
        "stop",
        f"{what} raised {reason(error)}.",
        "An evaluation would break at the same place, perhaps hours later.",
        "Call the network on a batch of these images by hand, and put the error right.",
    )
