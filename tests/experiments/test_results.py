"""Results on disk and on the page."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from time import sleep

import pytest

from experiments.toy import toy_table
from gamagat.engine.manifest import write_json
from gamagat.errors import RunError
from gamagat.experiments import results
from gamagat.experiments.cells import MEASURED, Cell
from gamagat.experiments.core import Measure, find
from gamagat.experiments.results import (
    check_folder,
    merged,
    read_result,
    read_results,
    result_of,
    save_result,
)
from gamagat.reports.measured import page
from gamagat.reports.reproduction import spoken

MADE = {"date": "2026-01-02T03:04:05+00:00", "device": "a GPU", "torch": "9.9", "gamagat": "0.0"}
ABOUT = {"network": "gat-1", "recipe": "gat:epochs=50", "changed": {}, "model": "m", "made": MADE, "seed": 4}
GOOD = Cell(
    "GAT", "FGSM", 97.11, "%", MEASURED, 96.9, (96.5, 97.2), 10000, 1.5, "", ABOUT | {"command": "do it"}
)
COLUMNS = ("Clean", "FGSM")
EMPTY = Cell("GAT", "FGSM", 97.11, reason="the time that was given is over")


def test_a_cell_survives_its_file():
    assert Cell.from_json(json.loads(json.dumps(GOOD.as_json()))) == GOOD
    assert Cell.from_json(json.loads(json.dumps(EMPTY.as_json()))) == EMPTY


@pytest.mark.parametrize(
    ("old", "new", "kept"),
    [
        (GOOD, EMPTY, "old"),  # measured stays
        (EMPTY, GOOD, "new"),
        (GOOD, replace(GOOD, ours=96.8), "new"),  # the later of equals
        (GOOD, replace(GOOD, n=40), "old"),  # more images
        (GOOD, replace(GOOD, n=9990, about=ABOUT | {"images": 10000}), "new"),  # found for all but ten
        (replace(GOOD, n=40), GOOD, "new"),
        (GOOD, replace(GOOD, about=ABOUT | {"changed": {"epochs": "1"}}), "old"),  # a shortened training
        (replace(GOOD, n=40), replace(GOOD, about=ABOUT | {"changed": {"epochs": "1"}}), "old"),
        (replace(GOOD, about=ABOUT | {"changed": {"epochs": "1"}}), GOOD, "new"),
    ],
)
def test_of_two_cells_the_better_is_kept(old, new, kept):
    assert merged([old], [new]) == [old if kept == "old" else new]


def test_rows_of_earlier_runs_stay_in_the_file(tmp_path):
    table = toy_table()
    save_result(tmp_path, table, [GOOD])
    other = replace(GOOD, row="Normal", ours=10.0)
    save_result(tmp_path, table, [EMPTY, other])
    content = json.loads((tmp_path / "toy.json").read_text())
    cells = {(cell["row"], cell["column"]): cell for cell in content["cells"]}
    assert len(cells) == len(table.slots)
    assert cells["GAT", "FGSM"]["ours"] == 96.9
    assert cells["GAT", "FGSM"]["interval"] == [96.5, 97.2]
    assert cells["Normal", "FGSM"]["ours"] == 10.0
    assert cells["Normal", "Clean"]["status"] == "not run"
    assert cells["Normal", "Clean"]["ours"] is None
    assert "NeurIPS 2020" in content["paper"]
    assert [path.name for path in tmp_path.iterdir()] == ["toy.json"]  # nothing half-written beside it
    for key in ("command", "seed", "made", "n", "seconds", "paper"):
        assert key in cells["GAT", "FGSM"]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such locks")
def test_who_fills_a_table_at_the_same_time_loses_nothing(tmp_path, monkeypatch):
    def slowly(path: Path, content: object) -> None:
        sleep(0.02)
        write_json(path, content)

    monkeypatch.setattr(results, "write_json", slowly)
    table = toy_table()
    cells = [replace(GOOD, row=slot.row, column=slot.column) for slot in table.slots]
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda cell: save_result(tmp_path, table, [cell]), cells))
    assert len(cells) == 10
    assert all(cell.measured for cell in read_result(tmp_path / "toy.json").cells)


def test_a_file_that_holds_no_results_is_refused_and_left_alone(tmp_path):
    (tmp_path / "toy.json").write_text('{"mine": 1}')
    with pytest.raises(RunError, match=r"toy.json holds no results.*move it away"):
        save_result(tmp_path, toy_table(), [GOOD])
    assert (tmp_path / "toy.json").read_text() == '{"mine": 1}'


def test_results_come_in_the_order_of_the_paper(tmp_path):
    for name in ("stability", "tableS10", "tableS2", "table2", "tableS9", "table1"):
        save_result(tmp_path, toy_table(name), [])
    names = [result.name for result in read_results(tmp_path)]
    assert names == ["table1", "table2", "tableS2", "tableS9", "tableS10", "stability"]


def test_a_folder_without_results_is_refused(tmp_path):
    with pytest.raises(RunError, match="there are no results in"):
        read_results(tmp_path)


def page_of(*cells, **notes):
    return page([result_of(toy_table(notes=notes), cells)], [])


def test_the_page_has_both_figures_and_never_a_guess():
    words = page_of(GOOD)
    assert "97.11 / **96.90** (96.50 to 97.20)" in words
    assert "16.59 / not run" in words
    assert "1 of 10 figures are measured" in words
    assert "`do it`: 2026-01-02, a GPU, torch 9.9, gamagat 0.0, seed 4." in words
    assert "Images: 10,000." in words


def test_the_page_begins_with_how_much_is_measured_and_agrees():
    apart = replace(GOOD, row="Normal", paper=16.59, ours=90.0, interval=(89.0, 91.0))
    words = page([result_of(find("tableS5"), [GOOD, apart])], ["stability", "tableS5", "figureS1"])
    assert "| [tableS5](#tables5) | 2 of 63 | 1 of 2 |\n" in words
    assert "Nothing is measured yet for stability, figureS1.\n" in words


@pytest.mark.parametrize(
    ("ours", "interval", "sentence"),
    [
        (96.9, (96.5, 97.2), None),
        (95.0, (94.5, 95.5), "- GAT, beside the paper: FGSM -2.11.\n"),
        (99.0, (98.8, 99.2), "- GAT, beside the paper: FGSM +1.89.\n"),
        (97.0, (96.9, 97.11), None),  # the end of the interval is inside
    ],
)
def test_a_difference_larger_than_the_interval_has_a_sentence(ours, interval, sentence):
    words = page_of(replace(GOOD, ours=ours, interval=interval))
    assert (sentence in words) if sentence else ("beside the paper" not in words)


@pytest.mark.parametrize(
    ("unit", "paper", "interval", "apart"),
    [
        ("%", 0.0, (0.0018, 0.06), False),  # 0.00 to 0.06 is what is printed
        ("%", 89.24, (89.2444, 90.43), False),
        ("%", 89.24, (89.2451, 90.43), True),
        ("%", 89.24, (88.0, 89.2351), False),
        ("L2", 0.669, (0.6694, 0.7), False),
        ("L2", 0.669, (0.6696, 0.7), True),
    ],
)
def test_what_is_printed_as_inside_the_interval_is_no_difference(unit, paper, interval, apart):
    cell = replace(GOOD, unit=unit, paper=paper, ours=90.0, interval=interval)
    assert (cell.apart is not None) == apart


def test_brought_networks_are_told_with_their_columns_where_a_row_has_several():
    one, two = (
        replace(
            GOOD, column=column, about=ABOUT | {"recipe": None, "model": model, "network": f"yours-{model}"}
        )
        for column, model in (("Clean", "a"), ("FGSM", "b"))
    )
    words = page_of(one, two)
    assert "- GAT (Clean): brought with --checkpoint, a, kept as yours-a.\n" in words
    assert "- GAT (FGSM): brought with --checkpoint, b, kept as yours-b.\n" in words


def test_files_of_other_things_may_lie_beside_results(tmp_path):
    save_result(tmp_path, toy_table(), [GOOD])
    for name, content in (("notes", "{}"), ("list", "[1]"), ("broken", "{")):
        (tmp_path / f"{name}.json").write_text(content)
    assert [result.name for result in read_results(tmp_path)] == ["toy"]
    (tmp_path / "table2.json").write_text("{}")  # which must be one
    with pytest.raises(RunError, match=r"table2\.json holds no results"):
        read_results(tmp_path)


def test_a_folder_that_nobody_can_write_into_is_refused_first(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(RunError, match=r"nothing can be written into .*; give another --results"):
        check_folder(tmp_path)
    check_folder(tmp_path / "new")


def test_known_reasons_stand_with_the_difference():
    apart = replace(GOOD, ours=90.0, interval=(89.0, 91.0), about=ABOUT | {"changed": {"epochs": "1"}})
    words = page_of(apart, FGSM="Columns have reasons.", GAT="Rows, too.", Normal="Not this one.")
    assert (
        "- GAT, beside the paper: FGSM -7.11. Made with epochs=1 in place of the experiment's own "
        "setting. Rows, too.\n- FGSM: Columns have reasons.\n"
    ) in words
    assert "Not this one" not in words


def test_reasons_for_a_training_are_not_told_of_a_network_that_was_brought():
    apart = replace(GOOD, ours=90.0, interval=(89.0, 91.0), about=ABOUT | {"recipe": None, "model": "mine"})
    words = page_of(apart, FGSM="Columns have reasons.", GAT="Rows, too.", **{"GAT/FGSM": "And places."})
    assert "- GAT, beside the paper: FGSM -7.11. And places.\n- FGSM: Columns have reasons.\n" in words
    assert "Rows, too" not in words


def test_a_remark_goes_with_the_figure_that_it_is_of():
    seen = replace(GOOD, about=ABOUT | {"remark": "this one fell and rose again."})
    more = replace(seen, column="PGD-40")
    assert page_of(seen, more).count("- GAT: this one fell and rose again.\n") == 1
    assert "- GAT (FGSM): this one fell and rose again.\n" in page_of(seen, replace(GOOD, column="PGD-40"))
    (read_again,) = merged([seen], [GOOD])
    assert read_again.about["remark"] == "this one fell and rose again."
    old = seen.about | {"weights": "aa", "converted": "from halves", "made": MADE | {"device": "another"}}
    (alike,) = merged([replace(seen, about=old)], [replace(GOOD, about=ABOUT | {"weights": "aa"})])
    assert alike.about["remark"] == "this one fell and rose again."  # the training's
    assert "converted" not in alike.about  # the figure's
    measured_again = replace(GOOD, about=ABOUT | {"made": MADE | {"date": "2026-02-03T04:05:06+00:00"}})
    assert merged([seen], [measured_again]) == [measured_again]


def test_what_is_left_of_an_earlier_recipe_goes_when_its_row_is_measured_anew(tmp_path):
    table = toy_table()
    old = [replace(GOOD, column=column) for column in ("Clean", "FGSM")]
    other, brought = replace(GOOD, row="Normal"), replace(old[1], about=ABOUT | {"recipe": None})
    today = ABOUT | {"network": "gat-2", "recipe": "gat:epochs=60"}

    def left(before: list[Cell], new: Cell) -> dict[str, float | None]:
        (tmp_path / "toy.json").unlink(missing_ok=True)
        save_result(tmp_path, table, [*before, other])
        cells = read_result(save_result(tmp_path, table, [new])).cells
        assert [cell.ours for cell in cells if cell.row == "Normal" and cell.measured] == [96.9]
        return {cell.column: cell.ours for cell in cells if cell.row == "GAT" and cell.column in COLUMNS}

    assert left(old, replace(old[0], ours=97.0, about=today)) == {"Clean": 97.0, "FGSM": None}
    assert left(old, replace(old[0], ours=97.0)) == {"Clean": 97.0, "FGSM": 96.9}  # the same recipe
    assert left(old, replace(old[0], n=40, about=today)) == {"Clean": 96.9, "FGSM": 96.9}  # not taken
    assert left([old[0], brought], replace(old[0], about=today)) == {"Clean": 96.9, "FGSM": 96.9}


def test_a_trial_deletes_nothing(tmp_path):
    """Not even where a place asks for no more images than it has, and so is no trial of its own."""
    table = toy_table(columns={"Clean": Measure(), "FGSM": Measure("fgsm"), "DDN": Measure("ddn", n=100)})
    old = [replace(GOOD, column=column) for column in ("Clean", "FGSM")]
    few = replace(GOOD, n=100, ours=1.0, about=ABOUT | {"network": "gat-2", "recipe": "gat:epochs=60"})
    trial = [replace(few, column=column) for column in ("Clean", "FGSM", "DDN")]
    for new in (trial[2:], trial, trial[::-1]):
        (tmp_path / "toy.json").unlink(missing_ok=True)
        save_result(tmp_path, table, old)
        cells = read_result(save_result(tmp_path, table, new, trial=True)).cells
        found = {cell.column: cell.ours for cell in cells if cell.measured}
        assert found == {"Clean": 96.9, "FGSM": 96.9, "DDN": 1.0}


def test_a_place_that_asks_for_few_images_counts_when_it_has_them(tmp_path):
    table = toy_table(columns={"Clean": Measure(), "FGSM": Measure("fgsm", n=1000)})
    new = replace(GOOD, n=1000, about=ABOUT | {"network": "gat-2", "recipe": "gat:epochs=60"})
    save_result(tmp_path, table, [replace(GOOD, column="Clean")])
    cells = read_result(save_result(tmp_path, table, [new])).cells
    assert [cell.column for cell in cells if cell.measured] == ["FGSM"]


def test_a_word_on_the_whole_table_needs_no_difference():
    assert "\n- Of all of it.\n" in page_of(GOOD, **{"": "Of all of it."})
    assert "Of all of it." not in page_of(**{"": "Of all of it."})  # nothing is measured


def test_a_figure_that_was_worked_out_from_an_earlier_one_is_told():
    far = replace(GOOD, column="CW mean L2", unit="L2", about=ABOUT | {"converted": "from halves"})
    words = page_of(GOOD, far, replace(far, row="Normal"))
    assert "- Normal; GAT (CW mean L2): from halves.\n" in words
    assert "from halves" not in page_of(GOOD)


def test_how_many_images_are_behind_a_figure_is_told():
    far = replace(GOOD, column="CW mean L2", unit="L2", ours=0.7, interval=(0.6, 0.8), n=806)
    words = page_of(GOOD, far)
    assert "- Images: 10,000.\n- Distances: over 806 images, 0 for one wrong untouched.\n" in words


def test_where_not_all_figures_are_of_as_many_images_the_page_says_which():
    far = replace(GOOD, column="CW mean L2", unit="L2", ours=0.7, interval=(0.6, 0.8), n=1000)
    fewer, few = replace(far, row="Normal", n=997), replace(GOOD, column="PGD-40", n=500)
    words = page_of(GOOD, replace(GOOD, column="Clean"), few, far, fewer)
    assert "- Images: 10,000 (GAT (PGD-40) 500).\n" in words
    assert "- Distances: over 1,000 (Normal 997) images, 0 for one wrong untouched.\n" in words


def test_each_day_says_which_figures_are_its_own():
    def on(day: str, *cells: Cell) -> list[Cell]:
        return [replace(cell, about=cell.about | {"made": MADE | {"date": f"2026-{day}"}}) for cell in cells]

    row = [replace(GOOD, column=column) for column in ("Clean", "FGSM", "PGD-40", "CW mean L2")]
    later = on("02-02", row[3], replace(GOOD, row="Normal"))
    words = page_of(*later, *on("01-01", *row[:3]))
    lines = [line for line in words.splitlines() if "`do it`" in line]
    assert [line.partition(", a GPU")[0] for line in lines] == [
        "- GAT (all but CW mean L2): `do it`: 2026-01-01",
        "- Normal; GAT (CW mean L2): `do it`: 2026-02-02",
    ]
    assert "- `do it`: 2026-02-02, a GPU" in page_of(*later)


def test_a_network_that_was_rounded_on_its_way_is_no_other_network():
    about = ABOUT | {"data": "mnist", "weights": "aa"}
    rounded = about | {"weights": "bb", "rounded_from": "aa"}
    cells = replace(GOOD, about=about), replace(GOOD, column="Clean", about=rounded)
    words = page_of(*cells)
    assert "- GAT (Clean): with the trained weights rounded to half precision.\n" in words
    assert "sets of weights" not in words


@pytest.mark.parametrize(
    ("other", "told"),
    [
        ({"network": "gat-1", "weights": "aa"}, False),
        ({"network": "gat-1", "weights": "bb"}, True),  # the same recipe, trained again
        ({"network": "gat-1"}, False),  # measured before weights were written down
        ({"network": "gat-2", "weights": "aa"}, True),
        ({"network": "gat-2", "weights": "bb", "data": "cifar10"}, False),  # columns of other data
    ],
)
def test_a_row_of_two_networks_is_told(other, told):
    about = ABOUT | {"data": "mnist", "weights": "aa"}
    one, two = (
        replace(GOOD, about=about),
        replace(GOOD, column="Clean", about=about | {"weights": ""} | other),
    )
    words = "GAT on mnist: these figures are of 2 sets of weights."
    assert (words in page_of(one, two)) is told
    assert words not in page_of(one, replace(two, row="Normal"))
    early = "GAT on mnist: some of these figures are from before weights were written down"
    assert (early in page_of(one, two)) is (other == {"network": "gat-1"})
    assert early not in page_of(two, replace(two, column="PGD-40"))  # of the same age, if none has weights


@pytest.mark.parametrize(
    ("other", "told"),
    [
        ({"source": "standard-1", "source_weights": "aa"}, ""),
        ({"source": "standard-1", "source_weights": "bb"}, "were made on 2 sets of weights"),
        ({"source": "standard-2", "source_weights": "bb"}, "were made on 2 sets of weights"),
        ({"source": "standard-1"}, "may have been made on another training"),  # from before they were kept
    ],
)
def test_a_column_whose_images_were_made_on_two_sources_is_told(other, told):
    about = ABOUT | {"data": "mnist", "weights": "cc"}
    one = replace(GOOD, about=about | {"source": "standard-1", "source_weights": "aa"})
    two = replace(GOOD, row="Normal", about=about | {"network": "standard-3"} | other)
    words = page_of(one, two)
    assert ("- FGSM: " in words) is bool(told)
    assert told in words
    assert "were made on" not in page_of(one, replace(two, column="Clean"))
    early = replace(two, about=two.about | {"source": "standard-1", "source_weights": ""})
    assert "been made on" not in page_of(replace(early, row="GAT"), early)  # all of the same age


def test_a_network_of_the_users_is_called_so():
    words = page_of(replace(GOOD, about=ABOUT | {"recipe": None, "model": "small-cnn"}))
    assert "GAT: brought with --checkpoint, small-cnn, kept as gat-1." in words


def test_read_back_it_is_the_same(tmp_path):
    path = save_result(tmp_path, toy_table(notes={"GAT": "why"}), [GOOD])
    assert read_result(path) == result_of(toy_table(notes={"GAT": "why"}), [GOOD])


@pytest.mark.parametrize(
    ("seconds", "words"), [(3.04, "3.0 s"), (89, "89.0 s"), (90, "1.5 min"), (7200, "2.0 h")]
)
def test_times_are_readable(seconds, words):
    assert spoken(seconds) == words
