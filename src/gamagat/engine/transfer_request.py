"""A transfer in words: the networks and everything else that it names, looked up and looked at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from gamagat.data.core import Dataset, load_data
from gamagat.engine.checks import check_batch_size, check_door, check_images
from gamagat.engine.checkup.radius import eps_findings
from gamagat.engine.doctor import examine
from gamagat.engine.findings import Finding, worst_first
from gamagat.engine.plan import PlannedAttack, plan_attacks, read_threat
from gamagat.engine.quick.network import check_precision
from gamagat.engine.runtime import borrowed, choose_device, default_batch_size, fitted
from gamagat.engine.transfer import SOURCE, Transfer, called, naming, run_transfer
from gamagat.engine.watch import Onlooker
from gamagat.errors import ConfigError
from gamagat.models.core import check_weights, load_model
from gamagat.pieces.threat import ThreatModel, norm_named

FOLLOWED = {"input-gradients", "saturated-softmax"}  # what matters of a network whose gradients are followed


@dataclass(frozen=True, slots=True)
class TransferRequest:
    """What a user asks for; None leaves the choice to the data set or the machine."""

    source: str
    targets: tuple[str, ...]
    source_weights: Path | None = None
    target_weights: tuple[Path | None, ...] = ()
    data: str = "digits"
    data_dir: Path | None = None
    split: str = "test"
    n: int | None = None
    norm: str = "linf"
    eps: str | None = None
    attacks: tuple[str, ...] = ("fgsm", "pgd:steps=7")
    seed: int = 0
    batch_size: int | None = None
    device: str = "auto"
    precision: str = "auto"  # of attacks; the judges' is always single
    force: bool = False  # let networks through that return probabilities


@dataclass(frozen=True, slots=True)
class PreparedTransfer:
    """A request with every name looked up and every choice made."""

    request: TransferRequest
    networks: dict[str, nn.Module]  # by name, the source first
    data: Dataset
    threat: ThreatModel
    plan: tuple[PlannedAttack, ...]
    device: torch.device
    batch_size: int

    def check(self) -> list[tuple[str, Finding]]:
        """What the doctor says at a quick look, and of which networks; what cannot run at all is an error."""
        found: dict[Finding, list[str]] = {
            finding: [] for finding in eps_findings(self.threat, self.data, self.request.eps)
        }
        for name in self.networks:
            for finding in self._examined(name):
                found.setdefault(finding, []).append(self._called(name))
        return [(", ".join(found[finding]), finding) for finding in worst_first(found)]

    def _examined(self, name: str) -> list[Finding]:
        """What is said of one network; of a target nobody follows the gradients."""
        model, source = self.networks[name], name == next(iter(self.networks))
        with naming(self._called(name)), borrowed(model):
            check_door(fitted(model), self.data, self.device, self.request.force)
        attacks = [attack.name for attack in self.plan] if source else []
        found = examine(model, self.data, device=self.device, attacks=attacks, quick=True)
        return [finding for finding in found if source or finding.check not in FOLLOWED]

    def _called(self, name: str) -> str:
        return called(name, next(iter(self.networks)))

    def run(self, onlooker: Onlooker = Onlooker()) -> Transfer:
        """Make the images on the source and judge them on every network."""
        request = self.request
        return run_transfer(
            self.networks,
            self.data,
            self.threat,
            self.plan,
            self.device,
            self.batch_size,
            request.seed,
            onlooker,
            request.precision,
            request.force,
        )


def transfer(request: TransferRequest, onlooker: Onlooker = Onlooker()) -> Transfer:
    """Find everything, make the images on the source and judge them on every network."""
    return prepare_transfer(request).run(onlooker)


def prepare_transfer(request: TransferRequest) -> PreparedTransfer:
    """Find everything, cheapest first, so that mistakes show before anything runs."""
    names = _names(request.source, request.targets)
    check_batch_size(request.batch_size)
    device = choose_device(request.device)
    check_precision(request.precision, device)
    plan_attacks(request.attacks, None, norm=norm_named(request.norm))
    specs = dict(zip(names, (request.source, *request.targets), strict=True))
    files = dict(zip(names, _weights(request), strict=True))
    for name, spec in specs.items():
        with naming(called(name, names[0])):
            check_weights(spec, files[name])
    data = load_data(request.data, request.split, request.data_dir).head(request.n)
    check_images(*data.batch(torch.arange(min(16, len(data))), torch.device("cpu")))
    threat = read_threat(request.norm, request.eps, dict(data.eps))
    plan = plan_attacks(request.attacks, data.preset, norm=threat.norm)
    networks = {}
    for name, spec in specs.items():
        with naming(called(name, names[0])):
            model = load_model(spec, files[name], classes=len(data.classes), channels=data.shape[0])
        networks[name] = model.to(device)
    size = request.batch_size or default_batch_size(data.shape, device)
    return PreparedTransfer(request, networks, data, threat, plan, device, size)


def _weights(request: TransferRequest) -> list[Path | None]:
    """One file, or none, for the source and for each target."""
    given = request.target_weights
    if given and len(given) != len(request.targets):
        raise ConfigError(
            f"--target-weights is given {len(given)} times for {len(request.targets)} targets; "
            "give it once for each --target, in the same order, or not at all"
        )
    return [request.source_weights, *(given or [None] * len(request.targets))]


def _names(source: str, targets: Sequence[str]) -> list[str]:
    """What the networks are called; the same one with other weights gets a number."""
    if not targets:
        raise ConfigError("a transfer needs at least one network to judge the images; give --target MODEL")
    return [source + SOURCE] + [
        name if targets.count(name) == 1 else f"{name} #{targets[: place + 1].count(name)}"
        for place, name in enumerate(targets)
    ]
