"""Words that name a file or a folder, with the whole way to it: a run is to be verified from anywhere."""

from pathlib import Path

from gamagat.models.loading.paths import is_folder, is_there
from gamagat.models.loading.programs import is_program


def model_in_full(spec: str) -> str:
    """A program by its whole way; the name of a network as it is."""
    return _whole(spec) if is_program(spec) and is_there(spec) else spec


def data_in_full(spec: str) -> str:
    """A data set of a file or a folder by the whole way there; any other name as it is."""
    name, _, source = spec.partition(":")
    return f"{name}:{_whole(source)}" if is_there(source) or is_folder(source) else spec


def data_in_short(spec: str) -> str:
    """A data set of a file or a folder by its last name: for pages that are read on other machines."""
    name, _, source = spec.partition(":")
    return f"{name}:{Path(source).name}" if Path(source).is_absolute() else spec


def _whole(path: str) -> str:
    return str(Path(path).expanduser().resolve())
