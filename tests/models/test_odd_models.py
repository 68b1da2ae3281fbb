"""Models that cannot be made, and paths of models with unusual names."""

import io
import logging
import sys
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from model_helpers import saved
from torch import Tensor, nn

from gamagat.errors import CheckpointError, ConfigError, ModelError
from gamagat.models.core import MODELS, build_model, load_model
from gamagat.registry import Entry

USER_CODE = """
import os, sys
import torch
from torch import nn

def leave():
    sys.exit(7)

def stop():
    raise KeyboardInterrupt

def hollow():
    with torch.device("meta"):
        return nn.Linear(2, 2)

def tidy():
    sys.path[:] = [path for path in sys.path if path != os.getcwd()]
    return nn.Linear(2, 2)

class Stubborn(nn.Linear):
    def __init__(self):
        super().__init__(2, 2)

    def load_state_dict(self, *args, **options):
        raise KeyError("no")

class Riddle:
    @property
    def __signature__(self):
        raise KeyError("no")

riddle = Riddle()

def __getattr__(name):
    raise KeyError(name)
"""


@pytest.fixture(autouse=True)
def user_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Modules in the current folder."""
    (tmp_path / "odd_nets.py").write_text(USER_CODE)
    (tmp_path / "odd_exit.py").write_text("import sys\nsys.exit(7)")
    (tmp_path / "odd_stop.py").write_text("raise KeyboardInterrupt")
    (tmp_path / "odd_syntax.py").write_text("def (:")
    monkeypatch.chdir(tmp_path)
    yield
    for name in ("odd_nets", "odd_exit", "odd_stop", "odd_syntax"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("odd_exit:make", "importing 'odd_exit' for model 'odd_exit:make' failed: SystemExit(7)"),
        ("odd_syntax:make", "importing 'odd_syntax' for model 'odd_syntax:make' failed: SyntaxError"),
        ("odd_nets:leave", "calling 'odd_nets:leave' failed: SystemExit(7)"),
        ("odd_nets:anything", "reading 'anything' of 'odd_nets' failed: KeyError('anything')"),
        ("odd_nets:riddle", "must be callable without arguments"),
        ("odd_nets:hollow", "model 'odd_nets:hollow' cannot be used on the CPU"),
    ],
)
def test_whatever_the_code_of_the_user_raises_is_said_with_its_name(spec: str, words: str) -> None:
    with pytest.raises(ModelError) as caught:
        load_model(spec)
    assert words in str(caught.value)


@pytest.mark.parametrize("spec", ["odd_stop:make", "odd_nets:stop"])
def test_an_interrupt_passes_through(spec: str) -> None:
    with pytest.raises(KeyboardInterrupt):
        load_model(spec)


def test_code_may_put_its_own_order_into_the_search_path() -> None:
    assert isinstance(load_model("odd_nets:tidy"), nn.Linear)


def test_a_network_that_refuses_its_weights_is_named(tmp_path: Path) -> None:
    file = saved(tmp_path, nn.Linear(2, 2).state_dict())
    with pytest.raises(CheckpointError, match=r"cannot be put into model 'odd_nets:Stubborn': KeyError"):
        load_model("odd_nets:Stubborn", file)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("resnet18:classes=1e9", "classes of model 'resnet18' must be at most 100,000, got 1,000,000,000"),
        ("resnet18:channels=1e9", "channels of model 'resnet18' must be at most 1,000"),
        ("resnet18:classes=0", "must be at least 1, got 0"),
        ("wrn:depth=6000004", "must be at most 1,000, got 6,000,004"),
        ("wrn:width=1000000", "is too large: depth x width x width must be at most 100,000"),
        ("wrn-gat:width=1e30", "is too large"),
        ("wrn:depth=1000,width=100", "is too large"),
        ("wrn:depth=10,width=1,dropout=7", "dropout of a WideResNet must lie between 0 and 1, got 7.0"),
    ],
)
def test_absurd_sizes_are_refused_before_anything_is_built(spec: str, words: str) -> None:
    for attempt in (build_model, load_model):
        with pytest.raises(ConfigError) as caught:
            attempt(spec)
        assert words in str(caught.value)


def test_a_plug_in_that_cannot_be_made_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def greedy(units: int = 3) -> nn.Module:
        raise MemoryError(f"no room for {units} units\nand many lines more")

    monkeypatch.setitem(MODELS._entries, "greedy", Entry(greedy))
    with pytest.raises(
        ModelError, match=r"'greedy:units=5' cannot be made: MemoryError: no room for 5 units$"
    ):
        build_model("greedy:units=5")


class Loud(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        assert x.shape[0] == 2, "the network was run"
        return x.flatten(1)


def scripted() -> bytes:
    stream = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.save(torch.jit.script(Loud()), stream)
    return stream.getvalue()


def exported() -> bytes:
    stream = io.BytesIO()
    torch.export.save(torch.export.export(nn.Flatten(), (torch.rand(2, 1, 8, 8),)), stream)
    return stream.getvalue()


def test_loading_does_not_run_the_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "net.pt").write_bytes(scripted())
    (tmp_path / "net.pt2").write_bytes(exported())

    def run(*_: object, **__: object) -> None:
        raise AssertionError("the network was run")

    monkeypatch.setattr(nn.Module, "__call__", run)
    load_model("net.pt")
    load_model("net.pt2")


NAMES = ["lr=0.1/net", "a:b", "a:b=c", "resnet18:x=1", "a[/b]", "n[red]x", "new\nline", "\udcff"]


@pytest.mark.parametrize("name", NAMES)
def test_a_file_that_exists_is_a_path_whatever_its_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for suffix, content in ((".pt", scripted()), (".pt2", exported())):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / f"{name}{suffix}").write_bytes(content)
        for spec in (f"{name}{suffix}", f"~/{name}{suffix}"):
            assert load_model(spec)(torch.zeros(2, 1, 8, 8)).shape == (2, 64)


def test_what_looks_like_a_path_and_is_missing_is_called_missing() -> None:
    with pytest.raises(ModelError, match=r"model file lr=0\.2/net\.pt2 does not exist"):
        load_model("lr=0.2/net.pt2")
    with pytest.raises(ConfigError, match=r"unknown normalisation 'net\.pt2'"):
        load_model("resnet18:normalize=net.pt2")


@pytest.mark.parametrize(
    "spec", [f"{'x' * 5000}.pt", "~nobody-of-this-name/net.pt", "loop/net.pt", "no\0.pt"]
)
def test_a_path_that_cannot_be_looked_up_is_refused(spec: str, tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(ModelError, match=r"cannot look for|does not exist"):
        load_model(spec)


@pytest.mark.parametrize(("flags", "value"), [(0, 1), (2, 99)], ids=["encrypted", "unknown compression"])
def test_an_archive_that_cannot_be_unpacked_is_no_program(flags: int, value: int, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "net.pt2", "w") as archive:
        archive.writestr("net/archive_format", "pt2")
    content = bytearray((tmp_path / "net.pt2").read_bytes())
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):  # of the member, and in the directory
        content[content.find(mark) + offset + flags] = value
    (tmp_path / "net.pt2").write_bytes(content)
    with pytest.raises(ModelError, match=r"is no torch\.export program or is damaged"):
        load_model("net.pt2")


def test_weights_called_pt2_are_refused_without_a_traceback_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    torch.save({"a": torch.ones(1)}, tmp_path / "net.pt2")
    with pytest.raises(ModelError, match="if it holds weights, give it with --weights"):
        load_model("net.pt2")
    assert not caplog.records
    assert not logging.getLogger("torch.export").disabled
