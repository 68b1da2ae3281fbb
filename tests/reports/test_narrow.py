"""Tables on narrow terminals: every word in one piece, every number whole."""

import re
from io import StringIO

import pytest
from rich.console import Console
from rich.table import Table
from rich.text import Text
from small_run import small_run

from gamagat.cli.plot import _table as plots_table
from gamagat.engine.bench.rows import OURS, PUBLISHED, Bench, Row
from gamagat.engine.compare import compare_runs
from gamagat.engine.run import read_run
from gamagat.engine.share import Share
from gamagat.engine.transfer import Transfer
from gamagat.experiments.forecast import Forecast, Item
from gamagat.experiments.results import read_figure, read_result
from gamagat.reports import terminal
from gamagat.reports.bench import bench_table
from gamagat.reports.comparison import (
    budget_table,
    comparison_tables,
    cost_table,
    paired_table,
    shared_plan,
)
from gamagat.reports.narrow import fitted
from gamagat.reports.reproduction import forecast_table, lines_table, side_by_side
from gamagat.reports.tables import evaluation_table
from gamagat.reports.terminal import put
from gamagat.reports.training import final_table
from gamagat.reports.transfer import transfer_table
from helpers import ROOT

SPECS = ("fgsm", "gama-pgd:steps=12,restarts=2", "autoattack:steps=3,queries=30")
FBF = "fbf:epochs=50,batch=64,rate=0.01,cycle=stepped,drops=0.25+0.5+0.75,optimizer=sgd, m-lenet, mnist"
SHARE = Share(9311, 10000)


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Each table that a command prints."""
    folder = tmp_path_factory.mktemp("runs")
    result = small_run(folder / "a", specs=SPECS)
    run = read_run(folder / "a")
    pairs, plan = compare_runs(run, run), shared_plan(run, run)
    rows = [
        Row("per gradient, nothing dropped", who, who, 10, 12.345, 10.0, 93.11) for who in (OURS, PUBLISHED)
    ]
    items = [
        Item("fetch", "cifar10", "cifar-10-binary.tar.gz: not found, and not downloaded for a plan"),
        Item("train", FBF, "goes on, 12 of 100 epochs done", 12345.6),
        Item("measure", "RFGSM-AT, GAMA-PGD-100", "10000 images", 98.7),
    ]
    names = ("resnet18@gat.pt", "wide-resnet@trades.pt", "vgg")
    shares = dict.fromkeys(names, SHARE)
    carried = Transfer("resnet18@gat.pt", "cifar10", "linf", 8 / 255, shares, {"gama-pgd": shares}, {})
    return {
        "reproduce": side_by_side(read_result(ROOT / "results" / "tableS5.json")),
        "figure": lines_table(read_figure(ROOT / "results" / "figureS5.json")),
        "plan": forecast_table(Forecast(items)),
        "evaluate": evaluation_table(result),
        "train": final_table({"selected": result, "last": result}, "digits-cnn after gat on digits"),
        "pairs": comparison_tables(pairs, plan)[0],
        "counts": paired_table(pairs.worst),
        "budget": budget_table(run, 20),
        "cost": cost_table(run),
        "bench": bench_table([Bench("preact-resnet18 on cifar10", {}, tuple(rows))]),
        "transfer": transfer_table(carried),
        "plots": plots_table(),
    }  # fmt: skip


def drawn(view, width):
    console = Console(file=StringIO(), width=width, color_system=None)
    console.print(view)
    return console.file.getvalue()


def pieces(table):
    """All that no line may break; of words that nobody reads only what a line can hold."""
    headings = [column.header for column in table.columns if column.justify == "right"]
    texts = headings + [cell for column in table.columns for cell in column.cells]
    for text in texts:
        plain = text.plain if isinstance(text, Text) else Text.from_markup(text).plain
        yield from (piece for piece in re.split(r"\s+|(?<=[,:])(?=[a-z])", plain) if len(piece) <= 28)


NAMES = [
    "reproduce", "figure", "plan", "evaluate", "train", "pairs", "counts", "budget", "cost", "bench",
    "transfer", "plots",
]  # fmt: skip


@pytest.mark.parametrize("width", [80, 60])
@pytest.mark.parametrize("name", NAMES)
def test_no_word_is_broken_and_no_line_too_long(tables, name, width):
    text = drawn(fitted(tables[name], width), width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    words = re.split(r"[\s│┃]+|(?<=[,:])(?=[a-z])", text)
    assert not set(pieces(tables[name])) - {*words, *(word.rstrip(",:") for word in words)}


@pytest.mark.parametrize("name", NAMES)
def test_where_there_is_room_nothing_changes(tables, name):
    assert fitted(tables[name], 300) is tables[name]


def test_a_figure_beside_the_papers_takes_one_line_of_80(tables):
    line = next(line for line in drawn(fitted(tables["reproduce"], 80), 80).splitlines() if "GAMA" in line)
    assert re.search(r"Normal +GAMA-PGD-100 +\S+ +\S+ +\S+ to \S+ +10000 +\S+$", line)


def test_what_fits_in_no_table_is_told_in_words():
    table = Table(title="odd")
    table.add_column("row")
    for heading in ("accuracy %", "95 % interval", "seconds"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_row("GAT", "93.11", "92.60 to 93.59", "12345.6")
    table.add_row("FBF", "", "", "")
    assert drawn(fitted(table, 25), 25).splitlines() == [
        "odd", "GAT: accuracy % 93.11,", "  95 % interval 92.60 to", "  93.59, seconds 12345.6", "FBF",
    ]  # fmt: skip


def test_in_words_every_line_says_whose_it_is():
    """Tables leave out a name that is the same as above."""
    table = Table("attack")
    for heading in ("at most", "accuracy %", "95 % interval"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_row("", "0", "97.67", "")
    table.add_row("fgsm", "0", "97.67", "")
    table.add_row("", "1", "92.33", "")
    lines = drawn(fitted(table, 26), 26).replace("\n  ", " ").splitlines()
    assert lines == [
        "at most 0, accuracy % 97.67",
        "fgsm: at most 0, accuracy % 97.67",
        "fgsm: at most 1, accuracy % 92.33",
    ]


def test_markup_is_none_in_words_of_others():
    table = Table("name", "what")
    table.add_row(r"a\[b]", Text("[c] " * 20))
    text = drawn(fitted(table, 40), 40)
    assert "a[b]" in text
    assert text.count("[c]") == 20


def test_commands_print_tables_that_fit(monkeypatch, capsys, tables):
    monkeypatch.setattr(terminal, "console", lambda: Console(width=60, highlight=False))
    put(tables["evaluate"])
    assert capsys.readouterr().out == drawn(fitted(tables["evaluate"], 60), 60)
