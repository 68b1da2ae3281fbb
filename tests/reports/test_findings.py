from gamagat.engine.findings import Finding, worst_first
from gamagat.reports.findings import NOTHING, findings_lines

LONG = "The network returns probabilities in [0, 1], and a sentence like this one does not fit into one line."
FINDINGS = [
    Finding("train-mode", "warn", "seen", "why", "do"),
    Finding("probabilities", "stop", LONG, LONG, LONG),
]


def test_the_worst_comes_first():
    assert [finding.check for finding in worst_first(FINDINGS)] == ["probabilities", "train-mode"]


def test_every_word_is_told_in_eighty_columns():
    lines = findings_lines(FINDINGS)
    assert max(map(len, lines)) <= 80
    assert " ".join(" ".join(lines).split()) == (
        f"warn train-mode seen seen why why do do stop probabilities seen {LONG} why {LONG} do {LONG}"
    )


def test_brackets_are_not_taken_for_markup():
    lines = findings_lines([Finding("eps", "stop", "in [0, 1] or [red]", "why", "do")])
    assert "in [0, 1] or [red]" in lines[1]


def test_nothing_found_is_one_line():
    assert findings_lines([]) == [NOTHING]
