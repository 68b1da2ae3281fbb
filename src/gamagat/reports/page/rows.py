"""The numbers of a run as rows, whatever they are written in."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from gamagat.engine.manifest import Manifest
from gamagat.engine.results import AttackResult, Evaluation
from gamagat.engine.run import Run
from gamagat.engine.share import Share
from gamagat.errors import ConfigError
from gamagat.registry import parse_spec


@dataclass(frozen=True, slots=True)
class Row:
    """A share of images that are classified correctly, and what it took to find out."""

    kind: str  # clean, attack, member (of a suite) or worst case
    name: str
    share: Share
    spec: str = ""
    forwards: float | None = None  # per image
    backwards: float | None = None
    seconds: float | None = None
    fooled: int | None = None  # by a member of a suite, of what was left
    mean: float | None = None  # distance of the nearest adversarial images
    median: float | None = None


def rows(result: Evaluation) -> list[Row]:
    """Clean, each attack with its members, and the worst case over all of them, image by image."""
    attacks = [row for attack in result.attacks for row in _attack_rows(attack)]
    worst = Row(
        "worst case",
        "worst case",
        result.standing,
        forwards=sum(attack.forwards for attack in result.attacks),
        backwards=sum(attack.backwards for attack in result.attacks),
        seconds=result.seconds,
    )
    return [Row("clean", "clean", result.clean), *attacks, worst]


def _attack_rows(attack: AttackResult) -> Iterator[Row]:
    near = attack.nearest
    yield Row(
        "attack",
        attack.name,
        attack.standing,
        attack.spec,
        attack.forwards,
        attack.backwards,
        attack.seconds,
        mean=near.mean if near else None,
        median=near.median if near else None,
    )
    for member in attack.members:
        costs = member.forwards, member.backwards, member.seconds
        yield Row("member", member.name, member.standing, "", *costs, member.fooled)


def percent(share: Share) -> str:
    """The accuracy to two places, without a sign for percent."""
    return f"{share.percent:.2f}" if share.of else "-"


def interval(share: Share) -> str:
    """Wilson's interval to two places."""
    return "{:.2f} - {:.2f}".format(*share.ci95) if share.of else "-"


def plain(value: float | None, digits: str = ".1f") -> str:
    """A number, or nothing where there is none."""
    return "" if value is None else format(value, digits)


def command(run: Run) -> str:
    """The command that makes the run again, or goes on with it."""
    manifest = run.manifest
    words = ["gamagat", "evaluate", manifest.model]
    options = {
        "--weights": manifest.weights,
        "--data": manifest.data,
        "--data-dir": manifest.data_dir,
        "--split": manifest.split,
        "--n": manifest.n,
        "--norm": manifest.norm,
        "--eps": manifest.eps_given,
        "--seed": manifest.seed,
        "--restarts": _restarts(manifest),
    }
    for option, value in options.items():
        words += [] if value is None else [option, str(value)]
    for name, _ in manifest.runs():
        words += ["--attack", name]
    return shlex.join([*words, "--out", str(run.folder)])


def _restarts(manifest: Manifest) -> str | None:
    """The restarts of the attacks that do not say how many they make, if it is not one."""
    for attack in manifest.attacks:
        try:
            given, all_ = parse_spec(attack["name"])[1], parse_spec(attack["spec"])[1]
        except ConfigError:  # the words of another version
            continue
        if "restarts" not in given and all_.get("restarts", "1") != "1":
            return str(all_["restarts"])
    return None


def settings(manifest: Manifest) -> list[tuple[str, str]]:
    """Every entry of the manifest by its name, what was recorded about the making at the end."""
    content: dict[str, Any] = asdict(manifest)
    made, attacks = content.pop("made"), content.pop("attacks")
    content["shape"] = " x ".join(map(str, content["shape"]))
    listed = [(f"attack {number}", item["spec"]) for number, item in enumerate(attacks, start=1)]
    return [
        *((key, "" if value is None else str(value)) for key, value in content.items()),
        *listed,
        *((f"made: {key}", str(value)) for key, value in made.items()),
    ]


def sentence(result: Evaluation) -> str:
    """What to report, with everything that it depends on."""
    if result.standing.of == 0:
        return "No image is through with any attack yet; there is nothing to report."
    low, high = result.standing.ci95
    names = ", ".join(attack.name for attack in result.attacks if attack.standing.of)
    return (
        f"{result.model} classifies {result.standing.percent:.2f} % (95 % interval {low:.2f} to {high:.2f}) "
        f"of {result.standing.of} images of {result.data} correctly under every attack tried within "
        f"{result.norm} {result.eps:.6g} ({names})."
    )
