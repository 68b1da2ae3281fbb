"""Radii that are probably not the ones meant."""

import math
from collections.abc import Iterator

from gamagat.data.core import Dataset
from gamagat.engine.findings import Finding
from gamagat.pieces.threat import TOLERANCE, ThreatModel

GREY_LEVELS = (1, 2, 4, 8, 12, 16)  # the radii in use, in units of 1/255
NEAR = 0.021  # 0.008 is 2 % off 2/255, the farthest of the usual roundings
FAR = 4.0  # times the data set's usual radius
WIDE = {1: 0.5, 3: 0.25}  # a large Linf radius by channels, where no usual one is known


def eps_findings(threat: ThreatModel, data: Dataset, given: str | None = None) -> Iterator[Finding]:
    """The first thing that is odd about the radius, if anything is."""
    said = given or f"{threat.eps:.6g}"
    look = _linf if threat.norm.name == "linf" else _l2
    yield from look(threat.eps, said, data) if threat.norm.name in ("linf", "l2") else ()


def _linf(eps: float, said: str, data: Dataset) -> Iterator[Finding]:
    usual = data.eps.get("linf")
    nearest = min((level / 255 for level in GREY_LEVELS), key=lambda radius: abs(radius - eps))
    if eps >= 1:
        yield _everything(said, eps)
    elif eps > (FAR * usual if usual else WIDE.get(data.shape[0], 0.5)):
        yield _large(said, eps, data.name, usual)
    elif eps < 0.5 / 255:
        yield _tiny(said, eps)
    elif TOLERANCE < abs(eps - nearest) < NEAR * nearest:
        yield _rounded(said, eps, round(nearest * 255))


def _l2(eps: float, said: str, data: Dataset) -> Iterator[Finding]:
    to_grey = 0.5 * math.sqrt(math.prod(data.shape))
    linf, usual = data.eps.get("linf"), data.eps.get("l2")
    if eps >= to_grey:
        yield Finding(
            "eps",
            "stop",
            f"eps is {said} = {eps:.6g} in l2, and plain grey is at most {to_grey:.3g} away from any image.",
            "Every image can be wiped out within this radius, so the accuracy left says nothing.",
            "Give a smaller radius, such as --eps 0.5.",
        )
    elif linf and usual and math.isclose(eps, linf, rel_tol=NEAR) and eps < usual / FAR:
        yield Finding(
            "eps",
            "warn",
            f"eps is {said} = {eps:.6g} in l2, which is the usual radius of {data.name} in linf.",
            f"An l2 ball of this size is far smaller than the usual {usual:.6g}: the network looks robust.",
            f"Give --norm linf, or --eps {usual:.6g} for l2.",
        )


def _everything(said: str, eps: float) -> Finding:
    meant = f"--eps {said}/255" if "/" not in said else "--eps 8/255"
    return Finding(
        "eps",
        "stop",
        f"eps is {said} = {eps:.6g} in linf, and pixels lie in [0, 1].",
        "Within this radius every image can become every other, so no accuracy is left to measure.",
        f"Give the radius in units of the pixel range; {meant} was probably meant.",
    )


def _large(said: str, eps: float, name: str, usual: float | None) -> Finding:
    known = f"; the usual radius there is {usual:.6g}" if usual else ""
    return Finding(
        "eps",
        "warn",
        f"eps is {said} = {eps * 255:.4g}/255 in linf on {name}{known}.",
        "A change of this size is seen at a glance (0.3 belongs to MNIST) and leaves hardly any accuracy.",
        "Give the radius that the numbers you compare with use, for colour images mostly --eps 8/255.",
    )


def _tiny(said: str, eps: float) -> Finding:
    return Finding(
        "eps",
        "warn",
        f"eps is {said} = {eps * 255:.3g}/255 in linf, less than half a grey level of an 8-bit image.",
        "Any network looks robust within a radius that no stored image can show.",
        "Make sure that the radius was not divided by 255 twice; --eps 8/255 is usual for colour images.",
    )


def _rounded(said: str, eps: float, level: int) -> Finding:
    return Finding(
        "eps",
        "warn",
        f"eps is {said} = {eps * 255:.5g}/255, and {level}/255 is {level / 255:.6f}.",
        "Accuracies at two radii are not comparable, and many tables were made at the exact fraction.",
        f"Give --eps {level}/255, unless the numbers you compare with were measured at {said}.",
    )
