"""Run folders of every kind, made once, and a browser if there is one."""

import json
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from small_run import small_data, small_run

from gamagat.data.core import Dataset, from_tensors
from gamagat.engine.request import EvaluationRequest, prepare
from gamagat.reports.page.content import gather
from gamagat.reports.page.write import write_report

sys.path.append(str(Path(__file__).parent))  # for devtools.py

HOSTILE = "<script>window.hacked=1</script>\"'><img src=x onerror=window.hacked=1>|`*_&amp;"
SPECS = ("fgsm", "pgd:steps=5,restarts=3", "autoattack:steps=5,queries=20,top=2", "fab:steps=8")


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real run over data that can be read again, with restarts, a suite and a minimum-norm attack."""
    torch.set_num_threads(1)
    out = tmp_path_factory.mktemp("digits") / "run"
    prepare(EvaluationRequest("digits-cnn", data="digits", n=80, attacks=SPECS, device="cpu", out=out)).run()
    return out


@pytest.fixture(scope="session")
def weaker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another run over the same images, within a larger ball."""
    out = tmp_path_factory.mktemp("weaker") / "run"
    attacks = ("fgsm", "gama-pgd:steps=5")
    request = EvaluationRequest(
        "digits-cnn", data="digits", n=80, eps="0.3", attacks=attacks, device="cpu", out=out
    )
    prepare(request).run()
    return out


@pytest.fixture(scope="session")
def nameless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run over data that has no name anyone could read it by."""
    out = tmp_path_factory.mktemp("nameless") / "run"
    small_run(out)
    return out


@pytest.fixture
def changed(nameless: Path, tmp_path: Path) -> Callable[..., Path]:
    """A copy of the nameless run with other words in its manifest."""

    def change(**words: Any) -> Path:
        shutil.copytree(nameless, tmp_path / "changed")
        path = tmp_path / "changed" / "manifest.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | words))
        return path.parent

    return change


@pytest.fixture
def unfinished(nameless: Path, tmp_path: Path) -> Path:
    """A run that was stopped: one attack lacks a chunk, the last one everything."""
    folder = tmp_path / "unfinished"
    shutil.copytree(nameless, folder)
    base = sqlite3.connect(folder / "ledger-0.sqlite")
    for name in ("finished", "verdicts", "images"):
        base.execute(f"DELETE FROM {name} WHERE entry LIKE 'gama-mt%'")
    base.execute("DELETE FROM finished WHERE entry LIKE 'gama-pgd%' AND chunk > 1")
    base.commit()
    base.close()
    return folder


@pytest.fixture
def empty(nameless: Path, tmp_path: Path) -> Path:
    """A run that has only just begun."""
    folder = tmp_path / "empty"
    folder.mkdir()
    shutil.copy(nameless / "manifest.json", folder)
    return folder


@pytest.fixture
def at_hand(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let reports find the data of the nameless run, its classes called as the test likes."""

    def provide(data: Dataset | None = None, classes: tuple[str, ...] = ("a", "b", "c", "d")) -> None:
        plain = small_data()
        read, labels, ids = plain.read(torch.arange(len(plain))), plain.labels, plain.ids
        found = data or from_tensors(read, name="small", labels=labels, ids=ids, classes=classes)
        monkeypatch.setattr("gamagat.reports.page.originals.data_of", lambda *_: found)

    return provide


@pytest.fixture
def hostile(changed: Callable[..., Path], at_hand: Callable[..., None]) -> Path:
    """A run in which every name is an attack on the page."""
    at_hand(classes=tuple(f"{number}{HOSTILE}" for number in range(4)))
    folder = changed(model=HOSTILE, data=HOSTILE, made={"device": HOSTILE, HOSTILE: HOSTILE})
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    for attack in manifest["attacks"]:
        attack |= {"name": attack["name"] + HOSTILE, "spec": attack["spec"] + HOSTILE}
    path.write_text(json.dumps(manifest))
    (folder / "diagnosis.json").write_text(json.dumps({HOSTILE: [{"name": HOSTILE, "seen": HOSTILE}]}))
    return folder


def _check(name: str, level: str) -> dict[str, Any]:
    words = {"seen": f"{name} 12.5 %", "threshold": "at most 5 %", "meaning": "It | means.", "do": "Do this."}
    return {"name": name, "level": level, **words, "numbers": {"percent": 12.5}}


@pytest.fixture
def diagnosis() -> dict[str, Any]:
    """What `gamagat diagnose --out` writes, with a check of every kind but one."""
    checks = [_check("square", "fine"), _check("single-step", "warns"), _check("transfer", "not checked")]
    return {
        "verdict": "suspicious", "model": "net", "data": "small, 60 images", "threat": "linf, eps 0.04",
        "run": "seed 0", "clean_accuracy": 90.0, "robust_accuracy": 41.25, "checks": checks,
        "not_checked": ["transfer: no source network was given", "other norms"],
    }  # fmt: skip


@pytest.fixture
def page(digits: Path, weaker: Path, diagnosis: dict[str, Any], tmp_path: Path) -> Path:
    """Two runs on one page, one with a diagnosis: everything that a page can have."""
    second = shutil.copytree(weaker, tmp_path / "diagnosed")
    proof = diagnosis["checks"][0] | {"name": "w" * 80, "level": "masked"}
    content = diagnosis | {"verdict": "masked", "checks": [*diagnosis["checks"], proof]}
    (second / "diagnosis.json").write_text(json.dumps(content))
    write_report(gather([digits, second]), "html", tmp_path / "page.html")
    return tmp_path / "page.html"


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A real browser; tests that need it skip where there is none."""
    devtools = import_module("devtools")
    path = devtools.browser_path()
    if path is None:
        pytest.skip("no browser: install Debian's chromium, as .ci/run does")
    opened = devtools.Browser(path)
    yield opened
    opened.close()
