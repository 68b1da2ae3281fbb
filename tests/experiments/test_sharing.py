"""Several processes and rows on one cache: each thing is made once, and faults stay where they are."""

from dataclasses import replace
from shutil import copytree, rmtree

import pytest

from experiments.toy import COLUMNS, GAT, NORMAL, shop_at, toy_table
from gamagat.engine.alone import LOCK, alone_in
from gamagat.engine.evaluate import TIME_OVER
from gamagat.experiments import workshop
from gamagat.experiments.core import Measure, Network
from gamagat.experiments.forecast import forecast
from gamagat.experiments.runner import run


@pytest.fixture
def fresh(filled, tmp_path):
    """A workshop with trained networks, and nothing measured with its seed."""
    copytree(filled, tmp_path / "cache")
    shop = shop_at(tmp_path / "cache")
    shop.cache.seed = 5
    return shop


@pytest.mark.parametrize("column", ["FGSM", "transfer"])
def test_what_another_process_measures_is_waited_for_and_not_measured_again(fresh, monkeypatch, column):
    table, said = toy_table().only(["GAT"], [column]), []
    measured = run(table, fresh).cells[0]
    place = fresh.cache.evaluation(GAT, COLUMNS[column])
    aside = place.rename(place.with_name("aside"))
    fresh.say = said.append

    def done_meanwhile(seconds: float) -> None:
        if place.is_dir():
            rmtree(place)
        aside.rename(place)
        other.__exit__(None, None, None)

    held = place if column == "FGSM" else fresh.cache.home(NORMAL)
    held.mkdir(exist_ok=True)
    other = alone_in(held / LOCK, lambda: pytest.fail("who else?"))
    other.__enter__()
    monkeypatch.setattr(workshop, "sleep", done_meanwhile)
    assert run(table, fresh).cells == [measured]
    assert said == [f"waiting for another process that measures GAT, {column}"]


def test_waiting_for_a_measurement_ends_when_the_time_is_over(fresh):
    place = fresh.cache.evaluation(GAT, COLUMNS["FGSM"])
    place.mkdir()
    shop = shop_at(fresh.cache.root, seconds=0.7)
    shop.cache.seed = 5
    with alone_in(place / LOCK, lambda: pytest.fail("who else?")):
        assert run(toy_table().only(["GAT"], ["FGSM"]), shop).stopped == TIME_OVER


@pytest.mark.parametrize("file", ["manifest.json", "ledger-0.sqlite"])
def test_a_damaged_evaluation_is_measured_again_and_kept(fresh, file):
    table, said = toy_table().only(["GAT"], ["FGSM"]), []
    whole = run(table, fresh).cells[0]
    place = fresh.cache.evaluation(GAT, COLUMNS["FGSM"])
    (place / file).write_bytes(b"x" * 5000)
    fresh.say = said.append
    assert run(table, fresh).cells[0].ours == whole.ours
    (words,) = (line for line in said if "damaged" in line)
    (aside,) = place.parent.glob(f"{place.name}-damaged-*")
    assert file in words
    assert str(aside) in words
    assert (aside / file).read_bytes() == b"x" * 5000


def test_rows_of_another_radius_have_images_of_their_own(fresh, monkeypatch):
    rows = {"Normal": NORMAL, "near": replace(NORMAL, eps="0.1"), "GAT": GAT}
    table = toy_table(rows=rows).only(columns=["transfer"])
    for network in rows.values():
        fresh.trained(network)
    made, transfer = [], workshop.transfer

    def counted(request, onlooker):
        made.append((request.eps, len(request.targets)))
        return transfer(request, onlooker)

    times = iter([0.0, 10.0, 20.0, 23.0])
    monkeypatch.setattr(workshop, "transfer", counted)
    monkeypatch.setattr(workshop, "monotonic", lambda: next(times))
    cells = run(table, fresh).cells
    assert made == [("0.2", 2), ("0.1", 1)]
    assert [cell.seconds for cell in cells] == [5.0, 3.0, 5.0]


def test_a_row_for_the_user_to_bring_does_not_keep_transfers_from_the_others(fresh):
    rows = {"Wide": Network("digits", "digits-cnn"), "GAT": GAT, "more": Network("digits", "small-cnn")}
    table = toy_table(rows=rows, columns={"transfer": COLUMNS["transfer"]})
    states = [item.state for item in forecast(table, fresh).items if item.kind == "measure"]
    assert states == ["cannot be had: bring it with --checkpoint", "40 images", *states[:1]]
    assert [cell.measured for cell in run(table, fresh).cells] == [False, True, False]


@pytest.mark.parametrize("broken", ["folder", "file"])
def test_a_place_that_cannot_be_written_to_does_not_keep_transfers_from_the_others(fresh, broken):
    place = fresh.cache.evaluation(GAT, COLUMNS["transfer"])
    if broken == "folder":
        place.mkdir()
    else:
        rmtree(place.parent)
        place.parent.write_text("a file")
    cells = run(toy_table().only(columns=["transfer"]), fresh).cells
    assert [cell.measured for cell in cells] == [True, False]
    assert "cannot write" in cells[1].reason


def test_the_clean_accuracy_and_fgsm_are_one_evaluation(fresh):
    columns = {"Clean": Measure(), "FGSM": COLUMNS["FGSM"]}
    said: list[str] = []
    fresh.say = said.append
    run(toy_table(rows={"GAT": GAT}, columns=columns), fresh)
    assert said == ["measuring GAT, Clean"]
