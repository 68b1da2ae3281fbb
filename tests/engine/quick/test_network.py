"""Each network gets a stand-in that agrees with it, or none; and what is said about it is one sentence."""

import gc
import logging
import random
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from quick.nets import (
    Around,
    OneOf,
    Remembering,
    Straight,
    Viewing,
    alike,
    controlled,
    nearly,
    noisy,
    own_dice,
    usual,
    weighted,
    written_over,
)
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from gamagat.engine.quick import network
from gamagat.engine.quick.agreement import LOOKS
from gamagat.engine.quick.half import HalfNetwork, louder, tuned
from gamagat.engine.quick.network import Quick, check_precision, quickened, remembered
from gamagat.engine.runtime import borrowed
from gamagat.errors import ConfigError
from helpers import images_like

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
SAMPLE = images_like(32)
FOLDED, AUTOCAST = "fp16, batch norms folded", "fp16 by autocast"


def tried(model: Any, precision: str, passes: int = 10) -> tuple[Quick | None, list[str]]:
    """The stand-in and what was said; if there is one, it agrees on images that it was not tried on."""
    said: list[str] = []
    with borrowed(model):
        quick = quickened(model, precision, SAMPLE, passes, said.append)
    if quick is not None:
        for count in (9, 20, 33):
            (nearly if quick.half else alike)(model, quick.model, images_like(count, seed=count))
        alike(model, quick.model, images_like(1), off=0.05 if quick.half else 1e-4, share=0.0)
    return quick, said


def changed(change: Callable[[nn.Sequential], object]) -> nn.Module:
    """The usual network after something was done to it."""
    net = usual()
    with torch.no_grad():
        change(net)
    return net


def louder_last(net: nn.Sequential, times: float) -> None:
    net[7].weight.mul_(times)
    net[7].bias.mul_(times)


ODD: dict[
    str, tuple[Callable[[], Any], bool, str | None]
] = {  # whether it can be folded, and what fp16 takes
    "usual": (usual, True, FOLDED),
    "control flow": (lambda: Around(controlled), False, AUTOCAST),
    "its own batch size": (Remembering, False, AUTOCAST),
    "straight through": (lambda: Around(lambda net, x: net(Straight.apply(x))), False, AUTOCAST),
    "hook on it": (lambda: changed(lambda n: n.register_forward_hook(lambda *a: a[2] * 3)), False, AUTOCAST),
    "hook before it": (
        lambda: changed(lambda n: n.register_forward_pre_hook(lambda _, given: (given[0] - 0.5,))),
        False,
        AUTOCAST,
    ),
    "hook inside": (
        lambda: changed(lambda n: n[0].register_forward_hook(lambda *a: a[2].clamp(max=0.1))),
        True,
        FOLDED,
    ),
    "input written over": (lambda: Around(written_over), True, FOLDED),
    "view": (Viewing, True, FOLDED),
    "huge logits": (lambda: changed(lambda n: louder_last(n, 1e6)), True, None),
    "tiny logits": (lambda: changed(lambda n: louder_last(n, 1e-6)), True, FOLDED),
    "overflow inside": (lambda: changed(lambda n: n[3].weight.mul_(1e7)), True, None),
    "weight norm": (lambda: weighted(parametrizations.weight_norm), True, FOLDED),
    "spectral norm": (lambda: weighted(parametrizations.spectral_norm), True, FOLDED),
    "no parameters": (lambda: nn.Sequential(nn.AvgPool2d(2), nn.Flatten()), True, FOLDED),
    "buffers alone": (lambda: changed(lambda n: n.requires_grad_(False)), True, FOLDED),
    "complex numbers": (
        lambda: Around(lambda net, x: net(torch.fft.ifft2(torch.fft.fft2(x)).real)),
        True,
        FOLDED,
    ),
    "TorchScript": (lambda: torch.jit.trace(usual(), SAMPLE, check_trace=False), False, AUTOCAST),
    "statistics of the batch": (
        lambda: changed(lambda n: setattr(n[1], "running_mean", None) or setattr(n[1], "running_var", None)),
        False,
        None,
    ),
}


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize(("make", "folds", "half"), ODD.values(), ids=ODD)
def test_an_odd_network_has_a_stand_in_that_agrees_or_none(make, folds, half, capfd):
    single, said = tried(make(), "auto")
    assert (single is not None) == folds
    assert said == []
    quick, said = tried(make(), "fp16")
    assert (quick.words if quick else None) == half, said
    for sentence in said:
        assert "\n" not in sentence
        assert len(sentence) < 250
        assert sentence.startswith(("fp16, batch norms folded: ", "fp16 by autocast: "))
        assert sentence.endswith(("; attacks use fp16 by autocast", "; attacks use the network as it is"))
    assert len(said) == (2 if quick is None else [FOLDED, AUTOCAST].index(quick.words))
    assert capfd.readouterr() == ("", "")


