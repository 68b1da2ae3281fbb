"""The library in C: built once for this machine, and done without where it cannot be built or loaded."""

from pathlib import Path

import pytest

from gamagat.engine.quick import native as module
from gamagat.engine.quick.native import native

ANSWER = "int answer(void) { return %d; }\n"
needs_a_compiler = pytest.mark.skipif(module._compiler() is None, reason="no compiler")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    native.cache_clear()
    return tmp_path / "cache" / "gamagat"


def written(folder: Path, text: str) -> Path:
    source = folder / "answer.c"
    source.write_text(text)
    return source


def answer(source: Path) -> int | None:
    native.cache_clear()
    library = native(source)
    return None if library is None else int(library.answer())


@needs_a_compiler
def test_it_is_built_once_and_anew_when_the_source_changes(tmp_path, own_cache, monkeypatch):
    assert answer(written(tmp_path, ANSWER % 41)) == 41
    (built,) = own_cache.glob("*.so")
    before = built.stat().st_mtime_ns
    assert answer(tmp_path / "answer.c") == 41
    assert [(path, path.stat().st_mtime_ns) for path in own_cache.glob("*.so")] == [(built, before)]
    assert answer(written(tmp_path, ANSWER % 42)) == 42
    assert len(list(own_cache.glob("*.so"))) == 2
    (tmp_path / "more.h").write_text("#define MORE 1\n")
    assert answer(written(tmp_path, '#include "more.h"\n' + ANSWER.replace("%d", "41 + MORE"))) == 42
    (tmp_path / "more.h").write_text("#define MORE 2\n")
    assert answer(tmp_path / "answer.c") == 43
    assert len(list(own_cache.glob("*.so"))) == 4
    monkeypatch.setattr(module, "_processor", lambda: "another one")
    assert answer(tmp_path / "answer.c") == 43
    assert len(list(own_cache.glob("*.so"))) == 5


@needs_a_compiler
@pytest.mark.parametrize("left", [0, 100, 4096])
def test_a_damaged_library_is_built_again(left, tmp_path, own_cache):
    """Loading it would end the program."""
    source = written(tmp_path, ANSWER % 41)
    library = module._built(source, module._compiler())
    whole = library.read_bytes()
    library.write_bytes(whole[:left] + bytes(len(whole) - left))
    assert answer(source) == 41
    assert library.read_bytes() == whole


@needs_a_compiler
def test_a_source_that_cannot_be_built_leaves_nothing_behind(tmp_path, own_cache):
    assert answer(written(tmp_path, "int answer(void) { return nothing; }\n")) is None
    assert list(own_cache.iterdir()) == []


@needs_a_compiler
def test_a_library_that_cannot_be_loaded_is_done_without(tmp_path):
    assert answer(written(tmp_path, "int missing(void);\nint answer(void) { return missing(); }\n")) is None


@pytest.mark.parametrize("given", ["false", "/there/is/no/such/compiler", "cc --no-such-option", "gcc '"])
def test_a_compiler_that_does_not_work_is_done_without(given, tmp_path, monkeypatch):
    monkeypatch.setenv("CC", given)
    assert answer(written(tmp_path, ANSWER % 1)) is None


def test_no_compiler_at_all(tmp_path, monkeypatch):
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert answer(written(tmp_path, ANSWER % 1)) is None


def test_a_cache_that_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert answer(written(tmp_path, ANSWER % 1)) is None


def test_a_relative_cache_is_not_where_one_happens_to_be(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "here")
    assert module._home() == Path.home() / ".cache" / "gamagat"
