"""Where data lies on disk, and how it gets there."""

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten

from gamagat.errors import AbsentError, DataError

TIMEOUT = (5, 20)  # seconds to connect, and between two packets: no network must not look like a hang
_downloads: ContextVar[bool] = ContextVar("downloads", default=True)  # whether there may be any


@dataclass(frozen=True, slots=True)
class Remote:
    """A file that can be downloaded: its addresses, and the checksum that proves it arrived whole."""

    name: str
    md5: str
    mirrors: tuple[str, ...]  # tried in this order, each once


def data_root(data_dir: Path | None) -> Path:
    """The folder to look in: the one given, else $GAMAGAT_DATA, else the user's cache."""
    return located(data_dir or os.environ.get("GAMAGAT_DATA") or _user_cache())


def located(path: str | Path) -> Path:
    """The path with `~` spelled out; one that the system cannot even look up is refused."""
    try:
        found = Path(path).expanduser()
        found.exists()
    except (OSError, RuntimeError) as error:
        raise DataError(f"cannot look for {_brief(path)}: {_why(error)}; give another path") from error
    return found


@contextmanager
def listing(folder: Path) -> Iterator[None]:
    """Say which entry of the folder could not be looked at, and why."""
    try:
        yield
    except OSError as error:
        place = _brief(error.filename or folder)
        raise DataError(f"cannot read {place}: {_why(error)}; give another path") from error


def _brief(path: str | Path, most: int = 200) -> str:
    text = str(path)
    return text if len(text) <= most else f"{text[: most // 2]}... ({len(text)} characters)"


def _why(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error).rstrip(".")


def _user_cache() -> Path:
    try:
        import pooch  # noqa: PLC0415 - most runs need neither a download nor the cache
    except ImportError:
        return Path("~/.cache/gamagat")
    return Path(pooch.os_cache("gamagat"))


def first_file(folders: Iterable[Path], names: Sequence[str]) -> Path | None:
    """The first of these folders' files that exists under one of these names."""
    return next((folder / name for folder in folders for name in names if (folder / name).is_file()), None)


def read_bytes(path: Path) -> bytes:
    """A whole file."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"cannot read {path}: {_why(error)}") from error


def check_digest(content: bytes, expected: str, algorithm: str, where: str) -> None:
    """Refuse content whose checksum is not the official one."""
    found = hashlib.new(algorithm, content, usedforsecurity=False).hexdigest()
    if found != expected:
        raise DataError(
            f"{where} is damaged or not the official file: its {len(content):,} bytes have the {algorithm} "
            f"{found}, expected {expected}; delete it and fetch it again"
        )


@contextmanager
def no_downloads() -> Iterator[None]:
    """What is not here stays away: an AbsentError says what would have been downloaded."""
    before = _downloads.set(False)
    try:
        yield
    finally:
        _downloads.reset(before)


def download(remotes: Sequence[Remote], folder: Path) -> list[Path]:
    """Fetch files into the folder; each gets its name only once it is whole and its checksum matches."""
    if remotes and not _downloads.get():
        names = ", ".join(remote.name for remote in remotes)
        raise AbsentError(
            f"{names}: not found, and not downloaded for a plan; the run itself fetches what is missing into "
            f"{folder}, unless --data-dir or GAMAGAT_DATA names a folder that has it"
        )
    try:
        with _no_empty_folders(folder):
            return [_fetch(remote, folder) for remote in remotes]
    except (ImportError, OSError, RuntimeError, ValueError) as error:
        names = ", ".join(remote.name for remote in remotes)
        addresses = ", ".join(remote.mirrors[0] for remote in remotes)
        raise DataError(
            f"{names}: not found, and the download failed ({_reason(error)}). Put what is missing into "
            f"{folder}, or name the folder that has it with --data-dir or GAMAGAT_DATA. Source: {addresses}"
        ) from error


@contextmanager
def _no_empty_folders(folder: Path) -> Iterator[None]:
    """Take folders that were made on the way to this one away again if nothing came into them."""
    absent = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        yield
    finally:
        for place in absent:
            with suppress(OSError):  # not empty, or never made
                place.rmdir()


def _fetch(remote: Remote, folder: Path) -> Path:
    """The file from the first mirror that has it."""
    for mirror in remote.mirrors[:-1]:
        try:
            return _retrieve(mirror, remote, folder)
        except (OSError, ValueError):
            continue  # the next mirror may be up
    return _retrieve(remote.mirrors[-1], remote, folder)


def _retrieve(url: str, remote: Remote, folder: Path) -> Path:
    import pooch  # noqa: PLC0415

    downloader = pooch.HTTPDownloader(timeout=TIMEOUT)
    known = f"md5:{remote.md5}"
    return Path(pooch.retrieve(url, known, fname=remote.name, path=folder, downloader=downloader))


def _reason(error: Exception) -> str:
    """What happened in a few words: a library's account of a failed connection can fill a screen."""
    return shorten(f"{type(error).__name__}: {error}", 100, placeholder="...")
