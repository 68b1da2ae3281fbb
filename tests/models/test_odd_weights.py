"""Files of weights with tensors that no network can take, and networks that take no weights."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from model_helpers import saved
from safetensors.torch import save_file
from torch import Tensor

from gamagat.errors import CheckpointError, ModelError
from gamagat.models.core import build_model, load_model
from gamagat.models.loading.checkpoint import read_state

STATE = {"fc.weight": torch.rand(4, 3), "fc.bias": torch.rand(4)}


def refusal(content: Any, folder: Path) -> str:
    with pytest.raises(CheckpointError) as caught:
        read_state(saved(folder, content))
    return str(caught.value)


@pytest.mark.filterwarnings("ignore")  # torch warns while these are made
@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda value: value.to_sparse(), "a sparse tensor (torch.sparse_coo)"),
        (lambda value: value.to_sparse_csr(), "a sparse tensor (torch.sparse_csr)"),
        (lambda value: value.to("meta"), "a tensor without values"),
        (lambda value: torch.quantize_per_tensor(value, 0.1, 0, torch.qint8), "a quantized tensor"),
        (lambda value: torch.nested.nested_tensor([value, value]), "a nested tensor"),
        (lambda value: value.to(torch.complex64), "a tensor of torch.complex64"),
        (lambda value: value.byte().view(torch.float4_e2m1fn_x2), "a tensor of torch.float4_e2m1fn_x2"),
        (lambda value: value[:1, :1].expand(10**9, 10**6), "a view of 4,000,000,000,000,000 bytes"),
    ],
)
def test_tensors_that_are_no_plain_numbers_are_named(
    make: Callable[[Tensor], Tensor], words: str, tmp_path: Path
) -> None:
    said = refusal(STATE | {"fc.weight": make(STATE["fc.weight"])}, tmp_path)
    assert f"holds 'fc.weight' as {words}" in said
    assert "save them again" in said


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2, torch.float16, torch.bfloat16])
def test_narrow_floats_are_numbers_like_others(dtype: torch.dtype, tmp_path: Path) -> None:
    state = {key: value.to(dtype) for key, value in build_model("digits-cnn").state_dict().items()}
    net = load_model("digits-cnn", saved(tmp_path, state))
    assert torch.equal(net.state_dict()["fc2.bias"], state["fc2.bias"].float())


def test_numbers_too_large_for_float32_are_refused(tmp_path: Path) -> None:
    said = refusal(STATE | {"fc.bias": torch.full((4,), 1e300, dtype=torch.float64)}, tmp_path)
    assert "infinite numbers in fc.bias" in said


def test_small_repeated_tensors_are_read(tmp_path: Path) -> None:
    state = {"fc.bias": torch.ones(1).expand(4)}
    assert torch.equal(read_state(saved(tmp_path, state))["fc.bias"], torch.ones(4))


@pytest.mark.parametrize("key", ["model", "anything"])
def test_a_dictionary_that_contains_itself_is_refused(key: str, tmp_path: Path) -> None:
    content: dict[str, Any] = {}
    content[key] = {key: content}
    assert "without end" in refusal(content, tmp_path)


@pytest.mark.parametrize(
    "content", [{"state_dict": [torch.ones(3)]}, {"a": [[torch.ones(3)]], "b": (torch.ones(1),)}]
)
def test_tensors_in_lists_have_no_names(content: Any, tmp_path: Path) -> None:
    assert "holds no weights, only" in refusal(content, tmp_path)


def test_a_long_list_of_what_is_no_weight_is_cut(tmp_path: Path) -> None:
    assert len(refusal({f"setting{number}": number for number in range(5000)}, tmp_path)) < 600


@pytest.mark.parametrize("key", [1, (1, 2), None, b"fc.weight"])
def test_names_that_are_no_text_do_not_fit(key: Any, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="does not fit model"):
        load_model("digits-cnn", saved(tmp_path, {key: torch.ones(2)}))


@pytest.mark.parametrize("dtype", [torch.int8, torch.bool])
def test_whole_numbers_are_called_what_they_are_and_no_model_is_recommended(
    dtype: torch.dtype, tmp_path: Path
) -> None:
    state = build_model("digits-cnn").state_dict()
    state["fc1.weight"] = state["fc1.weight"].to(dtype)
    with pytest.raises(CheckpointError, match=rf"fc1\.weight is of {dtype}, should be floats") as caught:
        load_model("digits-cnn", saved(tmp_path, state))
    assert "give that as the model" not in str(caught.value)


def entry(dtype: str) -> dict[str, Any]:
    return {"a": {"dtype": dtype, "shape": [1], "data_offsets": [0, 4]}}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\1\0",
        (2**63).to_bytes(8, "little") + b"{",
        (99_000_000).to_bytes(8, "little") + b"{}",
        b"\x06" + bytes(7) + b'{"\xff":',
        *(len(text).to_bytes(8, "little") + text + bytes(4) for text in [json.dumps(entry("X99")).encode()]),
    ],
    ids=["empty", "two bytes", "huge header", "large header", "not UTF-8", "unknown type"],
)
def test_a_safetensors_file_with_a_bad_header_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "w.safetensors").write_bytes(content)
    with pytest.raises(CheckpointError, match=r"is empty|is no safetensors file or is damaged"):
        read_state(tmp_path / "w.safetensors")


def test_a_header_length_that_reads_like_a_web_page_is_none(tmp_path: Path) -> None:
    file = tmp_path / "w.safetensors"
    for size in range(15_200, 15_400):
        save_file(STATE, file, {"note": "x" * size})
        if file.read_bytes()[:2] == b" <":
            break
    assert file.read_bytes()[:2] == b" <"
    assert read_state(file).keys() == STATE.keys()


@pytest.mark.parametrize("path", ["x" * 5000, "~nobody-of-this-name/w.pt", "no\0thing"])
def test_a_path_of_weights_that_cannot_be_looked_up_is_refused(path: str) -> None:
    with pytest.raises(ModelError, match=r"cannot look for|does not exist"):
        load_model("digits-cnn", path)


@pytest.mark.parametrize(
    "name", ["a[/b].bin", "n[red]x.bin", "new\nline.bin", "lr=0.1/a:b.bin", "\udcff.bin"]
)
def test_weights_may_have_any_name(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    saved(tmp_path, build_model("digits-cnn").state_dict()).rename(tmp_path / name)
    monkeypatch.setenv("HOME", str(tmp_path))
    load_model("digits-cnn", tmp_path / name)
    load_model("digits-cnn", f"~/{name}")
