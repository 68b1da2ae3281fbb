"""The settings of a run in words, and the commands that make it again."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from typing import Any

from gamagat.engine.manifest import Manifest
from gamagat.engine.run import Run
from gamagat.errors import ConfigError
from gamagat.registry import parse_spec

NAMES = {
    "weights_sha256": "SHA-256 of the weights",
    "data_dir": "data folder",
    "n": "images",
    "data_sha256": "SHA-256 of the data",
    "eps_given": "eps as given",
    "chunk": "images per chunk",
    "shape": "image shape",
    "format": "format of the folder",
}
MADE = {
    "date": "made on",
    "gamagat": "gamagat version",
    "torch": "torch version",
    "numpy": "numpy version",
    "python": "python version",
    "batch_size": "batch size",
    "ranks": "processes",
    "attacks in": "attacks computed in",
}


def settings(run: Run) -> list[tuple[str, str]]:
    """Every entry of the manifest in words, what was recorded about the making at the end."""
    content: dict[str, Any] = asdict(run.manifest)
    made, attacks = content.pop("made"), content.pop("attacks")
    content["shape"] = " x ".join(map(str, content["shape"]))
    content["n"] = f"{content['n']:,}"
    listed = [(f"attack {number}", item["spec"]) for number, item in enumerate(attacks, start=1)]
    given = {key: "not given" if value is None else str(value) for key, value in content.items()}
    return [
        ("run folder", str(run.folder)),
        *((NAMES.get(key, key), value) for key, value in given.items()),
        *listed,
        *((MADE.get(key, key), str(value)) for key, value in made.items()),
    ]


def command(run: Run) -> str:
    """The command that makes the run again, or goes on with it."""
    more = {"--seed": run.manifest.seed, "--restarts": _restarts(run.manifest)}
    words = _words("evaluate", run.manifest, {"--n": run.manifest.n} | more)
    for name, _ in run.manifest.runs():
        words += ["--attack", name]
    return shlex.join([*words, "--out", str(run.folder)])


def diagnose_command(run: Run) -> str:
    """The command that looks for gradient masking and leaves what it finds beside the run."""
    words = _words("diagnose", run.manifest, {"--seed": run.manifest.seed})
    return shlex.join([*words, "--out", str(run.folder)])


def _words(verb: str, manifest: Manifest, more: dict[str, Any]) -> list[str]:
    """A command with the network, the data and the threat model of a run."""
    options = {
        "--weights": manifest.weights,
        "--data": manifest.data,
        "--data-dir": manifest.data_dir,
        "--split": manifest.split,
        "--norm": manifest.norm,
        "--eps": manifest.eps_given,
        **more,
    }
    words = ["gamagat", verb, manifest.model]
    for option, value in options.items():
        words += [] if value is None else [option, str(value)]
    return words


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
