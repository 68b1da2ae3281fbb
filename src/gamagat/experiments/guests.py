"""Networks that a user brings: looked at by the doctor, and told from what their code was before."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from gamagat.engine.answers import answers, disagree
from gamagat.engine.checks import check_door
from gamagat.engine.checkup.idle import IDLE
from gamagat.engine.manifest import write_json
from gamagat.engine.request import Prepared
from gamagat.engine.runtime import borrowed, fitted
from gamagat.engine.transfer_request import FOLLOWED
from gamagat.errors import ModelError, RunError
from gamagat.experiments.cache import read_kept

ANSWERS = "answers.json"  # to the first images, beside the evaluations of a network
Say = Callable[[str], None]


@dataclass(slots=True)
class Guests:
    """Each is met once in a process."""

    force: bool = False  # whatever the doctor says
    met: set[Path] = field(default_factory=set)

    def examine(self, name: str, prepared: Prepared, say: Say, followed: bool = True) -> None:
        """A look before anything is measured; what would make the figures worthless is an error.

        Only of one whose gradients are `followed` does it matter what they are like.
        """
        for finding in prepared.check():
            if finding.check == IDLE or (finding.check in FOLLOWED and not followed):
                continue  # nothing that the user has done: the attacks are the table's
            if finding.stops and not self.force:
                raise ModelError(f"{finding.words} (--force goes on)")
            say(f"{name}: {finding.words}")

    def meet(self, name: str, home: Path, prepared: Prepared, say: Say) -> None:
        """Set aside what was measured of another network of the same name and weights, if there is any.

        Its code decides as well, and changes while a user works on it.
        """
        with borrowed(prepared.model):
            model = fitted(prepared.model)
            check_door(model, prepared.data, prepared.device, self.force)
            ours = answers(model, prepared.data, prepared.device)
        note = home / ANSWERS
        kept = read_kept(note, ("answers",))
        if kept is not None and disagree(kept["answers"], ours):
            aside = set_aside(home, "old")
            say(f"{name} answers otherwise than before; what was measured of it is in {aside}")
        with suppress(OSError, RunError):  # a cache that cannot be written to is of use as well
            home.mkdir(parents=True, exist_ok=True)
            write_json(note, {"answers": ours})
        self.met.add(home)


def set_aside(place: Path, why: str) -> Path:
    """Give a folder another name, so that what is in it can be made anew."""
    aside = place.with_name(f"{place.name}-{why}-{uuid4().hex[:6]}")
    try:
        place.rename(aside)
    except OSError as error:
        raise RunError(f"cannot move {place} away, which is {why}: {error.strerror}; remove it") from None
    return aside
