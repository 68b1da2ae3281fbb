"""What `gamagat diagnose` left in the run folder about gradient masking; of another form, a plain table."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gamagat.engine.manifest import Manifest
from gamagat.engine.masking.result import Level, Verdict
from gamagat.reports.diagnosis import DECISIVE, VERDICTS
from gamagat.reports.folders import DIAGNOSIS

MOST = 400  # lines of a plain table
SUBJECT = {"weights_sha256": "weights", "norm": "norm", "eps": "eps"}  # that run and diagnosis have in common
Line = tuple[str, str]


@dataclass(frozen=True, slots=True)
class CheckPart:
    """One check: its level, and under a heading each what was seen, the threshold, meaning and next step."""

    name: str
    level: str
    lines: tuple[Line, ...]

    @property
    def style(self) -> str:
        """The level as a name in the style sheet."""
        return self.level.replace(" ", "-")


@dataclass(frozen=True, slots=True)
class DiagnosisPart:
    """A diagnosis as the page shows it; one that cannot be read so has nothing but `lines`."""

    lines: tuple[Line, ...]  # whom it is about, or everything as names and values
    verdict: str = ""
    meaning: str = ""
    checks: tuple[CheckPart, ...] = ()
    unchecked: tuple[str, ...] = ()


def read_diagnosis(folder: Path, manifest: Manifest) -> DiagnosisPart | None:
    """The diagnosis in a run folder; None if there is none."""
    try:
        content = json.loads((folder / DIAGNOSIS).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        return DiagnosisPart(((DIAGNOSIS, f"cannot be read: {error}"),))
    try:
        return _about(_made(content), content, manifest)
    except (KeyError, TypeError, ValueError, AttributeError):  # another version's, or somebody else's
        return DiagnosisPart(tuple(_table(content, folder)))


def _made(content: Any) -> DiagnosisPart:
    """A diagnosis of the form that the command writes."""
    verdict = Verdict(content["verdict"])
    facts = tuple((name, str(content[name])) for name in ("model", "data", "threat", "run"))
    accuracies = f"{content['clean_accuracy']:.1f} %", f"{content['robust_accuracy']:.1f} %"
    return DiagnosisPart(
        (*facts, *zip(("clean accuracy", "after all attacks"), accuracies, strict=True)),
        verdict.value,
        VERDICTS[verdict][1] + _by(content["checks"], DECISIVE.get(verdict)),
        tuple(_check(item) for item in content["checks"]),
        tuple(str(words) for words in content["not_checked"]),
    )


def _about(part: DiagnosisPart, content: Any, manifest: Manifest) -> DiagnosisPart:
    """The same, but no verdict on the run if it is of other weights or of another threat model."""
    # An older diagnosis does not say.
    known = {key: content[key] for key in SUBJECT if key in content}
    other = [SUBJECT[key] for key, value in known.items() if value != getattr(manifest, key)]
    if not other:
        return part
    lines = (("not about this run", f"other {', '.join(other)}"), *part.lines, ("verdict", part.verdict))
    return replace(part, lines=lines, verdict="", meaning="")


def _check(item: Any) -> CheckPart:
    words = {"seen": "seen", "limit": "threshold", "meaning": "meaning", "next step": "do"}
    lines = tuple((heading, str(item[key])) for heading, key in words.items())
    return CheckPart(str(item["name"]), Level(item["level"]).value, lines)


def _by(checks: Any, level: Level | None) -> str:
    """The checks that brought the verdict about."""
    names = [str(item["name"]) for item in checks if item["level"] == level]
    return f" ({', '.join(names)})" if names else ""


def _table(content: Any, folder: Path) -> list[Line]:
    """Names and values in the order of the file."""
    lines = list(_lines("", content))
    more = [("…", f"{len(lines) - MOST} more in {folder / DIAGNOSIS}")] if len(lines) > MOST else []
    return lines[:MOST] + more


def _lines(name: str, value: Any) -> Iterator[Line]:
    """Nested names are joined; a short list stays on one line."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _lines(f"{name} / {key}" if name else str(key), inner)
    elif isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        for number, inner in enumerate(value, start=1):
            yield from _lines(f"{name} {_called(inner, number)}".strip(), _rest(inner))
    elif isinstance(value, list):
        yield name, ", ".join(map(_text, value))
    else:
        yield name, _text(value)


def _called(value: Any, number: int) -> str:
    """The name that an item gives itself, else its number."""
    return str(value["name"]) if isinstance(value, dict) and "name" in value else str(number)


def _rest(value: Any) -> Any:
    return {key: inner for key, inner in value.items() if key != "name"} if isinstance(value, dict) else value


def _text(value: Any) -> str:
    known = {True: "yes", False: "no", None: "-"}
    if value is None or isinstance(value, bool):
        return known[value]
    return f"{value:.6g}" if isinstance(value, float) else str(value)
