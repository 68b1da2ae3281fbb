"""Finding, checking and downloading files."""

import hashlib
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pooch
import pytest

from gamagat.data import files
from gamagat.data.files import Remote, check_digest, data_root, download, first_file, no_downloads, read_bytes
from gamagat.errors import AbsentError, DataError

CONTENT = b"some bytes"
RETRIEVE = pooch.retrieve


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A web server on this machine that has `good.bin`."""
    monkeypatch.setattr(pooch, "retrieve", RETRIEVE)
    (tmp_path / "served").mkdir()
    (tmp_path / "served" / "good.bin").write_bytes(CONTENT)
    handler = partial(_Quiet, directory=str(tmp_path / "served"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}/"
        running.shutdown()
        thread.join()


def remote(*mirrors: str, content: bytes = CONTENT) -> Remote:
    return Remote("good.bin", hashlib.md5(content).hexdigest(), mirrors)


def test_the_folder_given_comes_first_then_the_environment_then_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GAMAGAT_DATA", str(tmp_path / "environment"))
    assert data_root(tmp_path / "given") == tmp_path / "given"
    assert data_root(None) == tmp_path / "environment"
    monkeypatch.delenv("GAMAGAT_DATA")
    assert data_root(None) == Path(pooch.os_cache("gamagat"))


def test_the_cache_has_a_place_without_pooch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GAMAGAT_DATA")
    monkeypatch.setitem(sys.modules, "pooch", None)
    assert data_root(None) == Path.home() / ".cache" / "gamagat"


def test_the_home_folder_may_be_abbreviated() -> None:
    assert data_root(Path("~/data")) == Path.home() / "data"


def test_the_first_folder_with_any_of_the_names_wins(tmp_path: Path) -> None:
    for name in ("a/second", "b/first", "b/second"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    folders = [tmp_path / "none", tmp_path / "a", tmp_path / "b"]
    assert first_file(folders, ["first", "second"]) == tmp_path / "a" / "second"
    assert first_file(folders, ["third"]) is None


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=rf"cannot read {tmp_path}"):
        read_bytes(tmp_path)


def test_a_wrong_checksum_names_the_file() -> None:
    check_digest(CONTENT, hashlib.sha1(CONTENT).hexdigest(), "sha1", "x.bin")
    with pytest.raises(DataError, match=r"x\.bin is damaged .* its 10 bytes have the sha1"):
        check_digest(CONTENT, "0" * 40, "sha1", "x.bin")


def test_a_download_arrives_under_its_name(server: str, tmp_path: Path) -> None:
    (path,) = download([remote(f"{server}good.bin")], tmp_path / "new" / "folder")
    assert path == tmp_path / "new" / "folder" / "good.bin"
    assert path.read_bytes() == CONTENT


def test_the_second_mirror_is_tried(server: str, tmp_path: Path) -> None:
    (path,) = download([remote(f"{server}absent.bin", f"{server}good.bin")], tmp_path / "into")
    assert path.read_bytes() == CONTENT


def test_damage_on_the_way_leaves_nothing_behind(server: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"good\.bin: not found, and the download failed .*into"):
        download([remote(f"{server}good.bin", content=b"other bytes")], tmp_path / "into")
    assert not (tmp_path / "into").exists()


@pytest.mark.usefixtures("server")
def test_nobody_listening_is_an_error_and_no_wait(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="download failed"):
        download([remote("http://127.0.0.1:9/good.bin")], tmp_path)


def test_without_pooch_the_files_are_still_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(DataError, match=rf"good\.bin: not found.*{tmp_path}"):
        download([remote("http://127.0.0.1:9/good.bin")], tmp_path)


def test_every_mirror_is_asked_once_and_the_reason_is_short(downloads: list[str], tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"\(OSError: the network is down x+\.\.\.\)"):
        download([remote("first", "second")], tmp_path)
    assert downloads == ["first", "second"]


def test_where_nothing_may_be_downloaded_nothing_is(downloads: list[str], tmp_path: Path) -> None:
    with no_downloads():
        assert download([], tmp_path) == []
        with pytest.raises(
            AbsentError, match=rf"good\.bin: not found.*the run itself.*{tmp_path}.*--data-dir"
        ):
            download([remote("first")], tmp_path)
    assert downloads == []
    with pytest.raises(DataError, match="download failed"):
        download([remote("first")], tmp_path)


def test_nobody_waits_long_for_a_silent_server() -> None:
    assert max(files.TIMEOUT) <= 30