def test_warnings_of_the_attempt_are_nobodys_business():
    def warning(net: nn.Module, images: Tensor) -> Tensor:
        warnings.warn("something", UserWarning, stacklevel=1)
        return net(images)

    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        made = network._tried(network.Rung("a way", usual), Around(warning), SAMPLE)
    assert made is not None
    assert heard == []


def left_alone(model: nn.Module, precision: str) -> bool:
    """Whether attacks see the network itself; who asked for half precision is told."""
    quick, words = tried(model, precision)
    told = [precision == "fp16" and isinstance(model, nn.Module)]
    return quick is None and [word.endswith("attacks use it as it is") for word in words] == told[: sum(told)]


RANDOM: dict[str, Callable[[], nn.Module]] = {
    "torch": lambda: Around(noisy),
    "python": lambda: OneOf(lambda: random.randrange(2)),
    "numpy": lambda: OneOf(lambda: int(np.random.randint(2))),
    "rarely": lambda: OneOf(lambda: int(random.random() < 1e-9)),
    "dice of its own": lambda: OneOf(own_dice()),
    "turns": lambda: OneOf(iter([0, 1] * 500).__next__),
}


@pytest.mark.parametrize("precision", ["auto", "fp16"])
@pytest.mark.parametrize("make", RANDOM.values(), ids=RANDOM)
def test_a_network_that_leaves_its_answer_to_chance_is_left_alone(make, precision):
    assert left_alone(make(), precision)


@pytest.mark.parametrize("make", [*RANDOM.values(), usual], ids=[*RANDOM, "steady"])
def test_a_look_draws_no_random_numbers_of_the_caller(make):
    def throw() -> list[float]:
        return [random.random(), np.random.random(), float(torch.rand(()))]

    net = make()
    state = random.getstate(), np.random.get_state(), torch.get_rng_state()
    expected = throw()
    random.setstate(state[0])
    np.random.set_state(state[1])
    torch.set_rng_state(state[2])
    quickened(net, "fp16", SAMPLE, 10, lambda words: None)
    assert throw() == expected


@pytest.mark.parametrize(
    "model",
    [
        lambda images: images.flatten(1)[:, :5],
        nn.Sequential(nn.Flatten(), nn.Linear(7, 5)),
        Around(lambda net, x: (net(x), x)),
        Around(lambda net, x: net(x.double())),
    ],
    ids=["no module", "other images", "two outputs", "another precision"],
)
def test_what_cannot_be_tried_is_left_alone(model):
    assert left_alone(model, "auto")
    assert left_alone(model, "fp16")


def test_a_program_for_one_batch_size_is_left_alone():
    program = torch.export.export(usual(), (SAMPLE[:16],)).module()
    assert left_alone(program, "auto")
    assert left_alone(program, "fp16")


@pytest.mark.parametrize("precision", ["fp32", "tf32"])
def test_the_network_itself_is_no_stand_in(precision):
    assert tried(usual(), precision) == (None, [])


def test_a_single_image_is_sample_enough():
    quick = quickened(usual(), "auto", SAMPLE[:1], 10, lambda words: None)
    assert quick is not None
    alike(usual(), quick.model, images_like(5))


