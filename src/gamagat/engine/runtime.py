"""Where things run: the device, the batch that fits it, and a network borrowed and given back as it was."""

import ctypes
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from threading import Lock
from typing import Any

import torch
from torch import nn

from gamagat.errors import ConfigError, DeviceError, ModelError


def choose_device(name: str = "auto") -> torch.device:
    """The device called `name`; `auto` takes a GPU where there is one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        if device.type == "meta":
            raise RuntimeError("it computes nothing")
        # A first backward pass: autograd's thread on a GPU warns if a matrix product is the first it sees.
        torch.zeros(1, device=device, requires_grad=True).sum().backward()  # type: ignore[no-untyped-call]
    except Exception:
        count = torch.cuda.device_count()
        here = ["auto", "cpu", *(["cuda"] if count else []), *(f"cuda:{number}" for number in range(count))]
        raise ConfigError(f"device {name!r} is not to be had here; use {', '.join(here)}") from None
    return device


GPU_LOST = "the GPU failed"


@contextmanager
def telling_of_loss(device: torch.device | None = None) -> Iterator[None]:
    """A GPU that fails in here is told as such; without a device, whichever is in use."""
    try:
        yield
    except (RuntimeError, ModelError) as error:
        if not is_lost(device):
            raise
        words = " ".join(str(error).split())
        raise DeviceError(
            f"{GPU_LOST} ({words[:120]}), and this process cannot use it any more; the same command goes on "
            "from what is kept"
        ) from error


def is_lost(device: torch.device | None) -> bool:
    """Whether a GPU has failed for this process: after a fault in a kernel it answers nothing any more."""
    if device is not None and device.type != "cuda":
        return False
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return False
    try:
        torch.cuda.synchronize(device)
    except RuntimeError:
        return True
    return False


def device_of(model: Any) -> torch.device | None:
    """Where the network's parameters are; None if it has none."""
    tensors = [*model.parameters(), *model.buffers()] if isinstance(model, nn.Module) else []
    return tensors[0].device if tensors else None


