"""Other packages' loops, each made to take the same eps, steps and step size; none of them is needed."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

import torch
from torch import nn

from gamagat.errors import ConfigError
from gamagat.pieces.types import Images, Labels

Loop = Callable[[Images, Labels], Images]  # a batch to its adversarial images


class Budget(NamedTuple):
    """What everyone is given."""

    eps: float
    steps: int
    rate: float  # the step size, in eps
    classes: int
    shape: tuple[int, ...]
    batch_size: int
    device: torch.device
    seed: int = 0


class Peer(NamedTuple):
    """A loop of another package."""

    name: str
    packages: tuple[str, ...]  # any of them offers it
    make: Callable[[Any, nn.Module, Budget], Loop]

    def loop(self, model: nn.Module, budget: Budget) -> Loop:
        """The loop for this network; an error in words where the package is not to be had."""
        return self.make(package_of(self.packages), model, budget)


def package_of(names: tuple[str, ...]) -> Any:
    """The first of these packages that is installed."""
    # foolbox imports GitPython for its zoo, and that refuses to be imported where there is no git.
    os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")
    reasons = []
    for name in names:
        try:
            return import_module(name)
        except ModuleNotFoundError as error:
            missing = error.name or name
            own = missing.partition(".")[0] == name.partition(".")[0]
            reasons.append(f"{name} is not installed" if own else f"{name} needs {missing}")
        except Exception as error:  # a package that breaks on import is as good as none
            reasons.append(f"{name} cannot be imported: {' '.join(str(error).split())[:120]}")
    raise ConfigError(f"{' and '.join(reasons)}; pip install 'gamagat[bench]'")


def _torchattacks(package: Any, model: nn.Module, budget: Budget) -> Loop:
    size = budget.rate * budget.eps
    loop: Loop = package.PGD(model, eps=budget.eps, alpha=size, steps=budget.steps)
    return loop


def _foolbox(package: Any, model: nn.Module, budget: Budget) -> Loop:
    wrapped = package.PyTorchModel(model, bounds=(0, 1), device=budget.device)
    attack = package.attacks.LinfPGD(rel_stepsize=budget.rate, steps=budget.steps, random_start=True)
    # `run` is the loop alone; to call the attack would add a look at what it made.
    return lambda x, y: attack.run(wrapped, x, package.criteria.Misclassification(y), epsilon=budget.eps)


def _art(package: Any, model: nn.Module, budget: Budget) -> Loop:
    classifier = import_module("art.estimators.classification").PyTorchClassifier(
        model=model,
        loss=nn.CrossEntropyLoss(),
        input_shape=budget.shape,
        nb_classes=budget.classes,
        clip_values=(0.0, 1.0),
        device_type="gpu" if budget.device.type == "cuda" else "cpu",
    )
    attack = package.ProjectedGradientDescent(
        estimator=classifier,
        eps=budget.eps,
        eps_step=budget.rate * budget.eps,
        max_iter=budget.steps,
        num_random_init=1,
        batch_size=budget.batch_size,
        verbose=False,
    )
    return lambda x, y: torch.from_numpy(attack.generate(x.cpu().numpy(), y.cpu().numpy())).to(x.device)


def _autoattack(package: Any, model: nn.Module, budget: Budget) -> Loop:
    """Auto-PGD on the cross-entropy, which chooses its step sizes itself; it leaves out wrong images."""
    logging.getLogger("auto-attack").setLevel(logging.ERROR)
    attack = package.APGDAttack(
        model,
        n_iter=budget.steps,
        norm="Linf",
        n_restarts=1,
        eps=budget.eps,
        seed=budget.seed,
        loss="ce",
        device=budget.device,
    )
    loop: Loop = attack.perturb
    return loop


PEERS = (
    Peer("torchattacks PGD", ("torchattacks",), _torchattacks),
    Peer("foolbox LinfPGD", ("foolbox",), _foolbox),
    Peer("ART PGD", ("art.attacks.evasion",), _art),
    Peer("AutoAttack APGD-CE", ("pyautoattack.autopgd_base", "autoattack.autopgd_base"), _autoattack),
)
