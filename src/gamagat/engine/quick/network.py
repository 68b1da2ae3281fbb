"""Which arithmetic serves an attack: the fastest that still says what the network says, found by trying."""

from __future__ import annotations

import logging
import random
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn

from gamagat.engine.quick.folding import folded, halved
from gamagat.engine.runtime import full_precision
from gamagat.errors import ConfigError
from gamagat.pieces.gradients import logits_of
from gamagat.pieces.types import Images, Model, Scores

PRECISIONS = ("auto", "fp32", "tf32", "fp16")
CLOSE = {torch.float32: (1e-3, 0.999), torch.float16: (5e-2, 0.95)}  # error of logits, likeness of gradients
FACTORS = (2.0**12, 2.0**8, 2.0**4, 1.0)  # how much louder gradients may travel in half precision
LOOKS = 6  # at a network, to see whether it answers by chance
HEADROOM = 2.0**6  # by how much a gradient may be larger than those of the sample
WORTH_COMPILING = 300_000  # images through the network and back from which on compiling has paid

Say = Callable[[str], None]
_KNOWN: WeakKeyDictionary[nn.Module, tuple[Any, Quick | None]] = WeakKeyDictionary()


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
    if not rungs or not _steady(model, sample[:2]):
        return None
    for number, rung in enumerate(rungs):
        began = perf_counter()
        if "compiled" in rung.words:
            say("compiling the network for this GPU: up to a minute, kept for the next time")
        made, reason = _tried(rung, model, sample)
        if made is not None:
            if "compiled" in rung.words:
                say(f"compiled in {perf_counter() - began:.0f} s")
            return Quick(made, rung.words, rung.kind == torch.float16, _error(model, made, sample))
        instead = rungs[number + 1].words if number + 1 < len(rungs) else "the network as it is"
        if rung.kind == torch.float16:
            say(f"{rung.words}: {reason}; attacks use {instead}")
    return None


def remembered(
    model: Model, weights: str, precision: str, sample: Images, passes: int, say: Say
) -> Quick | None:
    """`quickened`, but once for a network as long as it lives and stays what it is."""
    if not isinstance(model, nn.Module):
        return None
    key = (weights, precision, sample.device, tuple(sample.shape[1:]), passes >= WORTH_COMPILING)
    known, quick = _KNOWN.get(model, (None, None))
    if known != key or not _holds(quick, model, sample):
        quick = quickened(model, precision, sample, passes, say)
        _KNOWN[model] = key, quick
    return quick


def _holds(quick: Quick | None, model: Model, sample: Images) -> bool:
    """Whether an old stand-in still agrees: a hook or a setting changes a network without its weights."""
    if quick is None:
        return True
    rung = Rung(quick.words, lambda: quick.model, torch.float16 if quick.half else torch.float32)
    return _steady(model, sample[:2]) and _tried(rung, model, sample)[0] is not None


def _rungs(model: nn.Module, precision: str, passes: int) -> list[Rung]:
    """What to try, the fastest first."""
    if precision in ("fp32", "tf32"):
        return []
    if precision == "auto":
        return [Rung("fp32, batch norms folded, channels last", partial(_single, model))]
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


def _single(model: nn.Module) -> Model:
    net = folded(model).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    # `forward`, since a traced network that is called prints what fails in it.
    return lambda images: net.forward(images.contiguous(memory_format=torch.channels_last))


def _half(model: nn.Module, fold: bool, compiled: bool) -> Model:
    net = halved(folded(model)) if fold else deepcopy(model).eval()
    net = net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    if compiled:
        return HalfNetwork(torch.compile(net), compiled)
    return HalfNetwork(net.forward if fold else net)


class HalfNetwork:
    """A network in half precision; gradients travel through it `factor` times as loud, lest they vanish."""

    def __init__(self, net: Callable[[Images], Scores], compiled: bool = False) -> None:
        self.net, self.compiled, self.factor = net, compiled, 1.0

    def __call__(self, images: Images) -> Scores:
        images = louder(images.contiguous(memory_format=torch.channels_last), 1 / self.factor)
        if self.compiled and len(images) > 1:
            _any_number_of(images)
        with torch.autocast(images.device.type, torch.float16), _quiet():
            scores = self.net(images)
        return louder(scores.float(), self.factor)


def _any_number_of(images: Images) -> None:
    """Tell the compiler that batches have many sizes, so that it compiles once for all."""
    from torch._dynamo import mark_dynamic  # noqa: PLC0415 - two seconds that most commands can do without

    mark_dynamic(images, 0)


