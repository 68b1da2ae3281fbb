import subprocess
import sys

import pytest
import torch
from torch import nn

from gamagat.engine import runtime
from gamagat.engine.judge import predict
from gamagat.engine.runtime import (
    borrowed,
    choose_device,
    default_batch_size,
    device_of,
    full_precision,
    own_dice,
)
from gamagat.errors import ConfigError


def untidy() -> nn.Module:
    """A network with mixed modes and a frozen parameter."""
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Dropout())
    net.train()
    net[1].eval()
    net[0].weight.requires_grad_(False)
    return net


def condition(net: nn.Module) -> tuple[list[bool], list[bool]]:
    return [m.training for m in net.modules()], [p.requires_grad for p in net.parameters()]


def test_a_borrowed_network_is_in_eval_mode_and_frozen():
    net = untidy()
    with borrowed(net):
        assert not any(module.training for module in net.modules())
        assert not any(parameter.requires_grad for parameter in net.parameters())


def test_a_borrowed_network_comes_back_as_it_was_also_after_an_error():
    net = untidy()
    before = condition(net)

    def fail() -> None:
        with borrowed(net):
            raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError, match="on purpose"):
        fail()
    assert condition(net) == before


def test_a_plain_function_can_be_borrowed():
    with borrowed(lambda images: images):
        pass
    assert device_of(lambda images: images) is None


@pytest.mark.parametrize("last", [0, 1])
def test_of_several_who_throw_dice_at_a_time_the_last_gives_the_callers_state_back(last):
    """In threads they come and go in any order; one state of torch's serves all of them."""
    torch.manual_seed(7)
    before = torch.get_rng_state()
    both = [own_dice(1), own_dice(2)]
    for dice in both:
        dice.__enter__()
    drawn = torch.rand(1)
    for dice in (both[1 - last], both[last]):
        dice.__exit__(None, None, None)
    assert torch.equal(torch.get_rng_state(), before)
    with own_dice(2):
        assert torch.equal(torch.rand(1), drawn)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.fixture
def precision():
    """Torch's own switches, put back afterwards."""
    places = (torch.backends.cuda.matmul, torch.backends.cudnn.conv, torch.backends.cudnn.rnn)
    before = [place.fp32_precision for place in places]
    yield places
    for place, value in zip(places, before, strict=True):
        place.fp32_precision = value


@pytest.mark.parametrize("wanted", ["tf32", "ieee", "none"])
def test_full_precision_is_full_and_given_back(precision, wanted):
    for place in precision:
        place.fp32_precision = wanted
    with full_precision():
        assert [place.fp32_precision for place in precision] == ["ieee"] * 3
    assert [place.fp32_precision for place in precision] == [wanted] * 3


def test_full_precision_leaves_the_callers_autocast_outside():
    layer, x = nn.Linear(4, 4), torch.rand(2, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        with full_precision():
            assert layer(x).dtype == torch.float32
        assert layer(x).dtype == torch.bfloat16


def test_the_judge_looks_in_full_precision(precision):
    seen = []

    def model(images):
        seen.append([place.fp32_precision for place in precision])
        return torch.zeros(len(images), 2)

    predict(model, torch.rand(1, 1, 2, 2))
    assert seen == [["ieee"] * 3]


@pytest.mark.parametrize("name", ["gpu", "cuda:99", "meta", "meta:x", "hpu", ""])
def test_a_device_that_is_not_there_is_named(name):
    with pytest.raises(ConfigError, match="is not to be had here"):
        choose_device(name)


def test_only_devices_that_are_there_are_recommended(monkeypatch):
    for count, words in ((0, "use auto, cpu$"), (2, "use auto, cpu, cuda, cuda:0, cuda:1$")):
        monkeypatch.setattr(torch.cuda, "device_count", lambda count=count: count)
        with pytest.raises(ConfigError, match=words):
            choose_device("gpu")


def test_batches_shrink_as_images_grow():
    cpu = torch.device("cpu")
    sizes = [default_batch_size(shape, cpu) for shape in ((1, 8, 8), (3, 32, 32), (3, 224, 224))]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] >= 1


class FakeLibrary:
    """Writes down what it is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int, int]] = []

    def mallopt(self, name: int, value: int) -> int:
        self.asked.append(("mallopt", name, value))
        return 1

    def malloc_trim(self, pad: int) -> int:
        self.asked.append(("malloc_trim", pad, 0))
        return 1


@pytest.fixture(autouse=True)
def untold(monkeypatch):
    for name in runtime.TOLD:
        monkeypatch.delenv(name, raising=False)


def test_memory_is_held_on_a_cpu_and_let_go_also_after_an_error(monkeypatch):
    library = FakeLibrary()
    monkeypatch.setattr(runtime, "_glibc", lambda: library)
    with runtime.held_memory(torch.device("cuda")):
        pass
    assert library.asked == []
    with pytest.raises(ZeroDivisionError), runtime.held_memory(torch.device("cpu")):
        raise ZeroDivisionError
    usual, held = [(-1, 2**26), (-3, 2**25)], [(-1, 2**31 - 1), (-3, 2**30)]
    calls = [("mallopt", *call) for call in (*usual, *held, *usual)]
    assert library.asked == [*calls, ("malloc_trim", 0, 0)]


def test_the_last_of_several_lets_memory_go(monkeypatch):
    library = FakeLibrary()
    monkeypatch.setattr(runtime, "_glibc", lambda: library)
    with runtime.held_memory(torch.device("cpu")):
        with runtime.held_memory(torch.device("cpu")):
            pass
        assert library.asked[-1] == ("mallopt", -3, 2**30)
    assert library.asked[-1] == ("malloc_trim", 0, 0)


@pytest.mark.parametrize("name", runtime.TOLD)
def test_who_has_told_the_library_how_to_keep_memory_is_obeyed(name, monkeypatch):
    library = FakeLibrary()
    monkeypatch.setattr(runtime, "_glibc", lambda: library)
    monkeypatch.setenv(name, "1")
    with runtime.held_memory(torch.device("cpu")):
        pass
    assert library.asked == []


FAULTS = """
import resource, torch
from gamagat.engine.runtime import held_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        torch.ones(1 << 23)  # 32 MiB, 8,192 pages
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

with held_memory(torch.device("cpu")):
    faults()
    print(faults())
print(faults())
"""


@pytest.mark.skipif(runtime._glibc() is None, reason="not this system's library")
def test_held_memory_is_not_paged_in_again():
    done = subprocess.run([sys.executable, "-c", FAULTS], capture_output=True, text=True, check=True)
    held, usual = map(int, done.stdout.split())
    assert held < usual / 3


def test_a_system_without_such_a_library_does_without(monkeypatch):
    def none(name: object) -> object:
        raise TypeError("the program is no library")

    monkeypatch.setattr(runtime.ctypes, "CDLL", none)
    assert runtime._glibc() is None
    with runtime.held_memory(torch.device("cpu")):
        pass
