"""What befalls a place of a table, in words: failures, each with what to do, and other processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import sleep

import torch

from gamagat.engine.runtime import telling_of_loss
from gamagat.errors import CheckpointError, ModelError
from gamagat.experiments.clock import Clock


@contextmanager
def in_words(what: str, device: str) -> Iterator[None]:
    """A failure of torch's is told in its place of the table, and the next place has its turn."""
    try:
        with telling_of_loss(None if device == "auto" else torch.device(device)):
            yield
    except RuntimeError as error:
        words = " ".join(str(error).split()) or "it failed"
        raise ModelError(f"{what} failed with {type(error).__name__}: {words[:300]}") from error


@contextmanager
def own_weights(home: Path) -> Iterator[None]:
    """Of weights that were trained here, advice on those of others would be wrong."""
    try:
        yield
    except CheckpointError as error:
        raise ModelError(
            f"the network that was trained in {home} cannot be read any more; remove this folder, and the "
            "same command trains it again"
        ) from error


def waiting(what: str, say: Callable[[str], None], clock: Clock) -> Callable[[], None]:
    """What is done while another process does the same: it is said once, and waited for."""
    said = False

    def wait() -> None:
        nonlocal said
        if not said:
            say(f"waiting for another process that {what}")
        said = True
        clock.check()
        sleep(0.5)

    return wait
