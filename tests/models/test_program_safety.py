"""A torch.export archive cannot run code while it is loaded, though torch alone would let it."""

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from model_helpers import Payload
from torch import Tensor, nn

from gamagat.errors import ModelError
from gamagat.models.core import load_model


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.fc(x.flatten(1))
        return scores


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("programs") / "net.pt2"
    batch = ({0: torch.export.Dim("batch")},)
    torch.export.save(torch.export.export(Net(), (torch.rand(2, 1, 8, 8),), dynamic_shapes=batch), file)
    return file


def rewritten(
    source: Path, target: Path, change: Callable[[str, bytes], bytes | None], **extra: bytes
) -> Path:
    """A copy of the archive with changed records, None to leave one out, and further ones."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            content = change(name, old.read(name))
            if content is not None:
                new.writestr(name, content)
        for name, content in extra.items():
            new.writestr(f"net/{name}", content)
    return target


def edited(exported: Path, target: Path, change: Callable[[dict[str, Any]], object], record: str) -> Path:
    """A copy whose JSON record was changed in place."""

    def apply(name: str, content: bytes) -> bytes:
        if not name.endswith(record):
            return content
        tree = json.loads(content)
        change(tree)
        return json.dumps(tree).encode()

    return rewritten(exported, target, apply)


def pickled(mark: Path) -> bytes:
    buffer = io.BytesIO()
    torch.save(((Payload(mark),), {}), buffer)
    return buffer.getvalue()


def graph(tree: dict[str, Any]) -> dict[str, Any]:
    inner: dict[str, Any] = tree["graph_module"]["graph"]
    return inner


def first_size(tree: dict[str, Any]) -> dict[str, Any]:
    size: dict[str, Any] = graph(tree)["tensor_values"]["x"]["sizes"][0]["as_expr"]
    return size


ATTACKS: dict[str, Callable[[dict[str, Any], Path], object]] = {
    "expr_str": lambda tree, mark: first_size(tree).update(expr_str=f"__import__('os').mkdir('{mark}')"),
    "guards_code": lambda tree, mark: tree["guards_code"].append(f"__import__('os').mkdir('{mark}') is None"),
    "target": lambda tree, mark: graph(tree)["nodes"][0].update(target="torch.hub.load"),
    "a name": lambda tree, mark: graph(tree)["tensor_values"].update({"x): import os": {}}),
    "forward_arg_names": lambda tree, mark: tree["graph_module"]["module_call_graph"][0]["signature"].update(
        forward_arg_names=["x=__import__('os').mkdir('mark')"]
    ),
    "in_spec": lambda tree, mark: tree["graph_module"]["module_call_graph"][0]["signature"].update(
        in_spec='[1, {"type": "x; import os", "context": "null", "children_spec": []}]'
    ),
}


@pytest.mark.parametrize("place", ATTACKS)
def test_code_in_the_description_of_a_program_is_refused(place: str, exported: Path, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    file = edited(
        exported, tmp_path / "evil.pt2", lambda tree: ATTACKS[place](tree, mark), "models/model.json"
    )
    with pytest.raises(ModelError, match="is refused: it has"):
        load_model(str(file))
    assert not mark.exists()


def test_a_pickled_tensor_in_a_program_is_refused(exported: Path, tmp_path: Path) -> None:
    def use_pickle(tree: dict[str, Any]) -> None:
        next(iter(tree["config"].values()))["use_pickle"] = True

    file = edited(exported, tmp_path / "evil.pt2", use_pickle, "model_weights_config.json")
    with pytest.raises(ModelError, match="a pickled tensor"):
        load_model(str(file))


def test_sample_inputs_that_need_code_are_refused(exported: Path, tmp_path: Path) -> None:
    mark = tmp_path / "mark"

    def change(name: str, content: bytes) -> bytes:
        return pickled(mark) if name.endswith("sample_inputs/model.pt") else content

    file = rewritten(exported, tmp_path / "evil.pt2", change)
    # This is what happens without the check: the code runs.
    assert torch.load(io.BytesIO(pickled(tmp_path / "control")), weights_only=False)
    assert (tmp_path / "control").exists()
    with pytest.raises(ModelError, match="a pickle that needs code"):
        load_model(str(file))
    assert not mark.exists()


@pytest.mark.parametrize(
    "record", ["data/aotinductor/model/a.so", "data/constants/custom_obj_0", "data/constants/opaque_obj_0"]
)
def test_compiled_code_and_pickled_objects_are_refused(record: str, exported: Path, tmp_path: Path) -> None:
    file = rewritten(exported, tmp_path / "evil.pt2", lambda _, content: content, **{record: b"x"})
    with pytest.raises(ModelError, match="compiled code or a pickled object"):
        load_model(str(file))


def test_notes_and_extra_files_of_a_program_do_no_harm(exported: Path, tmp_path: Path) -> None:
    file = rewritten(
        exported, tmp_path / "net.pt2", lambda _, content: content, **{"extra/readme": b"import os"}
    )
    x = torch.rand(3, 1, 8, 8)
    assert torch.equal(load_model(str(file))(x), load_model(str(exported))(x))
