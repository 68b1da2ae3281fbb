"""All that a report says about one run or several, before it is written in any form."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gamagat.engine.compare import Comparison, Pair, compare_runs
from gamagat.engine.results import Evaluation, summarize
from gamagat.engine.run import Run
from gamagat.errors import ConfigError, RunError
from gamagat.reports.comparison import comparison_lines, in_order, shared_plan
from gamagat.reports.folders import run_in
from gamagat.reports.page.charts import Chart, charts, class_chart
from gamagat.reports.page.classes import ClassRow, class_rows
from gamagat.reports.page.diagnosis import DiagnosisPart, read_diagnosis
from gamagat.reports.page.gallery import BYTES, MOST, Gallery, make_gallery
from gamagat.reports.page.originals import Originals, find_originals
from gamagat.reports.page.rows import Row, rows, sentence
from gamagat.reports.page.settings import command, diagnose_command, settings
from gamagat.reports.page.svg import percent_axis
from gamagat.reports.page.words import eps_words


@dataclass(frozen=True, slots=True)
class RunPart:
    """One run: its numbers, and what they are made from."""

    name: str  # the folder as it was given
    run: Run
    result: Evaluation
    rows: list[Row]
    classes: list[ClassRow]
    originals: Originals | str
    diagnosis: DiagnosisPart | None

    @property
    def sentence(self) -> str:
        return sentence(self.result)

    @property
    def command(self) -> str:
        return command(self.run)

    @property
    def diagnose(self) -> str:
        return diagnose_command(self.run)

    @property
    def verify(self) -> str:
        return shlex.join(["gamagat", "verify", self.name])

    @property
    def settings(self) -> list[tuple[str, str]]:
        return settings(self.run)

    @property
    def tried(self) -> int:
        """The attacks that any image is through with."""
        return sum(attack.standing.of > 0 for attack in self.result.attacks)

    @property
    def scale(self) -> tuple[float, float] | None:
        """A range that holds the intervals of all rows; None if no row has one."""
        ends = [end for row in self.rows if row.share.of for end in row.share.ci95]
        return percent_axis(ends)[0] if ends else None

    @property
    def charts(self) -> list[Chart]:
        return charts(self.run, self.result)

    @property
    def class_chart(self) -> Chart | None:
        return class_chart(self.classes)

    def gallery(self, parts: int) -> Gallery:
        """Examples; the more runs share a page, the fewer each has."""
        return make_gallery(self.run, self.originals, max(1, MOST // parts), BYTES // parts)


@dataclass(frozen=True, slots=True)
class Paired:
    """Another run against the first, image by image, or in a sentence why they cannot be compared."""

    a: str
    b: str
    comparison: Comparison | None
    lines: tuple[str, ...]
    pairs: tuple[tuple[str, Pair], ...] = ()  # under their names, the one to look at first in front
    same_attacks: bool = False  # whether the worst cases can be compared


@dataclass(frozen=True, slots=True)
class Content:
    """Runs in the order given, and every later one against the first."""

    runs: tuple[RunPart, ...]
    pairs: tuple[Paired, ...]

    @property
    def title(self) -> str:
        first = self.runs[0].result
        if len(self.runs) > 1:
            return f"{len(self.runs)} runs compared"
        return f"{first.model} on {first.data}, {first.norm} {eps_words(first.eps)}"


def gather(folders: Sequence[Path], data_dir: Path | None = None) -> Content:
    """Read the run folders and everything that belongs to them."""
    if not folders:
        raise ConfigError("a report needs at least one run folder; give the folder of evaluate --out")
    where = [folder.resolve() for folder in folders]
    for folder, place in zip(folders, where, strict=True):
        if where.count(place) > 1:
            raise ConfigError(f"the run folder {folder} is given twice; give every run once")
    parts = tuple(_part(folder, data_dir) for folder in folders)
    return Content(parts, tuple(_paired(parts[0].run, part.run) for part in parts[1:]))


def _part(folder: Path, data_dir: Path | None) -> RunPart:
    run = run_in(folder)
    result, originals = summarize(run), find_originals(run, data_dir)
    found = class_rows(run, originals)
    diagnosis = read_diagnosis(folder, run.manifest)
    return RunPart(str(folder), run, result, rows(run, result), found, originals, diagnosis)


def _paired(a: Run, b: Run) -> Paired:
    names = str(a.folder), str(b.folder)
    try:
        comparison, plan = compare_runs(a, b), shared_plan(a, b)
    except RunError as error:
        return Paired(*names, None, (str(error),))
    same = plan.same and comparison.worst is not None
    named = (f"A: {names[0]}", f"B: {names[1]}")  # the heading says so
    lines = tuple(line for line in comparison_lines(comparison, plan) if line not in named)
    return Paired(*names, comparison, lines, tuple(in_order(comparison, plan)), same)
