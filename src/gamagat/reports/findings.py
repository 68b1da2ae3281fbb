"""What the doctor found, for people to read."""

from collections.abc import Sequence
from io import StringIO

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from gamagat.engine.findings import Finding

NOTHING = "nothing found"
COLOURS = {"stop": "bold red", "warn": "bold yellow"}


def findings_view(findings: Sequence[Finding]) -> RenderableType:
    """Each finding as a small paragraph that wraps at any width."""
    if not findings:
        return Text(NOTHING)
    return Group(*(_paragraph(finding) for finding in findings))


def findings_lines(findings: Sequence[Finding], width: int = 80) -> list[str]:
    """The same as plain lines, for logs."""
    console = Console(file=StringIO(), width=width, color_system=None, force_terminal=False)
    with console.capture() as captured:
        console.print(findings_view(findings))
    return [line.rstrip() for line in captured.get().splitlines()]


def _paragraph(finding: Finding) -> Table:
    # Text, not str: a pixel range such as [0, 1] is no markup.
    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True, justify="right", width=5)
    table.add_column(overflow="fold")
    table.add_row(Text(finding.severity, COLOURS[finding.severity]), Text(finding.check, "bold"))
    for name, sentence in (("seen", finding.seen), ("why", finding.why), ("do", finding.do)):
        table.add_row(Text(name, "dim"), Text(sentence))
    return table
