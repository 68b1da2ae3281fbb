"""The numbers of a report as Markdown and as CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence

from gamagat.engine.compare import Pair
from gamagat.engine.share import Share
from gamagat.reports.page.content import Content, Paired, RunPart
from gamagat.reports.page.diagnosis import DiagnosisPart
from gamagat.reports.page.rows import Row
from gamagat.reports.page.words import folded, interval, percent, plain
from gamagat.reports.unfinished import so_far, unfinished_words

COLUMNS = (
    "run", "model", "data", "norm", "eps", "kind", "name", "spec", "correct", "images", "accuracy",
    "ci95_low", "ci95_high", "forwards", "backwards", "seconds", "fooled", "mean_distance", "median_distance",
    "fooled_alone",
)  # fmt: skip
HEADINGS = (
    "attack",
    "accuracy %",
    "95 % interval",
    "forwards",
    "backwards",
    "seconds",
    "fooled alone",
    "mean distance",
    "median",
)
PAIRED = (
    "images",
    "A %",
    "B %",
    "A - B",
    "95 % interval",
    "A alone",
    "B alone",
    "McNemar p",
    "images needed",
)


def as_csv(content: Content) -> str:
    """One line for each accuracy, with every digit; classes after the worst case of their run."""
    out = io.StringIO()
    lines = csv.writer(out, lineterminator="\n")
    lines.writerow(COLUMNS)
    for part in content.runs:
        result = part.result
        about = (part.name, result.model, result.data, result.norm, repr(result.eps))
        for row in part.rows:
            costs = (row.forwards, row.backwards, row.seconds, row.fooled, row.mean, row.median, row.alone)
            lines.writerow((*about, row.kind, row.name, row.spec, *_digits(row.share), *map(_exact, costs)))
        for found in part.classes:
            for kind, share in (("class clean", found.clean), ("class worst case", found.worst)):
                lines.writerow((*about, kind, found.name, "", *_digits(share), *[""] * 7))
    return out.getvalue()


def _digits(share: Share) -> tuple[str, ...]:
    known = (share.percent, *share.ci95) if share.of else (None, None, None)
    return (str(share.count), str(share.of), *map(_exact, known))


def _exact(value: float | None) -> str:
    return "" if value is None else repr(value)


def as_markdown(content: Content) -> str:
    """Headline, tables and settings; pictures are left to the page."""
    parts = [f"# {escape(content.title)}\n"]
    for pair in content.pairs:
        parts += _pair_parts(pair)
    for part in content.runs:
        parts += _run_parts(part)
    return "\n".join(parts)


def _run_parts(part: RunPart) -> Iterator[str]:
    result = part.result
    yield f"## {escape(part.name)}\n"
    yield f"{escape(part.sentence)}\n"
    if result.unfinished:
        yield f"Unfinished: {escape(unfinished_words(result))}.\n"
    yield table(HEADINGS, [_cells(row, result.n) for row in part.rows])
    if part.classes:
        cells = [(row.name, percent(row.clean), percent(row.worst), row.images) for row in part.classes]
        yield "### Classes\n"
        yield table(("class", "clean %", "worst case %", "images"), cells)
    yield "### Gradient masking\n"
    yield from _diagnosis_parts(part.diagnosis) if part.diagnosis else _unchecked(part)
    yield "### Settings\n"
    yield table(("setting", "value"), part.settings)
    yield "### Reproduce\n"
    yield _block(part.command)


def _block(command: str) -> str:
    """A command to copy, whatever is in it."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", command)), default=0))
    return f"{fence}\n{folded(command)}\n{fence}\n"


def _unchecked(part: RunPart) -> Iterator[str]:
    yield "Not checked: masked gradients would make the network look more robust than it is. To check it:\n"
    yield _block(part.diagnose)


def _diagnosis_parts(found: DiagnosisPart) -> Iterator[str]:
    if found.verdict:
        yield f"**{escape(found.verdict)}**: {escape(found.meaning)}\n"
    yield table(("what", "found"), found.lines)
    if found.checks:
        headings = [heading for heading, _ in found.checks[0].lines]
        cells = [(each.name, each.level, *(words for _, words in each.lines)) for each in found.checks]
        yield table(("check", "level", *headings), cells)
    if found.unchecked:
        yield "Not checked:\n"
        yield "".join(f"- {escape(words)}\n" for words in found.unchecked)


def _cells(row: Row, count: int) -> tuple[str, ...]:
    """One line of a run, which has so many images."""
    name = row.name + (f" ({plain(row.fooled, ',d')} fooled)" if row.kind == "member" else "")
    costs = (plain(row.forwards), plain(row.backwards), plain(row.seconds))
    return (
        name + so_far(row.share, count),
        percent(row.share),
        interval(row.share),
        *costs,
        plain(row.alone, ",d"),
        plain(row.mean, ".4g"),
        plain(row.median, ".4g"),
    )


def _pair_parts(pair: Paired) -> Iterator[str]:
    yield f"## {escape(pair.a)} (A) against {escape(pair.b)} (B)\n"
    yield "\n".join(f"- {escape(line)}" for line in pair.lines) + "\n"
    if pair.comparison is not None:
        yield table(("attack", *PAIRED), [(name, *pair_cells(each)) for name, each in pair.pairs])


def pair_cells(pair: Pair) -> tuple[str, ...]:
    """One line of a comparison, without its name."""
    low, high = pair.ci95
    return (
        f"{pair.images:,}", f"{pair.a.percent:.2f}", f"{pair.b.percent:.2f}", f"{pair.points:+.2f}",
        f"{low:+.2f} to {high:+.2f}", f"{pair.only_a:,}", f"{pair.only_b:,}", f"{pair.p_value:.3g}",
        "-" if pair.needed is None else f"{pair.needed:,}",
    )  # fmt: skip


def table(headings: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table with bars; every cell is text and nothing else."""
    rows_ = [headings, ["---"] * len(headings), *([escape(cell) for cell in line] for line in lines)]
    return "".join("| " + " | ".join(cells) + " |\n" for cells in rows_)


def escape(text: str) -> str:
    """Text that Markdown shows as it is: neither markup nor HTML nor the end of a cell."""
    return re.sub(r"([\\`*_{}\[\]<>|#~&])", r"\\\1", " ".join(text.split()))
