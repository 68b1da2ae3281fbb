"""Networks made by a callable of the user's, by torchvision, or by timm."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from gamagat.errors import GamagatError, ModelError
from gamagat.models.core import build_model, load_model

USER_CODE = """
import torch
from torch import nn

ready = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))

def make():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))

class Cast(nn.Module):
    def __init__(self, kind=torch.float64):
        super().__init__()
        self.kind, self.net = kind, make().to(kind)

    def forward(self, images):
        return self.net(images.to(self.kind))

def cast_to_half():
    return Cast(torch.bfloat16)

class Net(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Flatten(), nn.Linear(64, 10))

    @classmethod
    def small(cls):
        return cls()

def wants(width):
    return nn.Linear(width, 1)

def breaks():
    raise RuntimeError("no luck")

def number():
    return 3
"""


@pytest.fixture
def user_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A module in the current folder."""
    (tmp_path / "my_nets.py").write_text(USER_CODE)
    (tmp_path / "my_broken.py").write_text("1 / 0")
    (tmp_path / "my_needy.py").write_text("import a_package_that_is_not_there")
    monkeypatch.chdir(tmp_path)
    yield "my_nets"
    for name in ("my_nets", "my_broken", "my_needy"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("attribute", ["make", "ready", "Net", "Net.small"])
def test_a_callable_of_the_user_makes_the_network(user_code: str, attribute: str) -> None:
    net = load_model(f"{user_code}:{attribute}", classes=10, channels=1)
    assert not net.training
    assert net(torch.rand(2, 1, 8, 8)).dtype == torch.float32
    assert str(Path.cwd()) not in sys.path


@pytest.mark.parametrize(("attribute", "kind"), [("Cast", torch.float64), ("cast_to_half", torch.bfloat16)])
def test_code_of_the_user_keeps_its_precision(user_code: str, attribute: str, kind: torch.dtype) -> None:
    """It may cast the images itself, and no longer fits them when its weights are cast as well."""
    net = load_model(f"{user_code}:{attribute}")
    assert net(torch.rand(2, 1, 8, 8)).dtype == kind


def test_a_callable_takes_weights_too(user_code: str, tmp_path: Path) -> None:
    state = {"1.weight": torch.ones(10, 64), "1.bias": torch.zeros(10)}
    save_file(state, tmp_path / "w.safetensors")
    net = load_model(f"{user_code}:make", tmp_path / "w.safetensors")
    assert torch.equal(net(torch.ones(1, 1, 8, 8)), torch.full((1, 10), 64.0))


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("my_nets:wants", "nn.Module (missing a required argument: 'width'); name a function of yours"),
        ("my_nets:torch", "must be callable without arguments"),
        ("my_nets:breaks", "calling 'my_nets:breaks' failed: RuntimeError('no luck')"),
        ("my_nets:number", "must give a torch.nn.Module, got int"),
        ("my_nets:mak", "unknown callable of 'my_nets' 'mak'; did you mean 'make'?"),
        ("my_broken:make", "importing 'my_broken' for model 'my_broken:make' failed: ZeroDivisionError"),
        ("my_needy:make", "No module named 'a_package_that_is_not_there'"),
        ("no_such_module.deep:make", "no module 'no_such_module.deep' in"),
        ("resnet_18:make", "did you mean the registered model 'resnet18'?"),
    ],
)
def test_a_callable_that_does_not_work_is_refused_in_words(user_code: str, spec: str, words: str) -> None:
    with pytest.raises(GamagatError) as caught:
        load_model(spec)
    assert words in str(caught.value)


class FakeLibrary(ModuleType):
    """Stands in for torchvision.models and timm: remembers how it was called."""

    def get_model(self, name: str, **options: Any) -> nn.Module:
        if name != "tiny":
            raise ValueError(f"Unknown model {name}")
        self.options = options
        return nn.Sequential(nn.Flatten(), nn.Linear(12, options.get("num_classes", 1000)))

    create_model = get_model


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> FakeLibrary:
    fake = FakeLibrary("fake")
    monkeypatch.setitem(sys.modules, "torchvision", ModuleType("torchvision"))
    monkeypatch.setitem(sys.modules, "torchvision.models", fake)
    monkeypatch.setitem(sys.modules, "timm", fake)
    return fake


def test_torchvision_is_asked_for_a_network_without_weights(library: FakeLibrary) -> None:
    net = build_model("torchvision:tiny", classes=7, channels=3)
    assert library.options == {"weights": None, "num_classes": 7}
    assert net(torch.rand(2, 3, 2, 2)).shape == (2, 7)
    build_model("torchvision:tiny")
    assert library.options == {"weights": None}


def test_timm_is_asked_for_a_network_without_weights(library: FakeLibrary) -> None:
    build_model("timm:tiny", classes=7, channels=1)
    assert library.options == {"pretrained": False, "num_classes": 7, "in_chans": 1}


def test_a_library_network_is_normalised_on_demand_and_takes_weights(
    library: FakeLibrary, tmp_path: Path
) -> None:
    save_file({"1.weight": torch.ones(7, 12), "1.bias": torch.zeros(7)}, tmp_path / "w.safetensors")
    net = load_model("timm:tiny:normalize=half", tmp_path / "w.safetensors", classes=7)
    assert torch.equal(net(torch.ones(1, 3, 2, 2)), torch.full((1, 7), 12.0))


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("torchvision:large", "torchvision cannot make 'large': Unknown model large"),
        ("timm:large", "timm cannot make 'large'"),
        ("timm:hf-hub:some/name", "cannot read"),
        ("timm:some/name", "write timm:NAME"),
        ("timm:tiny:depth=3", "write timm:NAME"),
        ("torchvision:", "write torchvision:NAME"),
        ("torchvision:tiny", "has no weights"),
    ],
)
def test_a_library_spec_that_does_not_work_is_refused_in_words(
    library: FakeLibrary, spec: str, words: str
) -> None:
    with pytest.raises(GamagatError) as caught:
        load_model(spec)
    assert words in str(caught.value)


def test_torchvision_networks_take_colour_images_only(library: FakeLibrary) -> None:
    with pytest.raises(ModelError, match="3 channels, the data has 1"):
        build_model("torchvision:tiny", channels=1)


@pytest.mark.parametrize("name", ["torchvision", "timm"])
def test_a_library_that_is_not_installed_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (name, f"{name}.models"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ModelError, match=rf"pip install gamagat\[{name}\]"):
        load_model(f"{name}:resnet18")
