"""A verification in words."""

from pathlib import Path

from gamagat.engine.share import Share
from gamagat.engine.verify import Verification

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
        *(["  unfinished: not all images are through with every run"] if _short(found) else []),
        *([f"  {found.near_ties} predictions are near ties"] if found.near_ties else []),
    ]


def _short(found: Verification) -> bool:
    return found.standing is not None and found.standing.of < found.of


def _words(share: Share | None) -> str:
    return "unknown" if share is None else f"{share.percent:.2f} % of {share.of}"
