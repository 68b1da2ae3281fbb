"""A report as a file: written under another name and renamed, so that there is never half of one."""

from __future__ import annotations

import os
from collections.abc import Callable
from errno import EISDIR
from pathlib import Path

from gamagat.errors import RunError
from gamagat.reports.page.content import Content
from gamagat.reports.page.render import as_html
from gamagat.reports.page.text import as_csv, as_markdown

FORMATS: dict[str, Callable[[Content], str]] = {"html": as_html, "md": as_markdown, "csv": as_csv}


def made(content: Content, form: str) -> bytes:
    """The report in one of FORMATS."""
    # A name may hold what is no character at all, such as half of a pair.
    return FORMATS[form](content).encode("utf-8", "replace")


def write_report(content: Content, form: str, path: Path) -> int:
    """Write the report in one of FORMATS; how many bytes it has."""
    whole = made(content, form)
    try:
        if path.is_dir():
            raise IsADirectoryError(EISDIR, os.strerror(EISDIR))
        if path.is_symlink() or (path.exists() and not path.is_file()):
            path.write_bytes(whole)  # a link or a device stays what it is
        else:
            _renamed(path, whole)
    except OSError as error:
        raise RunError(f"cannot write {path}: {error.strerror}; give another file with --out") from None
    return len(whole)


def _renamed(path: Path, whole: bytes) -> None:
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        partial.write_bytes(whole)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
