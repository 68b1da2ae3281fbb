"""What the doctor found before anything runs, said on the command line."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from gamagat.engine.findings import Finding
from gamagat.reports.terminal import fail, note


def heed(findings: Sequence[tuple[str, Finding]], force: bool) -> None:
    """Say each, with the networks it is of where that is not plain; what makes numbers worthless ends it."""
    for whose, finding in findings:
        words = f"{whose}: {finding.words}" if whose else finding.words
        if finding.stops and not force:
            fail(f"{words} (--force goes on)")
        else:
            note(words)
    if any(finding.stops for _, finding in findings) and not force:
        raise typer.Exit(2)
