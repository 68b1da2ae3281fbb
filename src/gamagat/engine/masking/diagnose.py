"""Gradient masking, diagnosed: every check made, and one verdict."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from gamagat.engine.checks import check_door
from gamagat.engine.checkup.care import untouched
from gamagat.engine.manifest import weights_hash
from gamagat.engine.masking.black_box import only_square, square, standing_after_all, transfer
from gamagat.engine.masking.chance import randomness
from gamagat.engine.masking.exam import CHANCE, FULL, QUICK, Exam, Unfollowed, percent, reason_unfollowed
from gamagat.engine.masking.radii import large_eps, loss_rises
from gamagat.engine.masking.result import Check, Level, Result, Verdict, tempered, verdict
from gamagat.engine.masking.slopes import alignment, saturation, underflow, zero_gradients
from gamagat.engine.masking.squashing import squashing
from gamagat.engine.masking.strength import more_steps, restarts, single_step
from gamagat.engine.ranks import Ranks
from gamagat.engine.request import EvaluationRequest, Prepared, prepare
from gamagat.engine.runtime import borrowed, fitted
from gamagat.engine.watch import Onlooker
from gamagat.errors import ConfigError, ModelError
from gamagat.models.core import check_weights, load_model

CHECKS = (
    Check("zero-gradients", zero_gradients, of_attacks=False),
    Check("randomness", randomness, of_attacks=False),
    Check("saturation", saturation, of_attacks=False),
    Check("alignment", alignment, of_attacks=False),
    Check("single-step", single_step),
    Check("more-steps", more_steps),
    Check("restarts", restarts),
    Check("underflow", underflow),
    Check("squashing", squashing),
    Check("loss-rises", loss_rises, of_attacks=False),
    Check("large-eps", large_eps),
    Check("square", square),
    Check("only-square", only_square),
    Check("transfer", transfer),
)

NEVER = (
    "attacks written for this very defence (the backward pass replaced, means over random draws)",
    "other norms and other radii than this one, but for accuracy at large eps",
    "attacks that see only the decision, not the logits",
    "whether the network resists: a sound network may have no robust accuracy at all",
)
FEW = 100  # images below which a point is less than an image


@dataclass(frozen=True, slots=True)
class DiagnosisRequest:
    """What a user asks for: an evaluation's words, and a network to make transferred images on."""

    evaluation: EvaluationRequest
    source: str | None = None
    source_weights: Path | None = None
    quick: bool = False


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Every check and the verdict."""

    facts: Mapping[str, str]
    verdict: Verdict
    results: Mapping[str, Result]
    clean_accuracy: float
    robust_accuracy: float  # after all attacks of the diagnosis together
    unchecked: tuple[str, ...]
    subject: Mapping[str, Any]  # as in manifests: by it a report knows whether this is about the same run

    def as_json(self) -> dict[str, Any]:
        """The object that `gamagat diagnose --json` prints; accuracies in percent."""
        return {
            "verdict": self.verdict.value,
            **self.facts,
            **self.subject,
            "clean_accuracy": self.clean_accuracy,
            "robust_accuracy": self.robust_accuracy,
            "checks": [{"name": name, **result.as_json()} for name, result in self.results.items()],
            "not_checked": list(self.unchecked),
        }


def diagnose(request: DiagnosisRequest, onlooker: Onlooker = Onlooker()) -> Diagnosis:
    """Find everything the request names, make all checks, and decide."""
    if Ranks.here().count > 1:
        raise ConfigError("a diagnosis runs in one process; start it without torchrun")
    doses = QUICK if request.quick else FULL
    prepared = prepare(replace(request.evaluation, attacks=doses.specs()))
    source = _source(request, prepared)
    return examine_masking(prepared, source, request.quick, onlooker)


def _source(request: DiagnosisRequest, prepared: Prepared) -> torch.nn.Module | None:
    """The network that transferred images are made on."""
    if request.source is None:
        if request.source_weights is not None:
            raise ConfigError("--source-weights needs the network they are for; give it with --source MODEL")
        return None
    if request.source_weights is None:
        check_weights(request.source)
    data = prepared.data
    source = load_model(
        request.source, request.source_weights, classes=len(data.classes), channels=data.shape[0]
    ).to(prepared.device)
    with borrowed(source):
        check_door(fitted(source), data, prepared.device, force=True)
    return source


def examine_masking(
    prepared: Prepared,
    source: torch.nn.Module | None = None,
    quick: bool = False,
    onlooker: Onlooker = Onlooker(),
) -> Diagnosis:
    """All checks of one network; it is left as it was, and so is every random state."""
    model, request = prepared.model, prepared.request
    if len(prepared.data) <= CHANCE:  # thresholds would be 100 points and more, which nothing exceeds
        raise ConfigError(
            f"a diagnosis needs more than {CHANCE} images, as many may fall by chance; got "
            f"{len(prepared.data)}, give --n {FEW} or more"
        )
    with ExitStack() as stack:
        for one in (model, source):
            if one is not None:
                stack.enter_context(untouched(one))
                stack.enter_context(borrowed(one))
        torch.manual_seed(request.seed % (1 << 63))  # what a network draws for itself
        check_door(fitted(model), prepared.data, prepared.device, request.force)
        images, _ = prepared.data.batch(torch.arange(min(16, len(prepared.data))), prepared.device)
        cut = reason_unfollowed(model, images)
        attacked = Unfollowed(model) if cut else model
        exam = Exam(prepared, attacked, QUICK if quick else FULL, source, cut, onlooker)
        return _diagnosis(exam)


def _diagnosis(exam: Exam) -> Diagnosis:
    clean = percent(exam.right())
    if clean == 0:
        raise ModelError(
            f"the network gets none of {exam.count} images right, so that there is nothing to attack; "
            "see what gamagat doctor says of it"
        )
    results = {check.name: check.ask(exam) for check in CHECKS}
    if results["randomness"].level is not Level.FINE:
        doubtful = [check.name for check in CHECKS if check.of_attacks]
        results |= {name: tempered(results[name]) for name in doubtful}
    return Diagnosis(
        facts=exam.facts(),
        verdict=verdict({name: result.level for name, result in results.items()}),
        results=results,
        clean_accuracy=clean,
        robust_accuracy=percent(standing_after_all(exam)),
        unchecked=tuple(_unchecked(exam, results)),
        subject={
            "weights_sha256": weights_hash(exam.prepared.model),
            "norm": exam.threat.norm.name,
            "eps": exam.threat.eps,
        },
    )


def _unchecked(exam: Exam, results: Mapping[str, Result]) -> list[str]:
    """What nobody should read out of the verdict."""
    missing = [
        f"{name}: {result.seen}. {result.do}"
        for name, result in results.items()
        if result.level is Level.UNCHECKED
    ]
    few = [f"small differences: {exam.count} images are few, give at least {FEW}"] if exam.count < FEW else []
    short = ["what longer attacks find: --quick takes fewer steps and queries"] if exam.doses is QUICK else []
    return [*missing, *few, *short, *NEVER]
