"""What the paper says is put to our figures, and the page says what came out."""

import pytest

from gamagat.experiments.cells import MEASURED, Cell
from gamagat.experiments.claims import Claim, Place, above, as_high, below, in_order, ruled
from gamagat.experiments.core import EXPERIMENTS
from gamagat.experiments.results import Result
from gamagat.experiments.said import claims
from gamagat.reports.measured import page
from gamagat.reports.rulings import rulings_section


def result(name, figures, paper=None):
    """A table of these figures, by row and column; the interval is one to both sides."""
    cells = [
        Cell(row, column, (paper or {}).get((row, column)), "%", MEASURED, ours, (ours - 1, ours + 1))
        for (row, column), ours in figures.items()
    ]
    rows, columns = ({place[side] for place in figures} for side in (0, 1))
    return Result(name, "", list(rows), list(columns), cells)


def ruling(comparisons, *results):
    (one,) = ruled([Claim("So.", comparisons)], results)
    return one


def lines(comparisons, *results):
    return [*rulings_section([ruling(comparisons, *results)], {one.name for one in results})]


def said(comparisons, *results):
    (line,) = [line for line in lines(comparisons, *results) if line.startswith("| So. |")]
    return line.split(" | ")[2].removesuffix(" |")


@pytest.mark.parametrize("claim", claims(), ids=lambda claim: claim.words)
def test_claims_are_about_places_that_there_are(claim):
    known = {
        Place(name, slot.row, slot.column)
        for name in EXPERIMENTS.names()
        for slot in EXPERIMENTS.make(name).slots
    }
    assert claim.comparisons
    assert {place for one in claim.comparisons for place in one} <= known
    assert len(set(claim.comparisons)) == len(claim.comparisons)


def test_the_paper_agrees_with_itself():
    """Put to the paper's own figures, the sentences hold, but for FGSM images on MNIST."""

    def published(table):
        values = {(slot.row, slot.column): table.published(slot.row, slot.column) for slot in table.slots}
        return {place: value for place, value in values.items() if value is not None}

    tables = [result(name, published(EXPERIMENTS.make(name))) for name in EXPERIMENTS.names()]
    against = [one for found in ruled(claims(), tables) for one in found.against]
    assert {(one.tables, one.low.column, one.high.column) for one in against} == {
        (("tableS5", "tableS7"), "FGSM", "MNIST BB-MNIST"),
        (("tableS5", "tableS7"), "FGSM", "MNIST M-LeNet"),
    }


def test_columns_and_rows_are_compared_the_right_way_round():
    table = result("t", {("a", "x"): 1.0, ("a", "y"): 2.0, ("b", "x"): 3.0, ("b", "y"): 3.0})
    assert ruling(below("t", "ab", "x", "y"), table).held == 2  # equal ones do not contradict
    assert ruling(below("t", "ab", "y", "x"), table).held == 1
    assert ruling(above("t", "xy", "b", "a"), table).held == 2
    assert ruling(above("t", "xy", "a", "b"), table).held == 0


def test_what_is_not_measured_counts_for_nothing():
    table = result("t", {("a", "x"): 1.0})
    table.cells.append(Cell("b", "x", 2.0))
    table.cells.append(Cell("c", "x", 2.0, "%", MEASURED, 5.0, (4.0, 6.0)))
    assert said(above("t", "x", "bc", "a"), table) == "**all 1**, 1 more not run"


def test_figures_beside_the_papers_may_be_less_by_as_much_as_the_interval():
    paper = {("a", "x"): 10.9, ("a", "y"): 10.0, ("a", "z"): 11.1}
    table = result("t", dict.fromkeys(paper, 10.0), paper)
    assert said(as_high("t", "a", "xyz"), table) == "2 of 3; not: a, z: 10.00, the paper 11.10"


