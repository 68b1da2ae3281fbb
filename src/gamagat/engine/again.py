"""Another try, where memory does not suffice or a stand-in fails."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Protocol, TypeVar

import torch

from gamagat.attacks.network import is_memory
from gamagat.engine.quick.network import Quick
from gamagat.engine.runtime import telling_of_loss
from gamagat.engine.watch import Onlooker
from gamagat.errors import ModelError

Found = TypeVar("Found")


class Means(Protocol):
    """With what an attack is made; a try that fails takes some of it away."""

    device: torch.device
    onlooker: Onlooker
    width: int  # images that the network takes at a time
    quick: Quick | None  # what attacks see in place of the network


def until_it_works(means: Means, attempt: Callable[[], Found]) -> Found:
    """What the attempt gives: where there was too little memory, at half the width; else without stand-in."""
    while True:
        try:
            with telling_of_loss(means.device):
                return attempt()
        except Exception as error:
            narrow = is_memory(error)
            if not narrow and not _may_be_the_stand_ins(means, error):
                raise
            words = " ".join(str(error).split()) or type(error).__name__
        # Not while the error is at hand, which holds on to all that the attack had in memory.
        if narrow:
            _narrow(means)
        else:
            _do_without(means, words)


def _may_be_the_stand_ins(means: Means, error: Exception) -> bool:
    """What fails in a network is a ModelError on its way forward, and torch's own on its way back."""
    return means.quick is not None and isinstance(error, ModelError | RuntimeError)


def _do_without(means: Means, words: str) -> None:
    """No stand-in any more: what fails may be its arithmetic alone; if not, it will fail again."""
    assert means.quick is not None
    means.onlooker.say(
        f"{means.quick.words}: {words[:200]}; attacks use the network as it is from here on"
    )  # fmt: skip
    means.quick = None


def _narrow(means: Means) -> None:
    width = means.width
    if width == 1:
        raise ModelError(
            "memory does not suffice for a single image; use another device or a smaller network"
        )  # fmt: skip
    means.width = width // 2
    gc.collect()
    if means.device.type == "cuda":
        torch.cuda.empty_cache()
    means.onlooker.say(f"out of memory with {width} images at a time; going on with {width // 2}")
