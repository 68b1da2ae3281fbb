"""Whom a plot is about, in the few words that a title has room for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gamagat.engine.manifest import Manifest
from gamagat.engine.request import Prepared

NORMS = {"linf": "L∞", "l2": "L2"}


@dataclass(frozen=True, slots=True)
class About:
    """Whom a panel is about."""

    model: str
    data: str
    norm: str
    eps: str
    n: int

    @classmethod
    def run(cls, manifest: Manifest) -> About:
        model = with_weights(manifest.model, manifest.weights)
        return cls(model, manifest.data, manifest.norm, _eps(manifest.eps_given), manifest.n)

    @classmethod
    def prepared(cls, prepared: Prepared) -> About:
        request, threat = prepared.request, prepared.threat
        model = with_weights(request.model, request.weights)
        eps = _eps(request.eps or repr(threat.eps))
        return cls(model, prepared.data.name, threat.norm.name, eps, len(prepared.data))

    @property
    def subject(self) -> str:
        """Network and data, with the last part of what is a path."""
        return f"{self.model} on {_short(self.data)}"

    @property
    def threat(self) -> str:
        return f"{NORMS.get(self.norm, self.norm)}, ε = {self.eps}"

    def told(self, eps: bool = True) -> str:
        """All of it in one line."""
        norm = self.threat if eps else NORMS.get(self.norm, self.norm)
        return f"{self.subject}, {norm}, {self.n} images"

    @property
    def slug(self) -> str:
        return f"{self.model}-{_short(self.data)}"


def with_weights(model: str, weights: str | Path | None) -> str:
    """A network in a word or two: networks of one name are told apart by their weights.

    Trained ones are called alike, `model`, and have their name from their folder.
    """
    if not weights:
        return _short(model)
    file = Path(weights)
    return f"{_short(model)} ({file.parent.name if file.stem == 'model' and file.parent.name else file.stem})"


def _eps(given: str) -> str:
    return given if "/" in given else f"{float(given):.6g}"


def _short(words: str) -> str:
    kind, colon, rest = words.partition(":")
    if colon and "/" in rest:
        return f"{kind}:{Path(rest).name}"
    return Path(words).name if "/" in words else words
