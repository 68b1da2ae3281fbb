"""A diagnosis of gradient masking, for people to read."""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from gamagat.engine.masking.diagnose import Diagnosis
from gamagat.engine.masking.result import Level, Result, Verdict

COLOURS = {Level.FINE: "green", Level.WARNS: "bold yellow", Level.MASKED: "bold red"}
VERDICTS = {
    Verdict.SOUND: ("bold green", "no check found a sign of gradient masking"),
    Verdict.SUSPICIOUS: ("bold yellow", "some numbers are not to be trusted before what warns is cleared up"),
    Verdict.MASKED: ("bold red", "gradients mislead attacks, and accuracies under them are not robustness"),
}
# The level of the checks that brought a verdict about.
DECISIVE = {Verdict.MASKED: Level.MASKED, Verdict.SUSPICIOUS: Level.WARNS}


def diagnosis_view(found: Diagnosis) -> RenderableType:
    """Every check as a small paragraph, what was not checked, and the verdict last, where eyes end up."""
    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True, justify="right", width=11)
    table.add_column(overflow="fold")
    for name, value in found.facts.items():
        table.add_row(Text(name, "dim"), Text(value))
    for name, result in found.results.items():
        if result.level is not Level.UNCHECKED:  # those are told together
            for row in _rows(name, result):
                table.add_row(*row)
    for number, words in enumerate(found.unchecked):
        table.add_row(Text("" if number else "not checked", "dim"), Text(words))
    return Group(table, Text(), verdict_line(found))


def verdict_line(found: Diagnosis) -> Text:
    """The verdict, what it means and by which checks."""
    colour, words = VERDICTS[found.verdict]
    decisive = DECISIVE.get(found.verdict)
    named = [name for name, result in found.results.items() if result.level is decisive]
    by = f" ({', '.join(named)})" if named else ""
    left = f"clean accuracy {found.clean_accuracy:.1f} %, after all attacks {found.robust_accuracy:.1f} %"
    return Text.assemble((found.verdict.value, colour), f": {words}{by}; {left}")


def _rows(name: str, result: Result) -> Iterator[tuple[Text, Text]]:
    """What was seen, the limit and what that means; where it is not fine, also what to do."""
    yield Text(result.level.value, COLOURS[result.level]), Text(name, "bold")
    yield Text("seen", "dim"), Text(result.seen)
    yield Text("limit", "dim"), Text(result.threshold)
    yield Text("meaning", "dim"), Text(result.meaning)
    if result.level is not Level.FINE:
        yield Text("do", "dim"), Text(result.do)
