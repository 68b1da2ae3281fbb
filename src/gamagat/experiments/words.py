"""The words of `gamagat reproduce`: how they are read, and how a command is written down."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from gamagat.errors import ConfigError
from gamagat.experiments.cache import Cache
from gamagat.experiments.core import Network


def listed(text: str | None, option: str) -> list[str]:
    """What stands between commas; nothing if the option is left out."""
    words = [word.strip() for word in (text or "").split(",")]
    found = [word for word in words if word]
    if text is not None and not found:
        raise ConfigError(
            f"{option} takes names with commas between them, got {text!r}; leave it out for all"
        )
    return found


def read_network(words: str) -> tuple[str, Network]:
    """Read ROW=MODEL@FILE or ROW=FOLDER."""
    row, _, spec = words.partition("=")
    model, weights = _model_and_file(spec)
    if not row.strip() or not model:
        raise ConfigError(f"--checkpoint takes ROW=MODEL@FILE or ROW=FOLDER, got {words!r}")
    return row.strip(), Network("", model, weights=weights or None, given=True)


def words_for(network: Network) -> str:
    """What `read_network` has read of a network."""
    return network.model if network.weights is None else f"{network.model}@{network.weights}"


def read_networks(given: Sequence[str]) -> dict[str, Network]:
    """Read them all, each row once."""
    networks: dict[str, Network] = {}
    for row, network in map(read_network, given):
        if row.lower() in {known.lower() for known in networks}:
            raise ConfigError(f"--checkpoint is given twice for {row!r}; a row has one network")
        networks[row] = network
    return networks


def _model_and_file(spec: str) -> tuple[str, str]:
    """MODEL@FILE, or a folder, whatever its name."""
    if Path(spec.strip()).expanduser().is_dir():
        return spec.strip(), ""
    model, _, file = spec.partition("@")
    return model.strip(), file.strip()


def read_settings(pairs: Sequence[str]) -> dict[str, str]:
    """Read KEY=VALUE, settings of attacks."""
    settings: dict[str, str] = {}
    for pair in pairs:
        key, _, value = (word.strip() for word in pair.partition("="))
        if not key or not value or key.replace("-", "_") in settings:
            raise ConfigError(f"--attack-set takes KEY=VALUE, such as steps=50, each once, got {pair!r}")
        settings[key.replace("-", "_")] = value
    return settings


def without_way(words: str) -> str:
    """A network as it is written down: of a folder on this machine its name alone."""
    return Path(words).resolve().name if Path(words).is_dir() else words


def command_for(
    name: str,
    store: Cache,
    checkpoints: Sequence[str],
    settings: Mapping[str, str],
    columns: Sequence[str] = (),
) -> str:
    """The command that makes these figures again: all that decides them, and nothing about this machine.

    Columns matter where a network is given: in others its rows may need one for other data.
    """
    words = ["gamagat", "reproduce", name]
    words += ["--columns", ",".join(columns)] if columns and checkpoints else []
    words += ["--n", str(store.n)] if store.n is not None else []
    for key, value in store.options.items():
        words += ["--set", f"{key}={value}"]
    for key, value in settings.items():
        words += ["--attack-set", f"{key}={value}"]
    for given in checkpoints:
        row, _, network = given.partition("=")
        model, file = _model_and_file(network)
        words += [
            "--checkpoint",
            f"{row}={model}@{Path(file).name}" if file else f"{row}={without_way(model)}",
        ]
    words += ["--seed", str(store.seed)] if store.seed else []
    return shlex.join(words + (["--precision", store.precision] if store.precision != "auto" else []))