def test_rows_stand_as_in_the_paper():
    """Only pairs of which the paper has one above the other, each once."""
    found = in_order("table2", ["PGD-20"], ["Normal", "FGSM-AT", "ATF", "FBF"])
    assert {(one.low.row, one.high.row) for one in found} == {
        ("Normal", "ATF"), ("Normal", "FBF"), ("FGSM-AT", "ATF"), ("FGSM-AT", "FBF"), ("ATF", "FBF")
    }  # fmt: skip
    assert len(found) == 5


def test_what_contradicts_is_told_with_its_figures():
    first = result("t", {("a", "x"): 5.0, ("b", "x"): 3.0, ("c", "x"): 3.5, ("b", "y"): 2.0})
    assert said(above("t", "x", "b", "ac"), first) == (
        "0 of 2; not: x: b 3.00 is below a 5.00, c 3.50 (inside an interval)"
    )
    assert (
        said(below("t", "b", "x", "y"), first)
        == "0 of 1; not: b: y 2.00 is below x 3.00 (inside an interval)"
    )
    assert said(above("t", "x", "b", "a") + above("t", "x", "a", "b"), first) == (
        "1 of 2; not: x: b 3.00 is below a 5.00"
    )
    second = result("u", {("a", "z"): 1.0})
    across = tuple(one._replace(high=Place("u", "a", "z")) for one in above("t", "x", "b", "a"))
    assert said(across, first, second) == "0 of 1; not: u, a, z 1.00 is below t, a, x 5.00"


def test_tables_are_named_where_there_are_several():
    tables = [result(name, {("a", "x"): 5.0, ("b", "x"): 3.0}) for name in "tu"]
    both = above("t", "x", "a", "b") + above("u", "x", "b", "a")
    assert said(both, *tables) == "1 of 2; not: u, x: b 3.00 is below a 5.00"
    assert lines(both, *tables)[1].startswith("| So. | [t](#t), [u](#u) | ")
    assert lines(both, tables[1])[1].startswith("| So. | t, [u](#u) | ")  # no link leads nowhere


def test_what_contradicts_the_paper_as_well_is_told():
    table = result("t", {("a", "x"): 5.0, ("b", "x"): 3.0}, {("a", "x"): 2.0, ("b", "x"): 1.0})
    assert (
        said(above("t", "x", "b", "a"), table) == "0 of 1; not: x: b 3.00 is below a 5.00 (as in the paper)"
    )


def test_nothing_is_said_without_claims():
    assert [*rulings_section([], {"t"})] == []


def test_claims_that_nothing_is_known_of_are_counted_and_no_more():
    table = result("t", {("a", "x"): 1.0, ("b", "x"): 2.0})
    table.cells.append(Cell("c", "x", 2.0))
    known, *unknown = (
        Claim("So.", above("t", "x", "b", "a")),
        Claim("Not so.", above("t", "x", "c", "a")),
        Claim("Nor so.", above("u", "x", "c", "a") + above("t", "x", "c", "b")),
    )
    *_, line, gap, left, end = rulings_section(ruled([known, *unknown], [table]), {"t"})
    assert line == "| So. | [t](#t) | **all 1** |"
    assert (gap, end) == ("", "")
    assert left == "2 more sentences of the paper need figures that are not measured yet, of t, u."
    assert [*rulings_section(ruled(unknown[:1], [table]), {"t"})] == [
        "1 sentence of the paper needs figures that are not measured yet, of t.", ""
    ]  # fmt: skip


def test_the_page_of_a_few_figures_has_no_section_of_claims():
    table = result("tableS10", {("a", "x"): 1.0})
    text = page([table], [], rulings=ruled(claims(), [table]))
    assert "What the paper says" not in text
    assert "not run |" not in text
    assert f"{len(claims())} sentences of the paper need figures that are not measured yet" in text
    # One table of many claims.
    table = result("tableS5", {(row, "AA"): 1.0 for row in ("GAT", "FBF", "R-MGM")})
    text = page([table], [], rulings=ruled(claims(), [table]))
    section = text.partition("## What the paper says")[2].partition("## tableS5")[0]
    assert 1 <= section.count("comparisons that hold") < section.count("\n| ") < 6
    assert "[table2]" not in section
