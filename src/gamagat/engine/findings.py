"""What a check has to say: what was seen, why it matters, what to do."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Severity = Literal["stop", "warn"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, or looks it; a `stop` makes the numbers of an evaluation worthless."""

    check: str
    severity: Severity
    seen: str
    why: str
    do: str

    @property
    def words(self) -> str:
        """All of it in one line."""
        return f"{self.check}: {self.seen} {self.why} {self.do}"

    @property
    def stops(self) -> bool:
        """Whether a run should not go on without being told to."""
        return self.severity == "stop"


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """Those that stop a run before those that warn; otherwise in the order they were found."""
    return sorted(findings, key=lambda finding: not finding.stops)
