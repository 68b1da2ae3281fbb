"""Several processes and rows on one cache: each thing is made once, and faults stay where they are."""

from dataclasses import replace
from shutil import copytree, rmtree

import pytest

from experiments.toy import COLUMNS, GAT, NORMAL, shop_at, toy_table
from gamagat.engine.alone import LOCK, alone_in, beside
from gamagat.engine.evaluate import TIME_OVER
from gamagat.experiments import telling, workshop
from gamagat.experiments.core import Measure, Network
from gamagat.experiments.forecast import forecast
from gamagat.experiments.runner import run
from gamagat.experiments.workshop import Workshop


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

    held = beside(place) if column == "FGSM" else fresh.cache.home(NORMAL) / LOCK
    other = alone_in(held, lambda: pytest.fail("who else?"))
    other.__enter__()
    monkeypatch.setattr(telling, "sleep", done_meanwhile)
    assert run(table, fresh).cells == [measured]
    what = "measures GAT, FGSM" if column == "FGSM" else f"makes images on {NORMAL.name}"
    assert said == [f"waiting for another process that {what}"]


@pytest.mark.parametrize("column", ["FGSM", "transfer"])
def test_what_is_there_waits_for_nobody(fresh, column):
    table = toy_table().only(["GAT"], [column])
    (measured,) = run(table, fresh).cells
    place = fresh.cache.evaluation(GAT, COLUMNS[column])
    held = beside(place) if column == "FGSM" else fresh.cache.home(NORMAL) / LOCK
    fresh.say = pytest.fail
    with alone_in(held, lambda: pytest.fail("who else?")):
        assert run(table, fresh).cells == [measured]


def test_waiting_for_a_measurement_ends_when_the_time_is_over(fresh):
    place = fresh.cache.evaluation(GAT, COLUMNS["FGSM"])
    shop = shop_at(fresh.cache.root, seconds=0.7)
    shop.cache.seed = 5
    with alone_in(beside(place), lambda: pytest.fail("who else?")):
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


def test_who_makes_a_damaged_evaluation_again_is_alone_with_it(fresh, monkeypatch):
    table = toy_table().only(["GAT"], ["FGSM"])
    run(table, fresh)
    place = fresh.cache.evaluation(GAT, COLUMNS["FGSM"])
    (place / "manifest.json").write_text("{")
    waited, measured = [], Workshop._measured

    def while_it_is_made(shop, *words):
        try:
            with alone_in(beside(place), lambda: (_ for _ in ()).throw(TimeoutError)):
                pytest.fail("another process came in")
        except TimeoutError:
            waited.append(place)
        return measured(shop, *words)

    monkeypatch.setattr(Workshop, "_measured", while_it_is_made)
    assert run(table, fresh).cells[0].measured
    assert waited == [place]


def test_an_evaluation_without_its_manifest_is_measured_again(fresh):
    table = toy_table().only(["GAT"], ["FGSM"])
    whole = run(table, fresh).cells[0]
    place, said = fresh.cache.evaluation(GAT, COLUMNS["FGSM"]), []
    (place / "manifest.json").unlink()
    fresh.say = said.append
    assert run(table, fresh).cells[0].ours == whole.ours
    assert any("has lost its manifest; it is measured again" in line for line in said)


def test_an_evaluation_of_another_version_is_left_where_it_is(fresh):
    table = toy_table().only(["GAT"], ["FGSM"])
    run(table, fresh)
    place = fresh.cache.evaluation(GAT, COLUMNS["FGSM"])
    manifest = place / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"seed"', '"of_tomorrow": 1, "seed"', 1))
    (cell,) = run(table, fresh).cells
    assert "is of another version of gamagat" in cell.reason
    assert not list(place.parent.glob("*damaged*"))


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


def test_a_place_that_cannot_be_written_to_has_no_images_made_twice(fresh, monkeypatch):
    names = ("Normal", "broken", "third", "fourth")
    rows = {name: replace(NORMAL, seed=seed) for seed, name in enumerate(names)}
    table = toy_table(rows=rows).only(columns=["transfer"])
    for network in rows.values():
        fresh.trained(network)
    fresh.cache.evaluation(rows["broken"], COLUMNS["transfer"]).mkdir(parents=True)
    made, transfer = [], workshop.transfer
    monkeypatch.setattr(
        workshop, "transfer", lambda request, on: made.append(len(request.targets)) or transfer(request, on)
    )
    cells = run(table, fresh).cells
    assert [cell.measured for cell in cells] == [True, False, True, True]
    assert made == [4, 1]  # once for all, and for the one that cannot be kept


def test_the_clean_accuracy_and_fgsm_are_one_evaluation(fresh):
    columns = {"Clean": Measure(), "FGSM": COLUMNS["FGSM"]}
    said: list[str] = []
    fresh.say = said.append
    run(toy_table(rows={"GAT": GAT}, columns=columns), fresh)
    assert said == ["measuring GAT, Clean"]
