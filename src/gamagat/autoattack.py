"""AutoAttack with the calling convention that people know from its authors' package."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from gamagat.api import ReadyAttack, whole
from gamagat.attacks.combine import InTurn
from gamagat.attacks.core import ATTACKS, USES_DLR, Attack
from gamagat.attacks.network import Network
from gamagat.engine.checks import check_batch_size, check_images, check_labels, check_model
from gamagat.engine.judge import judge, predict
from gamagat.engine.plan import read_threat
from gamagat.engine.runtime import borrowed, device_of, fitted, own_dice, uncast
from gamagat.errors import ConfigError
from gamagat.pieces.types import Images, Labels, Mask, Scores

NAMES = ("apgd-ce", "apgd-dlr", "apgd-t", "fab", "fab-t", "square")
MAY_STOP = ("fab", "fab-t")


class AutoAttack:
    """`AutoAttack(model, norm="Linf", eps=8/255).run_standard_evaluation(x, y, bs=250)`.

    `version` is standard, v1, rand, or custom with `attacks_to_run` by name. Unlike the original, no result
    depends on `bs` or on the caller's random state, and every success is judged again in single precision.
    """

    def __init__(
        self,
        model: Callable[[Images], Scores],
        norm: str = "Linf",
        eps: float | str = 8 / 255,
        seed: int | None = 0,
        verbose: bool = True,
        attacks_to_run: Sequence[str] = (),
        version: str = "standard",
        device: Any = None,
        log_path: str | Path | None = None,
    ) -> None:
        """`device` is where the model is, whatever is said; what is told goes to `log_path`, too."""
        del device
        self.log_path = None if log_path is None else Path(log_path)
        self.model, self.threat = model, read_threat(norm, eps)
        self.seed, self.verbose = whole(seed or 0, "seed"), verbose
        self.members = _chosen(attacks_to_run) if version == "custom" else _version(version, attacks_to_run)

    @property
    def attacks_to_run(self) -> list[str]:
        """The names of the attacks, in order; another list may be put in its place, as in the original."""
        return [name for name, _ in self.members]

    @attacks_to_run.setter
    def attacks_to_run(self, names: Sequence[str]) -> None:
        known = dict(self.members)
        self.members = [(name, known.get(name) or attack) for name, attack in _chosen(names)]

    def run_standard_evaluation(
        self, x_orig: Images, y_orig: Labels, bs: int = 250, return_labels: bool = False
    ) -> Any:
        """The images after all attacks, each on what is still standing; robust ones come back as they were.

        With `return_labels` the classes the network gives them come, too. Images of less than single
        precision come back in single: rounded, they would leave the ball.
        """
        with own_dice(self.seed + 1):
            return self._evaluated(x_orig, y_orig, bs, return_labels)

    def _evaluated(self, x_orig: Images, y_orig: Labels, bs: int, return_labels: bool) -> Any:
        x = self._admitted(x_orig, y_orig, bs)
        images, standing = x.clone(), ~self._fooled(x, x, y_orig, bs)
        began = perf_counter()
        self._say(f"initial accuracy: {_percent(standing)}")
        for name, attack in self.members:
            if not bool(standing.any()):
                break
            alive = standing.nonzero().squeeze(1)
            found = self._attacked(name, attack, x[alive], y_orig[alive], alive, bs)
            fooled = self._fooled(found, x[alive], y_orig[alive], bs)
            images[alive[fooled]] = found[fooled]
            standing[alive[fooled]] = False
            self._say(
                f"robust accuracy after {name}: {_percent(standing)} ({int(fooled.sum())} of {len(alive)} "
                f"fooled, {perf_counter() - began:.1f} s in all)"
            )
        return (images, self._judged(images, x, y_orig, bs)[1]) if return_labels else images

    def run_standard_evaluation_individual(
        self, x_orig: Images, y_orig: Labels, bs: int = 250
    ) -> dict[str, Images]:
        """The images after each attack by itself."""
        with own_dice(self.seed + 1):
            return self._one_by_one(x_orig, y_orig, bs)

    def _one_by_one(self, x_orig: Images, y_orig: Labels, bs: int) -> dict[str, Images]:
        result, x = {}, self._admitted(x_orig, y_orig, bs)
        right = ~self._fooled(x, x, y_orig, bs)
        for name, attack in self.members:
            images, alive = x.clone(), right.nonzero().squeeze(1)
            if len(alive):
                images[alive] = self._attacked(name, attack, x[alive], y_orig[alive], alive, bs)
            left = right & ~self._fooled(images, x, y_orig, bs)
            self._say(f"robust accuracy by {name}: {_percent(left)}")
            result[name] = images
        return result

    def clean_accuracy(self, x_orig: Images, y_orig: Labels, bs: int = 250) -> float:
        """The share of images that the network classifies correctly, from 0 to 1."""
        with own_dice(self.seed + 1):
            x = self._admitted(x_orig, y_orig, bs)
            return 1 - float(self._fooled(x, x, y_orig, bs).double().mean())

    def _admitted(self, x: Images, y: Labels, bs: int) -> Images:
        """The images in single precision at least, once they, their labels and the network are looked at."""
        check_batch_size(bs)
        check_images(x, y)
        x = x.detach().to(torch.promote_types(x.dtype, torch.float32))
        with borrowed(self.model), uncast():
            first = x[: min(bs, 16)].to(device_of(self.model) or x.device).float()
            check_labels(y.long(), check_model(fitted(self.model), first))
        return x

    def _attacked(self, name: str, attack: Attack, x: Images, y: Labels, ids: Labels, bs: int) -> Images:
        uses_dlr = USES_DLR in ATTACKS[name].tags
        # The judge's own look: what fell in TF32 alone would leave, and then count as standing.
        ready = ReadyAttack(attack, self.model, self.threat, self.seed, bs, uses_dlr, predict)
        return ready(x, y, ids)

    def _fooled(self, images: Images, x: Images, y: Labels, bs: int) -> Mask:
        return self._judged(images, x, y, bs)[0]

    def _judged(self, images: Images, x: Images, y: Labels, bs: int) -> tuple[Mask, Labels]:
        device = device_of(self.model) or x.device
        parts = []
        with borrowed(self.model):
            network = Network(fitted(self.model), bs)
            for first in range(0, len(x), bs):
                part = slice(first, first + bs)
                made, clean = (batch[part].to(device).float() for batch in (images, x))
                parts.append(
                    judge(network, made, clean, y[first : first + bs].to(device).long(), self.threat)
                )
        fooled, classes = (torch.cat([part[field] for part in parts]).to(x.device) for field in (0, 1))
        return fooled, classes

    def _say(self, words: str) -> None:
        if self.verbose:
            print(words, flush=True)
        if self.log_path is not None:
            with self.log_path.open("a") as log:
                log.write(words + "\n")


def _version(name: str, unused: Sequence[str]) -> list[tuple[str, Attack]]:
    if unused:
        raise ConfigError(f"attacks_to_run is for version='custom' alone, got version={name!r}")
    suite = ATTACKS.make("autoattack", version=name)
    assert isinstance(suite, InTurn)
    return [(suffix.removeprefix(">"), attack) for suffix, attack in suite.members]


def _chosen(names: Sequence[str]) -> list[tuple[str, Attack]]:
    if not names or not set(names) <= set(NAMES):
        raise ConfigError(
            f"version='custom' needs attacks_to_run with some of {', '.join(NAMES)}; got {list(names)}"
        )
    # FAB would go on beyond eps, and what it finds there is not asked for.
    return [
        (name, ATTACKS.make(name, stop=True) if name in MAY_STOP else ATTACKS.make(name)) for name in names
    ]


def _percent(standing: Mask) -> str:
    return f"{100 * float(standing.double().mean()):.2f} %"
