"""What this repository publishes: results/ as the tables of today understand it, and the page made of it."""

from pathlib import Path

import pytest

from gamagat.engine.share import wilson
from gamagat.experiments.claims import ruled
from gamagat.experiments.figures import all_names, find_any
from gamagat.experiments.results import FigureResult, Result, read_results
from gamagat.experiments.said import claims
from gamagat.reports.measured import page

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
PUBLISHED = {result.name: result for result in read_results(RESULTS)}
TABLES = [result for result in PUBLISHED.values() if isinstance(result, Result)]
each = pytest.mark.parametrize("result", TABLES, ids=lambda result: result.name)


def test_the_page_is_made_of_what_is_in_the_folder():
    assert (ROOT / "docs" / "results.md").read_text() == page(
        list(PUBLISHED.values()),
        all_names(),
        link="../results",
        rulings=ruled(claims(), list(PUBLISHED.values())),
    )


@pytest.mark.parametrize("name", PUBLISHED)
def test_words_and_places_are_those_of_today(name):
    kept, today = PUBLISHED[name], find_any(name)
    assert name in all_names()
    assert kept.notes == dict(today.notes)
    if isinstance(kept, FigureResult):
        assert [(line.row, line.column) for line in kept.lines] == [
            (line.row, line.column) for line in today.lines
        ]
    else:
        assert (kept.rows, kept.columns) == (today.rows, today.columns)


@each
def test_every_difference_larger_than_the_interval_has_its_words(result):
    for cell in result.cells:
        if cell.apart is not None:
            keys = (cell.row, cell.column, f"{cell.row}/{cell.column}", "")
            assert any(result.notes.get(key) for key in keys), f"{cell.row}, {cell.column}"


@each
def test_every_figure_says_where_it_is_from_and_how_sure_it_is(result):
    for cell in result.cells:
        if cell.measured and "made" in cell.about:
            assert {"date", "device", "torch", "gamagat"} <= set(cell.about["made"])
            assert cell.about["command"].startswith("gamagat reproduce ")
            assert isinstance(cell.about["seed"], int)
            if cell.unit == "%":
                right = round(cell.ours * cell.n / 100)
                low, high = wilson(right, cell.n)
                assert cell.interval == pytest.approx((low, high), abs=1e-6)
