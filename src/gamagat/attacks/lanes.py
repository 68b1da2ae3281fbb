"""Lanes: so many images on their way at a time; as some leave, the next ones take their places."""

from collections.abc import Callable
from typing import Protocol, TypeVar

import torch

from gamagat.attacks.network import Network
from gamagat.attacks.outcome import Outcome
from gamagat.pieces.trees import join
from gamagat.pieces.types import Images, Labels, Model


class Travelling(Protocol):
    """A tree with one row per image that knows where in the caller's batch each image was."""

    @property
    def place(self) -> Labels: ...


Walk = TypeVar("Walk", bound=Travelling)
News = tuple[Labels, Outcome]  # where the images were that left, and what became of them


def in_lanes(
    model: Model,
    x: Images,
    enter: Callable[[Labels], Walk],
    step: Callable[[Walk], tuple[Walk, News | None]],
) -> Outcome:
    """Take every image through `step` until it leaves, no more at a time than a `Network` is wide.

    A few more than that begin together all the same, and pass in two parts until some have left: coming
    later, they would keep everybody waiting at the end.
    """
    outcome, waiting = Outcome.untouched(x), torch.arange(len(x), device=x.device)
    width = model.width if isinstance(model, Network) else max(1, len(x))
    first = len(x) if len(x) <= width + width // 16 else width
    walk, waiting = enter(waiting[:first]), waiting[first:]
    while len(walk.place):
        walk, news = step(walk)
        if news is not None:
            outcome.put(*news)
        room = width - len(walk.place)
        # Newcomers may cost a forward pass of their own, so they come in groups.
        if len(waiting) and room >= max(1, width // 8):
            walk, waiting = join(walk, enter(waiting[:room])), waiting[room:]
    return outcome
