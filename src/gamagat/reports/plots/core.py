"""The contract of plots: what is drawn is plain data first, which tests and other pages can use as well."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

from gamagat.engine.manifest import NAME as MANIFEST
from gamagat.engine.request import EvaluationRequest
from gamagat.engine.run import Run
from gamagat.engine.share import Share
from gamagat.engine.watch import Onlooker
from gamagat.errors import ConfigError, RunError
from gamagat.registry import Registry
from gamagat.reports.folders import run_in

KINDS = (".png", ".svg")
OTHER_KINDS = (".pdf", ".jpg", ".jpeg", ".eps", ".ps", ".gif", ".tif", ".tiff", ".webp", ".bmp")

Numbers = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Curve:
    """One line with a name; `low` and `high` are its band, empty if it has none."""

    label: str
    x: Numbers
    y: Numbers
    low: Numbers = ()
    high: Numbers = ()
    style: Literal["line", "steps", "path", "faint"] = "line"

    @classmethod
    def of_shares(cls, label: str, points: Iterable[tuple[float, Share]], style: Any = "line") -> Curve:
        """Accuracies in percent, with Wilson's intervals."""
        found = [(x, share) for x, share in points if share.of]
        return cls(
            label,
            tuple(float(x) for x, _ in found),
            tuple(share.percent for _, share in found),
            tuple(share.ci95[0] for _, share in found),
            tuple(share.ci95[1] for _, share in found),
            style,
        )


@dataclass(frozen=True, slots=True)
class Axis:
    """What is measured, its unit in the title, and how."""

    title: str
    scale: Literal["linear", "log", "symlog"] = "linear"
    ticks: Numbers = ()
    low: float | None = None
    high: float | None = None
    after: float | None = None  # what comes before this x may lie off the scale


@dataclass(frozen=True, slots=True)
class Mark:
    """A straight line across a panel, with a name: at one x, or at one y."""

    label: str
    at: float
    way: Literal["x", "y"] = "x"


@dataclass(frozen=True, slots=True)
class Panel:
    """Curves over one pair of axes."""

    title: str
    x: Axis
    y: Axis
    curves: tuple[Curve, ...]
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True, slots=True)
class Relief:
    """Heights over a plane, drawn as a surface and from above; a row for each y."""

    title: str
    x: Axis
    y: Axis
    height: str
    along: Numbers
    across: Numbers
    heights: tuple[Numbers, ...]
    edge: tuple[Numbers, ...] = ()  # where this crosses zero, a line is drawn
    edge_label: str = ""


@dataclass(frozen=True, slots=True)
class Picture:
    """All that a plot shows; `kind` and `about` name its files."""

    kind: str
    title: str
    panels: tuple[Panel | Relief, ...]
    about: str = ""
    note: str = ""
    columns: int = field(default=0)  # of panels; 0: as many as fit

    def as_json(self) -> dict[str, Any]:
        """The numbers of the plot; what is not a number is null."""
        content: dict[str, Any] = _plain(asdict(self))
        return content

    @property
    def name(self) -> str:
        """What its files are called where nobody says so."""
        return re.sub(r"[^\w.+]+", "-", f"{self.kind}-{self.about}").strip("-")[:80]


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@dataclass(frozen=True, slots=True)
class Subject:
    """What a plot is asked to show: folders or a model, and what the words around them say."""

    sources: tuple[str, ...]
    request: EvaluationRequest  # of a plot that runs a model; its attacks are empty if none were given
    onlooker: Onlooker = field(default_factory=Onlooker)

    def runs(self) -> list[Run]:
        """The runs in these folders; words that would change a run are refused."""
        folders = self.folders("the folder of a run", "gamagat evaluate MODEL --out DIR")
        return [run_in(folder) for folder in folders]

    def folders(self, what: str, makes: str) -> list[Path]:
        """The sources as folders, at least one; `makes` is the command that makes one of a model."""
        if not self.sources:
            raise ConfigError(f"this plot needs {what}, made by {makes}, got none")
        folders = {source: Path(source).expanduser() for source in self.sources}
        if missing := [source for source, folder in folders.items() if not folder.is_dir()]:
            raise ConfigError(
                f"this plot is made of {what}, and there is no folder {missing[0]}; "
                f"of a model, {makes} makes one"
            )
        if given := _changed(self.request):
            raise ConfigError(
                f"{' '.join(given)} changes nothing of what lies in {self.sources[0]}; leave it out, or "
                "give a model instead of a folder where the plot takes one"
            )
        return list(dict.fromkeys(folders.values()))

    @property
    def holds_runs(self) -> bool:
        """Whether the sources are folders of runs rather than a model."""
        return any((Path(source).expanduser() / MANIFEST).is_file() for source in self.sources)

    def model(self, *attacks: str, keeps: bool = False) -> EvaluationRequest:
        """The evaluation of the one model among the sources, with these attacks where none were given.

        A plot without attacks of its own takes none, and one that makes no runs cannot keep any.
        """
        if len(self.sources) != 1:
            raise ConfigError(
                f"this plot needs one model, got {' '.join(self.sources) or 'none'}; see: gamagat list models"
            )
        if self.request.out is not None and not keeps:
            raise ConfigError(
                f"--keep {self.request.out} is for plots that make runs, lambda and eps; leave it out"
            )
        if self.request.attacks and not attacks:
            raise ConfigError(
                f"this plot runs no attack, got --attack {self.request.attacks[0]}; leave it out"
            )
        return replace(self.request, model=self.sources[0], attacks=self.request.attacks or attacks)

    def nothing(self) -> None:
        """Refuse sources and words of a plot that needs none."""
        if given := [*self.sources, *_changed(self.request)]:
            raise ConfigError(f"this plot needs nothing to look at, got {' '.join(given)}; leave it out")