@pytest.mark.parametrize(
    "lie", [lambda y: y * 1.01, lambda y: y.roll(1, 1), lambda y: y.detach() + 0 * y.sum()]
)
def test_a_stand_in_that_differs_is_not_taken(monkeypatch, lie):
    monkeypatch.setattr(network, "_single", lambda model: lambda images: lie(model(images)))
    assert tried(usual(), "auto") == (None, [])


def test_a_stand_in_that_remembers_a_batch_size_is_not_taken(monkeypatch):
    monkeypatch.setattr(network, "_single", lambda model: lambda x: model(x) * (1.0 if len(x) == 32 else 2.0))
    assert tried(usual(), "auto") == (None, [])


@pytest.mark.parametrize("name", ["", "half", "FP16", "bf16", None])
def test_a_precision_that_is_none_is_named(name):
    with pytest.raises(ConfigError, match="precision must be one of auto, fp32, tf32, fp16, got"):
        check_precision(name, CPU)


@pytest.mark.parametrize("name", ["tf32", "fp16"])
def test_a_precision_of_gpus_needs_one(name):
    with pytest.raises(
        ConfigError, match=f"precision {name} needs a GPU, this device is cpu; use auto or fp32"
    ):
        check_precision(name, CPU)
    assert check_precision(name, CUDA) == name


def test_auto_is_half_on_a_gpu_alone():
    assert check_precision("auto", CUDA) == "fp16"
    assert check_precision("auto", CPU) == "auto"


def test_compiling_is_for_long_work():
    words = [[rung.words for rung in network._rungs(usual(), "fp16", passes)] for passes in (10, 10**7)]
    assert words[0] == [FOLDED, AUTOCAST]
    assert words[1] == [f"{FOLDED}, compiled", f"{AUTOCAST}, compiled", *words[0]]


@pytest.mark.parametrize(("size", "factor"), [(0.01, 2.0**12), (1.0, 2.0**8), (30.0, 2.0**4), (1e3, 1.0)])
def test_gradients_are_as_loud_as_they_may_be(size, factor):
    """With its headroom of 64 the gradient, which is as large as the size, must stay below 65504."""
    half = HalfNetwork(lambda images: images.half().flatten(1)[:, :5].float() * size)
    assert tuned(half, SAMPLE)
    assert half.factor == factor


def test_gradients_that_overflow_however_soft_are_refused():
    assert not tuned(HalfNetwork(lambda images: images.half().flatten(1).float() * 1e5), SAMPLE)


def test_loud_gradients_come_back_as_they_were():
    net = HalfNetwork(lambda images: images.flatten(1)[:, :5])
    net.factor = 2.0**12
    images = images_like(2).requires_grad_()
    (grad,) = torch.autograd.grad(net(images).sum(), images)
    assert float(grad.sum()) == 10.0
    assert torch.equal(louder(images, 3.0), images)


def test_a_small_gradient_survives_half_precision():
    net = changed(lambda n: louder_last(n, 1e-6))
    quick, _ = tried(net, "fp16")
    assert quick is not None
    images = images_like(4)
    quick.model.factor = 1.0
    with pytest.raises(AssertionError):
        nearly(net, quick.model, images)


class Scaled(nn.Module):
    """A network with a setting that is no weight."""

    def __init__(self) -> None:
        super().__init__()
        self.net, self.size = usual(), 1.0

    def forward(self, images: Tensor) -> Tensor:
        return self.net(images) * self.size


def known(model: Any, weights: str = "w", sample: Tensor = SAMPLE) -> Quick | None:
    return remembered(model, weights, "auto", sample, 10, lambda words: None)


def test_a_network_is_tried_once():
    net = Scaled()
    first, *later = known(net), known(net), known(net, sample=images_like(20, seed=9)), known(net, "others")
    assert first is not None
    assert [quick is not None and quick.model is first.model for quick in later] == [True, True, False]
    assert known(lambda images: images) is None


