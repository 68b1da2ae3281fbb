"""Folders as people give them: of a run, or of something else that holds runs."""

from pathlib import Path

from gamagat.engine.manifest import NAME as MANIFEST
from gamagat.engine.run import Run, read_run
from gamagat.engine.training.run import METRICS, RUN
from gamagat.errors import RunError

DIAGNOSIS = "diagnosis.json"
MOST = 5  # folders that are named


def run_in(folder: Path) -> Run:
    """Read a run; of a folder that is none, say where in it there are some."""
    check_run(folder)
    return read_run(folder)


def check_run(folder: Path) -> None:
    """Refuse what is not there, or is something else that is known, and say what to give or to do."""
    if not folder.exists():
        raise RunError(f"{folder} holds no run: there is no such folder; give the folder of evaluate --out")
    if not (folder / MANIFEST).exists() and (words := _instead(folder)):
        raise RunError(words)


def _instead(folder: Path) -> str:
    """What the folder is, and what to give; nothing if nothing is known about it."""
    training = any((folder / name).is_file() for name in (RUN, METRICS))
    inside = sorted(path.parent for path in folder.glob(f"*/{MANIFEST}"))
    what = "the folder of a training" if training else "no run itself"
    if inside:
        more = f" (and {len(inside) - MOST} more)" if len(inside) > MOST else ""
        return f"{folder} is {what}; give an evaluation in it: {', '.join(map(str, inside[:MOST]))}{more}"
    if training:
        make = f"gamagat evaluate {folder} --out {folder / 'evaluation'}"
        return f"{folder} is {what} and holds no evaluation; make one with: {make}"
    if (folder / DIAGNOSIS).is_file():
        return f"{folder} holds a diagnosis but no run; add one with: gamagat evaluate MODEL --out {folder}"
    return ""
