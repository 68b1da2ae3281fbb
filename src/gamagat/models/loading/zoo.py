"""The zoo: trained networks that come with the repository, each a folder with its card; `zoo:NAME` is one.

It is the folder that GAMAGAT_ZOO names, or `zoo` beside the source tree that the package is used from.
"""

from __future__ import annotations

import os
from pathlib import Path

from gamagat.errors import ModelError, unknown

PREFIX = "zoo:"
VARIABLE = "GAMAGAT_ZOO"
CARD = "card.json"


def is_zoo(spec: str) -> bool:
    """Whether a spec means a network of the zoo."""
    return spec.startswith(PREFIX)


def zoo_folder() -> Path | None:
    """Where the zoo is, or would be; None for a package that was installed without its source tree."""
    if given := os.environ.get(VARIABLE):
        return Path(given).expanduser()
    source = Path(__file__).resolve().parents[3]
    return source.parent / "zoo" if (source.parent / "pyproject.toml").is_file() else None


def zoo_names() -> list[str]:
    """The networks in the zoo, sorted; none where there is no zoo."""
    folder = zoo_folder()
    return [] if folder is None else sorted(card.parent.name for card in folder.glob(f"[!.]*/{CARD}"))


def zoo_entry(spec: str) -> Path:
    """The folder of `zoo:NAME`; an unknown name is refused with those that are there."""
    name, known = spec.removeprefix(PREFIX).strip(), zoo_names()
    if not known:
        raise ModelError(f"{spec!r} cannot be had: {zoo_missing()}")
    if name not in known:
        raise ModelError(str(unknown("network of the zoo", name, known)))
    folder = zoo_folder()
    assert folder is not None  # it has names
    return folder / name


def zoo_missing() -> str:
    """Why there is nothing in the zoo, and where to get it."""
    folder = zoo_folder()
    if folder is None:
        return (
            "an installed package comes without trained weights; get the folder zoo of the repository and "
            f"set {VARIABLE} to it"
        )
    return (
        f"there are no networks in {folder}; get the folder zoo of the repository, or set {VARIABLE} to one"
    )
