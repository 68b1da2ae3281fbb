"""Data sets of the hub, with a stand-in for the package that fetches them."""

import io
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image as Pillow

from gamagat.data.core import load_data
from gamagat.errors import ConfigError, DataError

PIXELS = np.random.default_rng(0).integers(0, 256, (3, 6, 8, 3), np.uint8)


class Image:
    def __init__(self, decode: bool = True) -> None:
        self.decode = decode


class ClassLabel:
    def __init__(self, *names: str) -> None:
        self.names = list(names)


class Value:
    pass


class Table:
    """As much of a table as is used: columns by name, rows by number, undecoded images."""

    def __init__(self, features: dict[str, Any], columns: dict[str, list[Any]]) -> None:
        self.features, self.columns = features, columns

    def cast_column(self, name: str, feature: Any) -> "Table":
        return Table(self.features | {name: feature}, self.columns)

    def __getitem__(self, key: int | str) -> Any:
        if isinstance(key, str):
            assert not isinstance(self.features[key], Image), "this would decode every image"
            return iter(self.columns[key])
        row = {name: column[key] for name, column in self.columns.items()}
        assert all(not f.decode for f in self.features.values() if isinstance(f, Image))
        return row


def encoded() -> list[dict[str, Any]]:
    cells = []
    for pixels in PIXELS:
        buffer = io.BytesIO()
        Pillow.fromarray(pixels).save(buffer, "PNG")
        cells.append({"bytes": buffer.getvalue(), "path": None})
    return cells


def use(monkeypatch: pytest.MonkeyPatch, table: Table | Exception) -> list[tuple[Any, ...]]:
    """Install the stand-in; returns what it is asked for."""
    asked: list[tuple[Any, ...]] = []

    def load_dataset(name: str, config: str | None, *, split: str, cache_dir: str | None) -> Table:
        asked.append((name, config, split, cache_dir))
        if isinstance(table, Exception):
            raise table
        return table

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    return asked


def test_columns_are_found_by_their_types(monkeypatch: pytest.MonkeyPatch) -> None:
    features = {"note": Value(), "picture": Image(), "kind": ClassLabel("cat", "dog")}
    asked = use(monkeypatch, Table(features, {"note": ["", "", ""], "picture": encoded(), "kind": [1, 0, 1]}))
    data = load_data("hf:someone/pets@small", "train")
    assert asked == [("someone/pets", "small", "train", None)]
    assert data.classes == ("cat", "dog")
    assert data.labels.tolist() == [1, 0, 1]
    assert data.shape == (3, 6, 8)
    assert np.array_equal(data.read(torch.arange(3)).permute(0, 2, 3, 1).numpy(), PIXELS)
    assert len(set(data.ids.tolist())) == 3


def test_a_configuration_is_optional_and_the_data_folder_is_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    table = Table({"image": Image(), "label": Value()}, {"image": encoded(), "label": [0, 2, 1]})
    asked = use(monkeypatch, table)
    data = load_data("hf:pets", data_dir=tmp_path)
    assert asked == [("pets", None, "test", str(tmp_path / "huggingface"))]
    assert data.classes == ("0", "1", "2")


def test_images_may_be_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    Pillow.fromarray(PIXELS[0]).save(tmp_path / "a.png")
    cell = {"bytes": None, "path": str(tmp_path / "a.png")}
    use(monkeypatch, Table({"image": Image(), "label": ClassLabel("cat")}, {"image": [cell], "label": [0]}))
    assert np.array_equal(load_data("hf:pets").read(torch.tensor([0]))[0].permute(1, 2, 0).numpy(), PIXELS[0])


def test_of_several_labels_the_usual_one_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    features = {"image": Image(), "coarse_label": ClassLabel("pet"), "fine_label": ClassLabel("cat", "dog")}
    columns = {"image": encoded(), "coarse_label": [0, 0, 0], "fine_label": [1, 0, 0]}
    use(monkeypatch, Table(features, columns))
    assert load_data("hf:pets").classes == ("cat", "dog")


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ({"label": ClassLabel("a")}, r"one column of type Image, its columns are: label \(ClassLabel\)"),
        ({"a": Image(), "b": Image(), "label": Value()}, "one column of type Image"),
        ({"image": Image(), "text": Value()}, "one column of type ClassLabel"),
        ({"image": Image(), "a": ClassLabel("x"), "b": ClassLabel("y")}, "one column of type ClassLabel"),
    ],
)
def test_unclear_columns_are_listed(
    monkeypatch: pytest.MonkeyPatch, features: dict[str, Any], message: str
) -> None:
    use(monkeypatch, Table(features, {name: [] for name in features}))
    with pytest.raises(DataError, match=message):
        load_data("hf:pets")


@pytest.mark.parametrize("bad", ["cat", None])
def test_labels_that_are_no_numbers_are_refused(monkeypatch: pytest.MonkeyPatch, bad: str | None) -> None:
    use(monkeypatch, Table({"image": Image(), "label": Value()}, {"image": encoded(), "label": [0, 1, bad]}))
    with pytest.raises(DataError, match="column 'label', are not whole numbers"):
        load_data("hf:pets")


def test_an_empty_table_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, Table({"image": Image(), "label": ClassLabel("a")}, {"image": [], "label": []}))
    with pytest.raises(DataError, match="no images"):
        load_data("hf:pets")


def test_a_damaged_image_is_numbered(monkeypatch: pytest.MonkeyPatch) -> None:
    cells = [*encoded()[:2], {"bytes": b"nothing", "path": None}]
    use(monkeypatch, Table({"image": Image(), "label": Value()}, {"image": cells, "label": [0, 0, 0]}))
    with pytest.raises(DataError, match="image 2 cannot be read"):
        load_data("hf:pets")


def test_an_unknown_split_passes_on_what_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, ValueError("Unknown split 'dev'. Should be one of ['train', 'test']."))
    with pytest.raises(ConfigError, match=r"hf:pets, split 'dev'.*one of \['train', 'test'\]"):
        load_data("hf:pets", "dev")


def test_an_unreachable_hub_is_an_error_of_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, ConnectionError("no route to the hub"))
    with pytest.raises(DataError, match="hf:pets cannot be loaded: no route"):
        load_data("hf:pets")


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(DataError, match=r"pip install gamagat\[hf\]"):
        load_data("hf:pets")
