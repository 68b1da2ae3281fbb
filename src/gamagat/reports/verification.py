"""A verification in words."""

from pathlib import Path

from gamagat.engine.results import summarize
from gamagat.engine.run import read_run
from gamagat.engine.share import Share
from gamagat.engine.verify import Verification
from gamagat.reports.unfinished import unfinished_words

SHOWN = 10  # problems that are printed; one is enough to doubt a run


def verification_lines(folder: Path, found: Verification) -> list[str]:
    """What agreed, or the first things that did not."""
    if found.problems:
        more = len(found.problems) - SHOWN
        return [
            f"{folder} does not hold: {len(found.problems)} disagreements",
            *(f"  {problem}" for problem in found.problems[:SHOWN]),
            *([f"  and {more} more"] if more > 0 else []),
        ]
    return [
        f"{folder} holds: {found.verdicts} verdicts, {found.images} adversarial images judged again",
        f"  worst case {_words(found.standing)}",
        f"  with the images rounded to 8 bits within the ball {_words(found.eight_bit)}",
        *_unfinished(folder),
        *([f"  {found.near_ties} predictions are near ties"] if found.near_ties else []),
    ]


def _unfinished(folder: Path) -> list[str]:
    """A line if the run has not come to its end."""
    result = summarize(read_run(folder))
    return [f"  unfinished: {unfinished_words(result)}"] if result.unfinished else []


def _words(share: Share | None) -> str:
    return "unknown" if share is None else f"{share.percent:.2f} % of {share.of}"
