"""An evaluation in words: all that is needed to make it, and to make it again."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from gamagat.data.core import Dataset
from gamagat.engine.budget import spec_for_budget
from gamagat.engine.checks import check_batch_size, check_door
from gamagat.engine.doctor import Finding, examine
from gamagat.engine.evaluate import INTERRUPTED, Words, evaluate
from gamagat.engine.places import data_in_full, model_in_full
from gamagat.engine.plan import PlannedAttack, plan_attacks, read_threat
from gamagat.engine.quick.network import check_precision
from gamagat.engine.ranks import Ranks
from gamagat.engine.results import Evaluation
from gamagat.engine.run import Run, read_run
from gamagat.engine.runtime import borrowed, choose_device, default_batch_size, fitted
from gamagat.engine.training.splits import HELD, load_split
from gamagat.engine.watch import Onlooker
from gamagat.errors import RunError
from gamagat.models.core import check_weights, load_model
from gamagat.models.loading.card import read_card
from gamagat.models.loading.zoo import is_zoo
from gamagat.pieces.threat import LINF, ThreatModel, norm_named


@dataclass(frozen=True, slots=True)
class EvaluationRequest:
    """What a user asks for; None leaves the choice to the data set or the machine."""

    model: str
    weights: Path | None = None
    data: str | None = None  # of a trained network, the data it was trained on; else the built-in digits
    data_dir: Path | None = None
    split: str = "test"
    n: int | None = None
    norm: str | None = None  # of a trained network, the norm it was trained for; else linf
    eps: str | None = None
    attacks: tuple[str, ...] = ("gama-pgd",)
    restarts: int = 1
    seed: int = 0
    batch_size: int | None = None
    device: str = "auto"
    out: Path | None = None
    max_seconds: float | None = None
    force: bool = False
    precision: str = "auto"  # of attacks; the judge's is always single


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request with every name looked up and every choice made."""

    request: EvaluationRequest
    model: torch.nn.Module
    data: Dataset
    threat: ThreatModel
    plan: tuple[PlannedAttack, ...]
    device: torch.device
    batch_size: int

    def facts(self) -> dict[str, str]:
        """All that is used, as it is printed."""
        request = self.request
        given = f"{request.eps} = " if "/" in (request.eps or "") else ""
        held = " held out of the training's" if request.split == HELD else ""
        return {
            "model": request.model + (f" with {request.weights}" if request.weights else ""),
            "data": f"{self.data.name}, {len(self.data)} images{held}, {len(self.data.classes)} classes",
            "threat": f"{self.threat.norm.name}, eps {given}{self.threat.eps:.6g}{self._why()}",
            **{f"attack {number}": attack.spec for number, attack in enumerate(self.plan, start=1)},
            "run": f"seed {request.seed}, batch {self.batch_size}, {self.device}, torch {torch.__version__}, "
            f"precision {request.precision}",
        }

    def _why(self) -> str:
        """Where the radius comes from, in brackets, if that is known."""
        card, threat = read_card(self.request.model), self.threat
        if card is not None and (card.get("norm"), card.get("eps")) == (threat.norm.name, threat.eps):
            return " (as it was trained for)"
        return " (usual for the data)" if self.request.eps is None else ""

    def examine(self, quick: bool) -> list[Finding]:
        """What the doctor says of the network and the data."""
        return examine(
            self.model,
            self.data,
            device=self.device,
            threat=self.threat,
            attacks=[attack.name for attack in self.plan],
            quick=quick,
            eps_given=self.request.eps,
        )

    def check(self) -> list[Finding]:
        """A quick look before an evaluation; what cannot be evaluated at all is an error."""
        with borrowed(self.model):
            check_door(fitted(self.model), self.data, self.device, self.request.force)
        return self.examine(quick=True)

    def run(self, onlooker: Onlooker = Onlooker()) -> Evaluation:
        """Make the evaluation, or go on with it."""
        request = self.request
        return evaluate(
            self.model,
            self.data,
            self.threat,
            self.plan,
            device=self.device,
            batch_size=self.batch_size,
            seed=request.seed,
            onlooker=onlooker,
            words=Words(
                model=request.model,
                weights=None if request.weights is None else str(request.weights.absolute()),
                data=request.data,
                data_dir=None if request.data_dir is None else str(request.data_dir.absolute()),
                split=request.split,
                eps=request.eps,
            ),
            out=request.out,
            max_seconds=request.max_seconds,
            force=request.force,
            precision=request.precision,
        )


def completed(request: EvaluationRequest) -> EvaluationRequest:
    """What a request leaves open, as the card of a trained network says it."""
    card = read_card(request.model)
    if card is None:
        data, norm = data_in_full(request.data or "digits"), request.norm or LINF.name
        return replace(request, model=model_in_full(request.model), data=data, norm=norm)
    norm, eps = request.norm or str(card.get("norm") or LINF.name), request.eps
    if eps is None and request.data is None and card.get("norm") == norm_named(norm).name:
        eps = repr(card.get("eps"))
    own = request.data is None and request.split == "test"
    split = str(card.get("split") or "test") if own else request.split
    # A name of the zoo means the same everywhere; a folder is to be found again from any other.
    model = request.model if is_zoo(request.model) else str(card.folder.absolute())
    data = data_in_full(str(request.data or card.get("data")))
    return replace(request, model=model, data=data, split=split, norm=norm, eps=eps)


def prepare(request: EvaluationRequest) -> Prepared:
    """Find everything, cheapest first, so that mistakes show before anything runs."""
    request = completed(request)
    norm = norm_named(str(request.norm))
    check_batch_size(request.batch_size)
    device = Ranks.here().device(choose_device(request.device))
    check_precision(request.precision, device)
    plan_attacks(request.attacks, None, request.restarts, norm)
    check_weights(request.model, request.weights)
    data = load_split(str(request.data), request.split, request.data_dir).head(request.n)
    threat = read_threat(norm.name, request.eps, dict(data.eps))
    plan = plan_attacks(request.attacks, data.preset, request.restarts)
    model = load_model(request.model, request.weights, classes=len(data.classes), channels=data.shape[0])
    size = default_batch_size(data.shape, device) if request.batch_size is None else request.batch_size
    return Prepared(request, model.to(device), data, threat, plan, device, size)


def run_at_budget(request: EvaluationRequest, budget: int, onlooker: Onlooker = Onlooker()) -> Run:
    """Evaluate the attacks, each planned for so many gradient evaluations per image."""
    request = completed(request)
    data = load_split(str(request.data), request.split, request.data_dir)
    specs = tuple(spec_for_budget(spec, budget, data.preset, len(data.classes)) for spec in request.attacks)
    with tempfile.TemporaryDirectory(prefix="gamagat-") as name:
        folder = request.out or Path(name)
        stopped = prepare(replace(request, attacks=specs, out=folder)).run(onlooker).stopped
        if stopped == INTERRUPTED:
            raise KeyboardInterrupt  # some attacks have seen more images than others
        if stopped:
            raise RunError(f"stopped: {stopped}; with --out DIR the same command goes on from there")
        return read_run(folder)
