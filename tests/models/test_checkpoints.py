"""Files of weights: every public form is read, and everything else is refused in one clear sentence."""

import pickle
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from model_helpers import Payload, saved
from safetensors.torch import save_file
from torch import Tensor, nn

from gamagat.errors import CheckpointError
from gamagat.models.loading.checkpoint import read_state

STATE = {"conv.weight": torch.rand(4, 3, 3, 3), "conv.bias": torch.rand(4)}


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in one)


@pytest.mark.parametrize("zipped", [True, False])
def test_torch_files_of_both_formats_are_read(zipped: bool, tmp_path: Path) -> None:
    file = saved(tmp_path, STATE, _use_new_zipfile_serialization=zipped)
    assert same(read_state(file), STATE)


@pytest.mark.parametrize("name", ["weights.safetensors", "weights.bin"])
def test_safetensors_are_known_by_suffix_or_content(name: str, tmp_path: Path) -> None:
    save_file(STATE, tmp_path / name)
    assert same(read_state(tmp_path / name), STATE)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda state: {"state_dict": state, "epoch": 3},
        lambda state: {"model": state, "optimizer": {"lr": 0.1}},
        lambda state: {"net": state, "acc": 0.9},
        lambda state: {
            "model_state_dict": state,
            "optimizer_state_dict": {"state": {0: {"m": torch.ones(1)}}},
        },
        lambda state: {"model": {"state_dict": state}},
        lambda state: {"model": {"depth": 18}, "weights": state},
        lambda state: {"something_else": state, "epoch": 3},
        lambda state: {f"module.{key}": value for key, value in state.items()},
        lambda state: {f"module.module.{key}": value for key, value in state.items()},
        lambda state: {f"_orig_mod.module.{key}": value for key, value in state.items()},
        lambda state: {"state_dict": {f"module._orig_mod.{key}": value for key, value in state.items()}},
        lambda state: state | {"epoch": 3},
    ],
)
def test_containers_and_wrappers_are_taken_off(wrap: Any, tmp_path: Path) -> None:
    assert same(read_state(saved(tmp_path, wrap(STATE))), STATE)


def test_a_name_with_and_without_wrapper_is_ambiguous(tmp_path: Path) -> None:
    file = saved(tmp_path, {"conv.bias": torch.zeros(1), "module.conv.bias": torch.ones(1)})
    with pytest.raises(CheckpointError, match="both with and without"):
        read_state(file)


@pytest.mark.parametrize("zipped", [True, False])
def test_code_in_a_checkpoint_is_named_and_not_run(zipped: bool, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    file = saved(
        tmp_path, {"state_dict": STATE, "extra": Payload(mark)}, _use_new_zipfile_serialization=zipped
    )
    with pytest.raises(CheckpointError, match=r"would run code \(\w+\.mkdir\).*save_file"):
        read_state(file)
    assert not mark.exists()


def test_a_pickled_network_is_refused_by_the_name_of_its_class(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"torch\.nn\.modules\.linear\.Linear"):
        read_state(saved(tmp_path, nn.Linear(2, 2)))


NO_CHECKPOINTS = {
    b"": "is empty",
    b"<!DOCTYPE html><html>Too many requests</html>": "is a web page, not weights",
    b"\n  <html>": "is a web page, not weights",
    b"version https://git-lfs.github.com/spec/v1\noid sha256:0": "is a Git LFS pointer",
    b"just some words": "is no checkpoint",
    bytes(range(200, 256)): "is no checkpoint",
    pickle.dumps({"a": [1, 2]}, protocol=4): "is no checkpoint",
    b"PK\x03\x04 and nothing more": "damaged or cut short",
}


@pytest.mark.parametrize(("content", "words"), NO_CHECKPOINTS.items(), ids=NO_CHECKPOINTS.values())
def test_what_is_no_checkpoint_is_called_what_it_is(content: bytes, words: str, tmp_path: Path) -> None:
    file = tmp_path / "weights.pt"
    file.write_bytes(content)
    with pytest.raises(CheckpointError) as caught:
        read_state(file)
    assert words in str(caught.value)
    assert str(file) in str(caught.value)


def test_missing_files_and_folders_are_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="does not exist"):
        read_state(tmp_path / "nothing.pt")
    with pytest.raises(CheckpointError, match="is a folder"):
        read_state(tmp_path)


def test_a_file_that_cannot_be_opened_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = saved(tmp_path, STATE)

    def closed(*_: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", closed)
    with pytest.raises(CheckpointError, match="cannot be read: Permission denied"):
        read_state(file)


@pytest.mark.parametrize("suffix", [".pth", ".safetensors"])
@pytest.mark.parametrize("share", [0.2, 0.5, 0.99])
def test_a_file_cut_short_is_called_damaged(suffix: str, share: float, tmp_path: Path) -> None:
    whole, short = tmp_path / f"whole{suffix}", tmp_path / f"short{suffix}"
    torch.save(STATE, whole) if suffix == ".pth" else save_file(STATE, whole)
    content = whole.read_bytes()
    short.write_bytes(content[: int(share * len(content))])
    with pytest.raises(CheckpointError, match="damaged"):
        read_state(short)


@pytest.mark.parametrize("share", [0.1, 0.6])
def test_an_old_file_cut_short_is_called_damaged(share: float, tmp_path: Path) -> None:
    content = saved(tmp_path, STATE, _use_new_zipfile_serialization=False).read_bytes()
    (tmp_path / "short.pth").write_bytes(content[: int(share * len(content))])
    with pytest.raises(CheckpointError, match="damaged"):
        read_state(tmp_path / "short.pth")


@pytest.mark.parametrize(
    ("member", "words"),
    [
        ("net/constants.pkl", "is a whole program, not weights"),
        ("net/models/model.json", "is a whole program, not weights"),
        ("photos/cat.png", "is a zip archive without a torch checkpoint"),
    ],
)
def test_other_archives_are_told_apart(member: str, words: str, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "weights.pt", "w") as archive:
        archive.writestr(member, "x")
    with pytest.raises(CheckpointError, match=words):
        read_state(tmp_path / "weights.pt")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (torch.rand(3), "holds a Tensor, not named tensors"),
        ([torch.rand(3)], "holds a list"),
        ({"epoch": 3, "lr": 0.1}, "holds no weights, only epoch, lr"),
        ({}, "only nothing"),
    ],
)
def test_content_without_named_tensors_is_described(content: Any, words: str, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=words):
        read_state(saved(tmp_path, content))


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_numbers_that_are_none_are_refused(bad: float, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"NaN or infinite numbers in conv\.bias"):
        read_state(saved(tmp_path, STATE | {"conv.bias": torch.full((4,), bad)}))
