"""Paths as people write them."""

from pathlib import Path

from gamagat.errors import ModelError


def located(path: str | Path) -> Path:
    """The path with `~` spelled out; one that the system cannot even look up is refused."""
    try:
        found = Path(path).expanduser()
        found.exists()
    except (OSError, RuntimeError) as error:
        text, why = str(path), getattr(error, "strerror", None) or str(error).rstrip(".")
        brief = text if len(text) <= 200 else f"{text[:100]}... ({len(text)} characters)"
        raise ModelError(f"cannot look for {brief}: {why}; give another path") from error
    return found


def is_there(path: str) -> bool:
    """Whether there is a file of this name."""
    try:
        return Path(path).expanduser().is_file()
    except (OSError, RuntimeError):
        return False


def is_folder(path: str) -> bool:
    """Whether there is a folder of this name."""
    try:
        return bool(path) and Path(path).expanduser().is_dir()
    except (OSError, RuntimeError):
        return False