class Louder(torch.autograd.Function):
    """The same values; the gradient on its way back times a factor."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        return values.clone()  # a view could not be written over, as some networks do

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return grads[0] * ctx.factor, None


def louder(values: Tensor, factor: float) -> Tensor:
    """The same values, whose gradient will be multiplied by the factor."""
    same: Tensor = Louder.apply(values, factor)  # type: ignore[no-untyped-call]
    return same


def _tried(rung: Rung, model: Model, sample: Images) -> tuple[Model | None, str]:
    """The stand-in if it can be made, runs and agrees, else why not."""
    try:
        with warnings.catch_warnings(action="ignore"):  # of copying and compiling: nothing a user can do
            made = rung.make()
            if isinstance(made, HalfNetwork) and not _tuned(made, sample):
                return None, "gradients overflow"
            doubt = _doubt(model, made, sample, *CLOSE[rung.kind])
    except Exception as error:
        words = str(error).strip().splitlines()
        return None, f"{type(error).__name__}: {words[0][:120] if words else 'it failed'}"
    return (made, "") if doubt is None else (None, doubt)


def _tuned(net: HalfNetwork, sample: Images) -> bool:
    """Make gradients as loud as they may be; false if they overflow however soft."""
    for factor in FACTORS:
        net.factor = factor * HEADROOM if factor > 1 else 1.0
        fits = bool(_pulled(net, sample)[1].isfinite().all())
        net.factor = factor
        if fits:
            return True
    return False


@torch.no_grad()
def _error(model: Model, made: Model, sample: Images) -> float:
    """By how much a logit of the stand-in is off at the most."""
    with full_precision():
        exact = logits_of(model, sample)
    return float((logits_of(made, sample) - exact).abs().amax())


def _doubt(model: Model, made: Model, sample: Images, error: float, likeness: float) -> str | None:
    """In what the stand-in differs from the network; None if it does not."""
    with full_precision():
        logits, grad = _pulled(model, sample)
    for part in (sample, sample[: max(1, len(sample) // 3)]):  # it must not remember a batch size
        other, slope = _pulled(made, part)
        size = (logits - logits.mean(1, keepdim=True)).abs().amax().clamp_min(1e-6)
        off = (other - logits[: len(part)]).abs().amax() / size
        if not bool(off <= error):
            return f"its logits are off by {float(off):.1%}" if off.isfinite() else "its logits overflow"
        likes = torch.cosine_similarity(slope.flatten(1), grad[: len(part)].flatten(1), eps=1e-30)
        flat = grad[: len(part)].flatten(1).abs().amax(1) == 0
        share = float((flat | (likes >= likeness)).float().mean())
        if share < 0.9:
            return f"its gradients point elsewhere on {1 - share:.0%} of {len(part)} images"
    return None


def _pulled(model: Model, images: Images) -> tuple[Scores, Images]:
    """The logits, and the gradient of the lead of the best class over the second."""
    images = images.detach().clone().requires_grad_()
    with torch.enable_grad():
        logits = logits_of(model, images)
        top = logits.topk(2, 1).indices
        lead = (logits.gather(1, top) * logits.new_tensor([1.0, -1.0])).sum()
    (grad,) = torch.autograd.grad(lead, images, allow_unused=True, materialize_grads=True)
    return logits.detach(), grad.float()


@torch.no_grad()
def _steady(model: Model, images: Images) -> bool:
    """Whether the network always gives the same answer and draws no random numbers; else it is left alone."""
    with _rewound(images.device):
        untouched = _throw(images.device)
    try:
        with _rewound(images.device), full_precision():
            first, *others = (logits_of(model, images) for _ in range(LOOKS))
            thrown = _throw(images.device)
    except Exception:  # whoever attacks the network itself will see why
        return False
    same = (torch.allclose(first, other, rtol=1e-4, atol=1e-5, equal_nan=True) for other in others)
    return all(same) and thrown == untouched


def _throw(device: torch.device) -> list[float]:
    """The next number of every generator; another one than before if somebody has drawn in between."""
    return [random.random(), np.random.random(), float(torch.rand(())), float(torch.rand((), device=device))]


@contextmanager
def _rewound(device: torch.device) -> Iterator[None]:
    """Afterwards random numbers go on as if none had been drawn: a look changes no result."""
    states = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the compiler's remarks on ranges of sizes, which mean nothing to a user."""
    logger = logging.getLogger("torch.utils._sympy.interp")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