def default_batch_size(shape: tuple[int, ...], device: torch.device) -> int:
    """Large enough to keep the device busy, small enough for the activations of usual networks."""
    pixels = max(1, int(torch.Size(shape).numel()))
    if device.type != "cuda":
        return max(16, min(256, (1 << 18) // pixels))
    # What a network keeps for its backward pass is rarely more than a thousand times its input.
    fits = torch.cuda.mem_get_info(device)[0] // (1000 * 4 * pixels)
    return max(16, min(8192, 1 << (max(1, fits).bit_length() - 1)))


@contextmanager
def borrowed(model: Any) -> Iterator[None]:
    """The network in evaluation mode with frozen parameters; afterwards as it was, also after an error."""
    if not isinstance(model, nn.Module):
        yield
        return
    if any(parameter.is_inference() for parameter in model.parameters()):
        raise ModelError(
            "the network's weights were made under torch.inference_mode(), and no gradient passes through "
            "them; make or load it outside"
        )
    modes = [(module, module.training) for module in model.modules()]
    frozen = [parameter for parameter in model.parameters() if parameter.requires_grad]
    try:
        with suppress(NotImplementedError):  # exported programs have one mode only and refuse to be asked
            model.eval()
        for parameter in frozen:
            parameter.requires_grad_(False)
        with torch.inference_mode(False):  # a caller's, which no gradient survives
            yield
    finally:
        for parameter in frozen:
            parameter.requires_grad_(True)
        _set_back(modes)


def _set_back(modes: list[tuple[nn.Module, bool]]) -> None:
    """Every module in the mode it was in, the outer ones first."""
    for module, training in modes:
        if module.training != training:
            with suppress(NotImplementedError):
                module.train(training)  # which may do more than set a flag: adapters take their weights out
    for module, training in modes:
        module.training = training


_throwing = ExitStack()  # gives the caller's random state back
_throwers: list[object] = []
_one_throw = Lock()


@contextmanager
def own_dice(seed: int) -> Iterator[None]:
    """Networks that draw random numbers draw them from this seed; the caller's state is left alone.

    Torch has one state for all threads: of several at a time, the last to leave gives it back.
    """
    mark = object()
    with _one_throw:
        if not _throwers:
            _throwing.enter_context(torch.random.fork_rng(awake_gpus()))
        _throwers.append(mark)
        torch.manual_seed(seed % (1 << 63))
    try:
        yield
    finally:
        with _one_throw:
            _throwers.remove(mark)
            if not _throwers:
                _throwing.close()


def awake_gpus() -> list[int]:
    """The GPUs in use; the others have no random state, and asking for it would wake them."""
    awake: bool = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    return list(range(torch.cuda.device_count())) if awake else []


def full_precision() -> AbstractContextManager[None]:
    """Single precision as its name says: no TF32 in products and convolutions, no autocast around them."""
    return products_in(tf32=False)


@contextmanager
def products_in(tf32: bool) -> Iterator[None]:
    """Products and convolutions of single-precision numbers with TF32 or without, and no autocast around."""
    switches = _switches()
    before = [getattr(place, name) for place, name, _, _ in switches]
    try:
        for place, name, off, on in switches:
            setattr(place, name, on if tf32 else off)
        with uncast():
            yield
    finally:
        for (place, name, _, _), value in zip(switches, before, strict=True):
            setattr(place, name, value)


@contextmanager
def uncast() -> Iterator[None]:
    """No autocast of the caller's: an attack would see other logits than the judge."""
    with ExitStack() as stack:
        for kind in ("cuda", "cpu"):
            if torch.is_autocast_enabled(kind):
                stack.enter_context(torch.autocast(kind, enabled=False))
        yield


def _switches() -> list[tuple[Any, str, Any, Any]]:
    """Where torch decides about TF32, and how it is turned off and on; two ways that must not be mixed."""
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    if hasattr(matmul, "fp32_precision") and hasattr(cudnn, "conv"):
        return [(place, "fp32_precision", "ieee", "tf32") for place in (matmul, cudnn.conv, cudnn.rnn)]
    return [(place, "allow_tf32", False, True) for place in (matmul, cudnn)]


TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # as glibc's mallopt calls them
USUAL = 1 << 26, 1 << 25  # where glibc itself ends once large blocks have been freed
ALL = (1 << 31) - 1, 1 << 30  # what is freed is kept, and no tensor is a mapping of its own
TOLD = ("GLIBC_TUNABLES", "MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_")  # where a user has a say in it
_holders: list[object] = []


@contextmanager
def held_memory(device: torch.device) -> Iterator[None]:
    """On a CPU: freed memory stays with the process until the end, where the system's library can do that.

    Otherwise it goes back, and each step pages in anew what the one before had: for small networks a third of
    the time.
    """
    library = _glibc() if device.type == "cpu" and not any(name in os.environ for name in TOLD) else None
    if library is None:
        yield
        return
    mark = object()
    _holders.append(mark)
    try:
        for thresholds in (USUAL, ALL):  # an older library refuses the second of all, and keeps the usual one
            _set(library, thresholds)
        yield
    finally:
        _holders.remove(mark)
        if not _holders:
            _set(library, USUAL)
            library.malloc_trim(0)


def _glibc() -> Any:
    try:
        library = ctypes.CDLL(None)
    except (OSError, TypeError):  # not on every system is the program itself a library
        return None
    return library if hasattr(library, "mallopt") and hasattr(library, "malloc_trim") else None


def _set(library: Any, thresholds: tuple[int, int]) -> None:
    for name, value in zip((TRIM_THRESHOLD, MMAP_THRESHOLD), thresholds, strict=True):
        library.mallopt(name, value)


@contextmanager
def searched() -> Iterator[None]:
    """Convolutions in the way that cuDNN finds fastest: it tries all it knows, once for each shape."""
    before, torch.backends.cudnn.benchmark = torch.backends.cudnn.benchmark, True
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


def fitted(model: Any, kind: torch.dtype = torch.float32) -> Any:
    """The network for images of this kind, whatever precision its parameters have."""
    parameters = list(model.parameters()) if isinstance(model, nn.Module) else []
    kinds = {parameter.dtype for parameter in parameters if parameter.is_floating_point()}
    if len(kinds) != 1 or kinds == {kind}:
        return model
    (own,) = kinds
    return lambda images: model(images.to(own))