def test_the_error_of_a_stand_in_is_that_of_today():
    net = Scaled()
    before = known(net)
    net.size = 1.0005  # within what a stand-in may differ by
    after = known(net)
    assert before is not None
    assert after is not None
    assert after.model is before.model
    assert after.error > 10 * before.error


def test_a_stand_in_that_the_network_has_left_behind_is_made_anew():
    net = Scaled()
    first = known(net)
    net.size = 3.0
    second = known(net)
    assert first is not None
    assert second is not None
    assert second is not first
    alike(net, second.model, images_like(4))
    net.register_forward_hook(lambda module, given, logits: logits.flip(1))
    assert known(net) is None


@pytest.mark.parametrize("serves", [True, False])
def test_what_was_compiled_serves_those_who_ask_for_less(monkeypatch, serves):
    asked: list[int] = []

    def made(model, precision, sample, passes, say):
        asked.append(passes)
        return Quick(model, "a stand-in", False) if serves else None  # then the network itself, as often

    monkeypatch.setattr(network, "quickened", made)
    net, many = usual(), network.WORTH_COMPILING
    for passes in (10, 20, many, 10, 2 * many):
        remembered(net, "w", "auto", SAMPLE, passes, lambda words: None)
    assert asked == [10, many]
    remembered(net, "others", "auto", SAMPLE, 10, lambda words: None)
    remembered(net, "others", "auto", SAMPLE, many, lambda words: None)
    assert asked == [10, many, 10, many]


def test_a_stand_in_of_a_network_that_became_random_is_given_up():
    net = Around(lambda inner, images: inner(images))
    assert known(net) is not None
    net.front = noisy
    assert known(net) is None


def test_what_is_remembered_goes_with_the_network():
    net = Scaled()
    quick = known(net)
    assert quick is not None
    ref = weakref.ref(quick.model)
    del quick, net
    gc.collect()
    assert ref() is None


def modules() -> list[nn.Module]:
    """All that are alive."""
    return [found for found in gc.get_objects() if issubclass(type(found), nn.Module)]


def test_the_copy_is_freed():
    for precision in ("auto", "fp16"):
        net = usual()
        before = set(map(id, modules()))
        quick, _ = tried(net, precision)
        new = [module for module in modules() if id(module) not in before]
        refs = [weakref.ref(module) for module in new]
        assert refs
        del quick, new
        gc.collect()
        assert not [ref for ref in refs if ref() is not None]


@pytest.mark.parametrize("stop", [RuntimeError("on purpose"), KeyboardInterrupt()])
def test_switches_are_as_before_whatever_happens(stop):
    logger = logging.getLogger("torch.utils._sympy.interp")

    def switches() -> list[Any]:
        matmul, conv = torch.backends.cuda.matmul, torch.backends.cudnn.conv
        flags = [torch.is_autocast_enabled("cpu"), torch.is_grad_enabled(), logger.level]
        return [*flags, matmul.fp32_precision, conv.fp32_precision]

    class Failing(nn.Module):
        calls = 0

        def forward(self, images):
            self.calls += 1
            if self.calls > LOOKS:
                raise stop
            return images.flatten(1)[:, :5]

    before = switches()
    for precision in ("auto", "fp16"):
        try:
            assert quickened(Failing(), precision, SAMPLE, 10, lambda words: None) is None
        except KeyboardInterrupt:
            assert isinstance(stop, KeyboardInterrupt)
        assert switches() == before


@pytest.mark.parametrize("outer", [torch.no_grad, torch.enable_grad])
def test_the_callers_mode_of_gradients_does_not_matter(outer):
    with outer():
        quick = quickened(usual(), "auto", SAMPLE, 10, lambda words: None)
    assert quick is not None


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # the compiler's own
def test_a_compiled_network_agrees_at_any_batch_size():
    quick, said = tried(usual(), "fp16", network.WORTH_COMPILING)
    assert quick is not None
    assert quick.words == f"{FOLDED}, compiled"
    assert said[0].startswith("compiling the network")
    assert said[-1].startswith("compiled in ")
