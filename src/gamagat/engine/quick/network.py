"""Which arithmetic serves an attack: the fastest that still says what the network says, found by trying."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from threading import current_thread, main_thread
from time import perf_counter
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import nn

from gamagat.engine.quick.agreement import CLOSE, doubt, error_of, steady
from gamagat.engine.quick.folding import folded
from gamagat.engine.quick.grey import grey
from gamagat.engine.quick.half import HalfNetwork, tuned
from gamagat.engine.quick.halving import halved
from gamagat.engine.quick.winograd import winograd
from gamagat.errors import ConfigError
from gamagat.pieces.types import Images, Model

PRECISIONS = ("auto", "fp32", "tf32", "fp16")
WORTH_COMPILING = 300_000  # images through the network and back from which on compiling has paid

Say = Callable[[str], None]
_KNOWN: WeakKeyDictionary[nn.Module, tuple[Any, bool, Quick | None]] = WeakKeyDictionary()


class Quick(NamedTuple):
    """A stand-in for the network, and what it is."""

    model: Model
    words: str
    half: bool = False
    error: float = 0.0  # by how much its logits were off on the sample


class Rung(NamedTuple):
    """One way to make a stand-in."""

    words: str
    make: Callable[[], Model]
    kind: torch.dtype = torch.float32


def check_precision(name: str, device: torch.device) -> str:
    """The precision of attacks by its name; auto is fp16 on a GPU, and fp32 is the network as it is."""
    if name not in PRECISIONS:
        raise ConfigError(f"precision must be one of {', '.join(PRECISIONS)}, got {name!r}")
    if name in ("tf32", "fp16") and device.type != "cuda":
        raise ConfigError(f"precision {name} needs a GPU, this device is {device}; use auto or fp32")
    return "fp16" if name == "auto" and device.type == "cuda" else name


def quickened(model: Model, precision: str, sample: Images, passes: int, say: Say) -> Quick | None:
    """The fastest stand-in that agrees with the network on the sample; None if that is the network itself.

    `passes` is how many images will go through it: compiling wants many.
    """
    rungs = _rungs(model, precision, passes) if isinstance(model, nn.Module) else []
    if not rungs:
        return None
    if not steady(model, sample[:2]):
        if precision == "fp16":
            say("the network answers by chance or fails on two images; attacks use it as it is")
        return None
    for number, rung in enumerate(rungs):
        began = perf_counter()
        if "compiled" in rung.words:
            say("compiling the network for this GPU: up to a minute, kept for the next time")
        made = _tried(rung, model, sample)
        if isinstance(made, Quick):
            if "compiled" in rung.words:
                say(f"compiled in {perf_counter() - began:.0f} s")
            return made
        instead = rungs[number + 1].words if number + 1 < len(rungs) else "the network as it is"
        if rung.kind == torch.float16:
            say(f"{rung.words}: {made}; attacks use {instead}")
    return None


def remembered(
    model: Model, weights: str, precision: str, sample: Images, passes: int, say: Say
) -> Quick | None:
    """`quickened`, but once for a network as long as it lives and stays what it is.

    Tracing changes how every module of the process is called, so it is left to the main thread.
    """
    if not isinstance(model, nn.Module) or current_thread() is not main_thread():
        return None
    key = (weights, precision, sample.device, tuple(sample.shape[1:]))
    compiling = passes >= WORTH_COMPILING
    known, compiled, old = _KNOWN.get(model, (None, False, None))
    same = known == key and compiled >= compiling  # what was compiled serves those who ask for less, too
    quick = _again(old, model, sample) if same and old is not None else None
    if not same or (quick is None and old is not None):
        quick, compiled = quickened(model, precision, sample, passes, say), compiling
    _KNOWN[model] = key, compiled, quick
    return quick


def _again(quick: Quick, model: Model, sample: Images) -> Quick | None:
    """An old stand-in with its error of today; None if it no longer agrees.

    A hook or a setting changes a network without its weights.
    """
    rung = Rung(quick.words, lambda: quick.model, torch.float16 if quick.half else torch.float32)
    made = _tried(rung, model, sample) if steady(model, sample[:2]) else None
    return made if isinstance(made, Quick) else None


def _rungs(model: nn.Module, precision: str, passes: int) -> list[Rung]:
    """What to try, the fastest first."""
    if precision in ("fp32", "tf32"):
        return []
    if precision == "auto":
        words = "fp32, batch norms folded, channels last"
        return [
            Rung(f"{words}, own convolutions", partial(_single, model, True)),
            Rung(words, partial(_single, model, False)),
        ]
    half = torch.float16
    eager = [
        Rung("fp16, batch norms folded", partial(_half, model, True, False), half),
        Rung("fp16 by autocast", partial(_half, model, False, False), half),
    ]
    compiled = [
        Rung("fp16, batch norms folded, compiled", partial(_half, model, True, True), half),
        Rung("fp16 by autocast, compiled", partial(_half, model, False, True), half),
    ]
    return [*(compiled if passes >= WORTH_COMPILING else []), *eager]


def _single(model: nn.Module, own: bool) -> Model:
    net = folded(model).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    if own:
        if not grey(net) + winograd(net):
            raise ValueError("there is no such convolution, or no compiler")
        net.recompile()
    # `forward`, since a traced network that is called prints what fails in it.
    return lambda images: net.forward(images.contiguous(memory_format=torch.channels_last))


def _half(model: nn.Module, fold: bool, compiled: bool) -> Model:
    net = halved(folded(model)) if fold else deepcopy(model).eval()
    net = net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    if compiled:
        return HalfNetwork(torch.compile(net), compiled)
    return HalfNetwork(net.forward if fold else net)


def _tried(rung: Rung, model: Model, sample: Images) -> Quick | str:
    """The stand-in if it can be made, runs and agrees, else why not."""
    try:
        with warnings.catch_warnings(action="ignore"):  # of copying and compiling: nothing a user can do
            made = rung.make()
            if isinstance(made, HalfNetwork) and not tuned(made, sample):
                return "gradients overflow"
            reason = doubt(model, made, sample, *CLOSE[rung.kind])
            off = error_of(model, made, sample)  # without gradients: another program where it is compiled
    except Exception as error:
        words = str(error).strip().splitlines()
        return f"{type(error).__name__}: {words[0][:120] if words else 'it failed'}"
    return reason or Quick(made, rung.words, rung.kind == torch.float16, off)