def _changed(request: EvaluationRequest) -> list[str]:
    """The options that were given and would change an evaluation."""
    plain = EvaluationRequest(request.model, attacks=())
    changed = [name for name in (item.name for item in fields(plain)) if _differs(request, plain, name)]
    words = {"attacks": "attack", "out": "keep"}
    return [f"--{words.get(name, name).replace('_', '-')}" for name in changed]


def _differs(one: EvaluationRequest, other: EvaluationRequest, name: str) -> bool:
    return bool(getattr(one, name) != getattr(other, name))


Plot = Callable[[Subject], Picture]
PLOTS: Registry[Plot] = Registry("plot", "gamagat.reports.plots")


def save(picture: Picture, out: Path | None = None) -> list[Path]:
    """Write the plot as PNG and SVG: to the file that `out` names, or under its own name into that folder."""
    from gamagat.reports.plots.paper.figure import write  # noqa: PLC0415 - matplotlib is slow to come

    stem = _stem(picture, out)
    try:
        stem.parent.mkdir(parents=True, exist_ok=True)
        files = [stem.with_name(stem.name + kind) for kind in KINDS]
        write(picture, files)
    except OSError as error:
        raise RunError(f"cannot write {stem}.png: {error.strerror or error}; give another --out") from None
    return files


def _stem(picture: Picture, out: Path | None) -> Path:
    if out is None:
        return Path(picture.name)
    if out.suffix.lower() in OTHER_KINDS and not out.is_dir():
        raise ConfigError(f"a plot is written as .png and .svg, got --out {out}; write {out.stem}.png")
    if out.suffix.lower() in KINDS and not out.is_dir():
        return out.with_suffix("")
    return out / picture.name


def check_out(out: Path | None) -> None:
    """Refuse a place that cannot be written to before anything runs."""
    stem = _stem(Picture("plot", "", ()), out)
    if next(parent for parent in stem.parents if parent.exists()).is_file():
        raise ConfigError(f"--out {out} lies below a file; give a folder or a file ending in .png")


def percent(title: str = "accuracy (%)", curves: Sequence[Curve] = (), after: float | None = None) -> Axis:
    """The axis of accuracies: from 0 to 100, or four points or more where curves keep to less than 30."""
    low, high = _reach(curves, after) or (0.0, 100.0)
    if not high - low < 30:
        return Axis(title, low=0.0, high=100.0, after=after)
    half = max(2.0, 0.52 * (high - low))
    middle = min(100 - half, max(half, (low + high) / 2))
    return Axis(title, low=middle - half, high=middle + half, after=after)


def spanned(title: str, curves: Sequence[Curve], after: float | None = None) -> Axis:
    """An axis from the least to the most that the curves reach; free where that is one value or none."""
    low, high = _reach(curves, after) or (None, None)
    if low == high:
        return Axis(title, after=after)
    return Axis(title, low=low, high=high, after=after)


def _reach(curves: Sequence[Curve], after: float | None) -> tuple[float, float] | None:
    """How far the curves go with their bands, from `after` on."""
    values = [
        value
        for curve in curves
        for line in (curve.y, curve.low, curve.high)
        for x, value in zip(curve.x, line, strict=False)
        if math.isfinite(value) and (after is None or x >= after)
    ]
    return (min(values), max(values)) if values else None


EPS_AXIS = "ε (pixels in [0, 1])"
