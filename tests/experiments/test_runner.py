"""Filling a table: trained once, measured once, and never lost."""

import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from shutil import copytree, rmtree

import numpy as np
import pytest
import torch

from experiments.toy import COLUMNS, GAT, NORMAL, shop_at, toy_table
from gamagat.attacks.network import OutOfTime
from gamagat.data.core import load_data
from gamagat.engine.alone import alone_in
from gamagat.engine.distances import Distances
from gamagat.engine.evaluate import INTERRUPTED, TIME_OVER
from gamagat.engine.request import EvaluationRequest, prepare
from gamagat.engine.training.run import Listener
from gamagat.errors import ConfigError, DataError
from gamagat.experiments import cache, telling, workshop
from gamagat.experiments.cells import of_distances, of_others
from gamagat.experiments.clock import Clock
from gamagat.experiments.core import Derived, Measure, Network, Slot, Table, grid
from gamagat.experiments.forecast import forecast
from gamagat.experiments.runner import run, train_networks
from gamagat.models.core import BUNDLED, load_model


@pytest.fixture
def no_training(monkeypatch):
    """Whoever trains now fails the test."""
    monkeypatch.setattr(workshop, "train", lambda *_: pytest.fail("it trains again"))


def cell_of(outcome, row, column):
    return next(cell for cell in outcome.cells if (cell.row, cell.column) == (row, column))


def by_place(outcome):
    return {(cell.row, cell.column): (cell.ours, cell.interval, cell.n) for cell in outcome.cells}


def test_every_place_is_filled_with_what_the_network_does(filled, no_training):
    outcome = run(toy_table(), shop_at(filled))
    assert outcome.stopped is None
    assert [cell.status for cell in outcome.cells] == ["measured"] * 10
    home = shop_at(filled).cache.home(GAT)
    data = load_data("digits").head(40)
    x, y = data.batch(torch.arange(40))
    model = load_model("digits-cnn", home / "model.safetensors").eval()
    with torch.no_grad():
        right = int((model(x).argmax(1) == y).sum())
    clean = cell_of(outcome, "GAT", "Clean")
    assert clean.ours == pytest.approx(100 * right / 40)
    assert (clean.n, clean.paper) == (40, 99.37)
    assert clean.interval[0] < clean.ours < clean.interval[1] or clean.ours in (0.0, 100.0)


def test_all_columns_of_a_row_are_measured_on_one_network_that_was_loaded_once(filled, monkeypatch, tmp_path):
    seen: dict[str, list[torch.nn.Module]] = {}
    measured = workshop.Prepared.run

    def watched(prepared, onlooker):
        seen.setdefault(str(prepared.request.weights), []).append(prepared.model)
        return measured(prepared, onlooker)

    monkeypatch.setattr(workshop.Prepared, "run", watched)
    copytree(filled, tmp_path / "cache")
    shop = shop_at(tmp_path / "cache")
    shop.cache.seed = 5  # nothing is measured yet
    run(toy_table(), shop)
    assert len(seen) == 2
    assert all(
        len(models) > 1 and {id(model) for model in models} == {id(models[0])} for models in seen.values()
    )


def test_an_attack_that_fails_does_not_stop_the_others(filled, monkeypatch, tmp_path):
    measured = workshop.Prepared.run

    def failing(prepared, onlooker):
        if prepared.request.attacks[0].startswith("pgd"):
            raise RuntimeError("no way back\nthrough this network")
        return measured(prepared, onlooker)

    monkeypatch.setattr(workshop.Prepared, "run", failing)
    copytree(filled, tmp_path / "cache")
    shop = shop_at(tmp_path / "cache")
    shop.cache.seed = 5  # nothing is measured yet
    outcome = run(toy_table(), shop)
    assert outcome.stopped is None
    reasons = {cell.column: cell.reason for cell in outcome.missing}
    assert set(reasons) == {"PGD-40"}
    told = "pgd:steps=3,as_published=true failed with RuntimeError: no way back through this network"
    assert reasons["PGD-40"] == told


def test_what_another_process_trains_is_waited_for_and_not_trained_again(filled, monkeypatch, tmp_path):
    """Two that train in one folder would measure each other's weights."""
    shop, said = shop_at(tmp_path / "cache"), []
    home = shop.cache.home(GAT)
    home.mkdir(parents=True)
    shop.say = said.append

    def done_meanwhile(seconds: float) -> None:
        if not shop.cache.is_trained(GAT):
            copytree(shop_at(filled).cache.home(GAT), home, dirs_exist_ok=True)
            other.__exit__(None, None, None)

    other = alone_in(home, lambda: pytest.fail("who else?"))
    other.__enter__()
    monkeypatch.setattr(telling, "sleep", done_meanwhile)
    monkeypatch.setattr(workshop, "train", lambda *_: pytest.fail("it trains as well"))
    assert shop.trained(GAT) == home
    assert said == ["waiting for another process that trains gat, digits-cnn, digits"]


def test_waiting_ends_when_the_time_is_over(tmp_path):
    shop = shop_at(tmp_path / "cache", seconds=0.7)
    home = shop.cache.home(GAT)
    home.mkdir(parents=True)
    with alone_in(home, lambda: pytest.fail("who else?")):
        assert run(toy_table().only(["GAT"], ["Clean"]), shop).stopped == TIME_OVER


def test_a_training_that_fails_is_not_tried_for_every_column(monkeypatch, tmp_path):
    tries = []

    def failing(request, listener):
        tries.append(request.recipe)
        raise torch.OutOfMemoryError("the GPU is full")

    monkeypatch.setattr(workshop, "train", failing)
    outcome = run(toy_table().only(["GAT"]), shop_at(tmp_path / "cache"))
    assert tries == [GAT.recipe]
    assert all("failed with OutOfMemoryError: the GPU is full" in cell.reason for cell in outcome.missing)
    assert len(outcome.missing) == len(outcome.cells) > 1


def test_an_attack_is_the_one_that_evaluate_makes_of_the_folder(filled):
    cell = cell_of(run(toy_table(), shop_at(filled)), "GAT", "PGD-40")
    request = EvaluationRequest(
        str(shop_at(filled).cache.home(GAT)), n=40, attacks=("pgd:steps=3,as_published=true",), device="cpu"
    )
    assert cell.ours == prepare(request).run().standing.percent
    assert cell.about["attack"] == "pgd:steps=3,rate=0.25,as_published=true,restarts=1"
    assert cell.about["eps"] == 0.2
    assert cell.about["made"]["device"] == "cpu"
    assert cell.about["recipe"].startswith("gat:")
    assert cell.about["command"] == "toy"


def test_a_distance_is_the_mean_over_the_evaluations_nearest_images(filled):
    cell = cell_of(run(toy_table(), shop_at(filled)), "GAT", "CW mean L2")
    request = EvaluationRequest(
        str(shop_at(filled).cache.home(GAT)),
        n=40,
        norm="l2",
        eps="0.5",
        attacks=("ddn:steps=5",),
        device="cpu",
    )
    nearest = prepare(request).run().attacks[0].nearest
    assert nearest is not None
    sizes = nearest.sizes[np.isfinite(nearest.sizes)]
    assert cell.ours == pytest.approx(sizes.mean())
    assert cell.about["mean_of_right"] == pytest.approx(nearest.mean)
    half = 1.96 * np.std(sizes, ddof=1) / len(sizes) ** 0.5
    assert cell.interval == pytest.approx((sizes.mean() - half, sizes.mean() + half), rel=1e-3)
    assert (cell.n, cell.unit) == (len(sizes), "L2")


def test_an_image_that_is_wrong_untouched_is_no_distance_away_and_one_that_never_falls_does_not_count():
    slot = next(slot for slot in toy_table().slots if slot.column == "CW mean L2")
    cell = of_distances(toy_table(), slot, Distances(np.array([0.0, 0.0, 0.5, 1.5, np.inf]), 0.5), 1.0, {})
    assert (cell.ours, cell.n, cell.about) == (
        0.5,
        4,
        {"right_untouched": 3, "mean_of_right": 1.0, "images": 5},
    )
    lost = of_distances(toy_table(), slot, Distances(np.array([0.0, np.inf]), 0.5), 1.0, {})
    assert not lost.measured


def test_images_of_a_source_that_is_the_network_itself_fool_it_as_its_own_do(filled):
    """Transfer to oneself is the white-box attack."""
    outcome = run(toy_table(), shop_at(filled))
    itself = cell_of(outcome, "Normal", "transfer")
    assert itself.ours == cell_of(outcome, "Normal", "FGSM").ours
    assert itself.about["source"] == itself.about["network"]


def test_a_second_run_trains_and_attacks_nothing(filled, no_training, monkeypatch):
    before = run(toy_table(), shop_at(filled))
    monkeypatch.setattr(workshop, "prepare", lambda *_: pytest.fail("it attacks again"))
    monkeypatch.setattr(workshop, "transfer", lambda *_: pytest.fail("it transfers again"))
    after = run(toy_table(), shop_at(filled))
    assert by_place(after) == by_place(before)


def counting(monkeypatch):
    """The targets of every transfer that is made."""
    made, transfer = [], workshop.transfer

    def counted(request, onlooker):
        made.append(request.targets)
        return transfer(request, onlooker)

    monkeypatch.setattr(workshop, "transfer", counted)
    return made


def test_images_of_a_source_are_made_once_for_all_rows(filled, monkeypatch, tmp_path):
    copytree(filled, tmp_path / "cache")
    one_by_one, together = shop_at(tmp_path / "cache"), shop_at(tmp_path / "cache")
    table = toy_table().only(columns=["transfer"])
    for shop in (one_by_one, together):
        shop.cache.seed = 5  # nothing is measured yet
    apart = [run(table.only(rows=[row]), one_by_one).cells[0] for row in table.rows]
    for slot in table.slots:
        one_by_one.cache.evaluation(slot.network, slot.measure).unlink()
    made = counting(monkeypatch)
    cells = run(table, together).cells
    assert [len(targets) for targets in made] == [2]
    assert [cell.ours for cell in cells] == [cell.ours for cell in apart]
    assert [cell.about["weights"] for cell in cells] == [cell.about["weights"] for cell in apart]
    assert {cell.about["source_weights"] for cell in cells} == {cells[0].about["weights"]}  # Normal's own
    assert len({cell.ours for cell in cells}) == 2  # networks that cannot be mistaken for each other


@pytest.mark.parametrize("content", ["", '{"count": 5', "[]", '{"count": 5, "of": 40}'])
def test_a_damaged_transfer_is_made_again(filled, monkeypatch, tmp_path, content):
    copytree(filled, tmp_path / "cache")
    shop, table = shop_at(tmp_path / "cache"), toy_table().only(["GAT"], ["transfer"])
    place = shop.cache.evaluation(GAT, COLUMNS["transfer"])
    whole = run(table, shop).cells[0]
    place.write_text(content)
    assert forecast(table, shop).items[-1].state == "40 images"
    made = counting(monkeypatch)
    assert run(table, shop).cells[0].ours == whole.ours
    assert len(made) == 1
    assert json.loads(place.read_text())["of"] == 40


def test_of_a_trained_network_that_is_damaged_is_said_how_to_have_it_again(filled, tmp_path):
    copytree(filled, tmp_path / "cache")
    shop = shop_at(tmp_path / "cache")
    shop.cache.seed = 5  # nothing is measured yet
    home = shop.cache.home(GAT)
    (home / "model.safetensors").write_bytes(b"half of it")
    table = toy_table().only(["GAT"], ["FGSM"])
    (cell,) = run(table, shop).cells
    assert cell.reason == (
        f"the network that was trained in {home} cannot be read any more; remove this folder, and the same "
        "command trains it again"
    )
    rmtree(home)
    assert run(table, shop).cells[0].measured


def test_a_row_whose_network_fails_does_not_keep_a_transfer_from_the_others(filled, monkeypatch, tmp_path):
    copytree(filled, tmp_path / "cache")
    shop = shop_at(tmp_path / "cache")
    shop.cache.seed = 5  # nothing is measured yet
    torch.save(torch.nn.Linear(64, 10).state_dict(), tmp_path / "wrong.pt")
    table = toy_table(rows={"Normal": NORMAL, "wrong": NORMAL, "GAT": GAT}).only(columns=["transfer"])
    wrong = Network("", "digits-cnn", weights=str(tmp_path / "wrong.pt"), given=True)
    made = counting(monkeypatch)
    outcome = run(table.with_networks({"wrong": wrong}), shop)
    assert [len(targets) for targets in made] == [3, 1, 2, 1]  # it fails before images are made
    assert [cell.measured for cell in outcome.cells] == [True, False, True]
    assert "wrong.pt" in outcome.cells[1].reason


def test_a_transfer_ends_when_the_time_is_over(filled, monkeypatch, tmp_path):
    """Not at its own end, which may be far."""
    copytree(filled, tmp_path / "cache")
    shop = shop_at(tmp_path / "cache")
    shop.cache.seed = 5  # nothing is measured yet

    def transfer(request, onlooker):
        shop.clock._end = 0.0
        onlooker.progress("fgsm", 1, 2)
        pytest.fail("it goes on")

    monkeypatch.setattr(workshop, "transfer", transfer)
    outcome = run(toy_table().only(columns=["transfer"]), shop)
    assert outcome.stopped == TIME_OVER
    assert [cell.measured for cell in outcome.cells] == [False, False]


def test_two_tables_share_networks_and_evaluations(filled, no_training):
    other = toy_table("other", {"the same by another name": GAT})
    outcome = run(other, shop_at(filled))
    assert (
        by_place(outcome)["the same by another name", "FGSM"]
        == by_place(run(toy_table(), shop_at(filled)))["GAT", "FGSM"]
    )
    assert len(list((filled / "networks").iterdir())) == 2


@pytest.mark.parametrize(
    ("network", "options"),
    [
        (replace(GAT, seed=1), {}),
        (replace(GAT, eps="0.1"), {}),
        (replace(GAT, recipe="gat:weight=3"), {}),
        (replace(GAT, model="digits-cnn:normalize=half"), {}),
        (NORMAL, {}),
        (GAT, {"epochs": "2"}),
    ],
)
def test_what_makes_another_network_makes_another_folder(tmp_path, network, options):
    usual = shop_at(tmp_path).cache.home(GAT)
    other = shop_at(tmp_path, **options).cache.home(network)
    assert other != usual
    assert usual.parent == other.parent == tmp_path / "networks"
    assert usual.name.startswith("gat-digits-cnn-digits-")


def test_the_same_network_in_other_words_has_the_same_folder(tmp_path):
    cache = shop_at(tmp_path).cache
    said = replace(GAT, recipe="gat:weight=10,epochs=7", eps="1/5")  # --set says one epoch
    assert cache.home(said) == cache.home(GAT)


def interrupted_at(epoch):
    def batch(number, *_):
        if number == epoch:
            raise KeyboardInterrupt

    return Listener(batch=batch)


def test_an_interrupted_training_goes_on_and_ends_as_if_nothing_had_been(shop, tmp_path):
    table = toy_table(rows={"GAT": GAT}, columns={"Clean": COLUMNS["Clean"], "FGSM": COLUMNS["FGSM"]})
    first = shop(epochs="2")
    first.listening = lambda: nullcontext(interrupted_at(1))
    outcome = run(table, first)
    assert outcome.stopped == INTERRUPTED
    assert [(cell.status, cell.reason) for cell in outcome.cells] == [("not run", INTERRUPTED)] * 2
    epochs = set()
    second = shop(epochs="2")
    second.listening = lambda: nullcontext(Listener(batch=lambda number, *_: epochs.add(number)))
    ended = run(table, second)
    assert epochs == {1}
    whole = run(table, shop_at(tmp_path / "other", epochs="2"))
    assert by_place(ended) == by_place(whole)
    files = [
        s.cache.home(GAT) / "model.safetensors" for s in (second, shop_at(tmp_path / "other", epochs="2"))
    ]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_when_the_time_is_over_what_is_known_is_told_and_the_rest_is_left(filled):
    table = toy_table(rows={"Normal": NORMAL, "new": replace(GAT, seed=9), "GAT": GAT})
    outcome = run(table, shop_at(filled, 1e-9))
    assert outcome.stopped == TIME_OVER
    told = {row: {cell.status for cell in outcome.cells if cell.row == row} for row in table.rows}
    assert told == {"Normal": {"measured"}, "new": {"not run"}, "GAT": {"measured"}}
    assert {cell.reason for cell in outcome.missing} == {TIME_OVER}


def test_an_epoch_that_the_time_does_not_suffice_for_is_not_begun():
    heard = []
    listener = Clock(3600.0).watched(Listener(batch=lambda *words: heard.append(words)))
    listener.batch(0, 3, 1, 10)
    listener.epoch({"seconds": 1e6}, None)
    with pytest.raises(OutOfTime):
        listener.batch(1, 3, 1, 10)
    listener.batch(1, 3, 2, 10)  # once begun, an epoch has all the time there is
    assert heard == [(0, 3, 1, 10), (1, 3, 2, 10)]


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan")])
def test_no_time_at_all_is_refused(seconds):
    with pytest.raises(ConfigError, match="the time must be positive"):
        Clock(seconds)


def test_an_interrupted_attack_is_told_as_such(filled, monkeypatch, tmp_path):
    slow = Measure("pgd:steps=4")
    table = toy_table(rows={"GAT": GAT}, columns={"slow": slow})
    shop = shop_at(filled)
    monkeypatch.setattr("gamagat.engine.work.Work.entry", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    outcome = run(table, shop)
    assert outcome.stopped == INTERRUPTED
    monkeypatch.undo()
    assert run(table, shop_at(filled)).missing == []


def test_what_cannot_be_had_is_said_and_the_rest_is_measured(filled, tmp_path):
    missing = Network("imagenet100", "resnet18-imagenet", "standard")
    table = toy_table(
        rows={"far": missing, "GAT": GAT}, columns={"Clean": COLUMNS["Clean"], "FGSM": COLUMNS["FGSM"]}
    )
    shop = shop_at(filled)
    shop.cache.data_dir = tmp_path
    outcome = run(table, shop)
    assert outcome.stopped is None
    assert [cell.row for cell in outcome.missing] == ["far", "far"]
    assert "ImageNet cannot be downloaded freely" in outcome.missing[0].reason


def test_a_network_without_a_recipe_is_the_users_to_bring(tmp_path, no_training):
    bare = Network("digits", "digits-cnn")
    table = toy_table(rows={"public": bare}, columns={"Clean": Measure()})
    outcome = run(table, shop_at(tmp_path))
    assert outcome.cells[0].reason == "bring the network: --checkpoint 'public=digits-cnn@FILE'"
    weights = BUNDLED / "digits-cnn.safetensors"
    given = Network("", "digits-cnn", weights=str(weights), given=True)
    brought = run(table.with_networks({"PUBLIC": given}), shop_at(tmp_path))
    assert brought.cells[0].ours > 90
    assert brought.cells[0].about["network"].startswith("yours-digits-cnn-digits-")
    assert brought.cells[0].about["recipe"] is None


def test_a_callable_that_brings_its_own_weights_can_be_brought(tmp_path, monkeypatch):
    code = (
        "from torch import manual_seed, nn\n\ndef build():\n    manual_seed({})\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))\n"
    )
    homes = set()
    for seed in (0, 1):
        (tmp_path / f"own{seed}.py").write_text(code.format(seed))
        monkeypatch.syspath_prepend(tmp_path)
        given = Network("digits", f"own{seed}:build", given=True)
        homes.add(shop_at(tmp_path).cache.home(given).name.rpartition("-")[2])
    assert len(homes) == 2


def test_a_folder_with_a_card_can_be_brought(filled, tmp_path):
    folder = shop_at(filled).cache.home(GAT)
    table = toy_table(rows={"public": Network("digits", "small-cnn")}, columns={"FGSM": COLUMNS["FGSM"]})
    brought = table.with_networks({"all": Network("", str(folder), given=True)})
    own = cell_of(run(toy_table(), shop_at(filled)), "GAT", "FGSM")
    assert run(brought, shop_at(tmp_path)).cells[0].ours == own.ours


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (Network("", "m-lenet", given=True), "'m-lenet' has no weights; write MODEL@FILE"),
        (Network("", "no-such-net", given=True), "unknown model 'no-such-net'"),
        (Network("", "digits-cnn", weights="nowhere.pt", given=True), "there is no file nowhere.pt"),
    ],
)
def test_a_network_that_is_not_there_is_refused_before_anything_runs(tmp_path, no_training, given, message):
    with pytest.raises(ConfigError, match=message):
        run(toy_table().with_networks({"GAT": given}), shop_at(tmp_path))


def test_a_row_of_several_networks_takes_none(filled):
    table = toy_table()
    mixed = replace(table, slots=(*table.slots, replace(table.slots[0], row="GAT", column="more")))
    with pytest.raises(ConfigError, match="row 'GAT' of toy needs several networks"):
        mixed.with_networks({"GAT": Network("", "digits-cnn", weights="x", given=True)})


def test_bad_settings_of_trainings_are_refused_before_anything_runs(tmp_path, no_training):
    with pytest.raises(ConfigError, match="unknown option of recipe 'standard' 'weight'"):
        run(toy_table(), shop_at(tmp_path, weight="3"))


def test_only_networks(shop, filled):
    told = {}
    rows = {"GAT": GAT, "Normal": NORMAL, "bare": Network("digits", "digits-cnn")}
    table = toy_table(rows=rows, columns={"Clean": Measure()})
    done = []

    def hear(network, where, ready):
        told[network] = where
        done.append(ready)

    stopped = train_networks(table, shop(), hear)
    assert stopped is None
    assert done == [True, True, False]
    assert told.pop(rows["bare"]) == "bring it with --checkpoint"
    assert set(told) == {NORMAL, GAT}
    for where in told.values():
        assert not list(Path(where).glob("*checkpoint*"))  # a finished training goes nowhere
        assert Path(where, "metrics.jsonl").is_file()
        assert json.loads(Path(where, "card.json").read_text())["data"] == "digits"


def over_seeds(second: Network = GAT) -> Table:
    rows = {"run 1": GAT, "run 2": second}
    derived = tuple(Derived(how, "FGSM", tuple(rows), how) for how in ("mean", "std"))
    return toy_table(rows=rows, columns={"FGSM": COLUMNS["FGSM"]}, derived=derived)


def test_mean_and_deviation_over_seeds(filled):
    """Of two accuracies the deviation is the population's, the mean's interval is Student's."""
    table = over_seeds()
    first, second, *_ = run(table, shop_at(filled)).cells
    cells = [replace(first, ours=15.0), replace(second, ours=20.0)]
    mean, std = (of_others(table, place, cells) for place in table.derived)
    assert mean.ours == pytest.approx(17.5)
    assert std.ours == pytest.approx(2.5)
    half = 12.7062 * 2.5  # the quantile for one degree of freedom times |a - b| / sqrt(2) / sqrt(2)
    assert mean.interval == pytest.approx((17.5 - half, 17.5 + half), rel=1e-4)
    assert [slot.row for slot in table.only(["mean"]).slots] == ["run 1", "run 2"]
    cut = replace(table, slots=grid({"run 1": GAT}, {"FGSM": COLUMNS["FGSM"]}))
    assert run(cut, shop_at(filled)).cells[-1].reason == "1 of 2 runs are missing"


def test_runs_that_are_not_alike_make_no_mean(filled):
    table = over_seeds(NORMAL)
    cells = run(table, shop_at(filled)).cells
    assert [cell.reason for cell in cells if not cell.measured] == [
        "the runs differ in their recipe; measure all of them alike"
    ] * 2
    one, other = (replace(cell, about=cell.about | {"recipe": "gat"}) for cell in cells[:2])
    assert of_others(table, table.derived[0], [one, other]).measured
    for changed, word in (
        (replace(other, n=20), "number of images"),
        (replace(other, about=other.about | {"changed": {"epochs": "2"}, "seed": 3}), "changed, seed"),
        (replace(other, about=other.about | {"eps": 0.1}), "eps"),
    ):
        mean = of_others(table, table.derived[0], [one, changed])
        assert (mean.ours, mean.reason) == (
            None,
            f"the runs differ in their {word}; measure all of them alike",
        )


@pytest.fixture
def without_training_images(filled, monkeypatch, tmp_path):
    """A cache whose training images have gone, and its root."""

    def missing(*_):
        raise DataError("no training images here")

    copytree(filled, tmp_path / "cache")
    monkeypatch.setattr(cache, "split_data", missing)
    monkeypatch.setattr(workshop, "train", lambda *_: pytest.fail("it trains again"))
    return tmp_path / "cache"


def test_a_trained_network_is_measured_where_its_training_images_are_not(filled, without_training_images):
    shop = shop_at(without_training_images)
    shop.cache.seed = 5  # nothing is measured yet
    assert shop.cache.home(GAT).name in {place.name for place in (filled / "networks").iterdir()}
    table = toy_table(rows={"GAT": GAT}, columns={"FGSM": COLUMNS["FGSM"]})
    assert [cell.status for cell in run(table, shop).cells] == ["measured"]


def test_another_network_is_neither_promised_nor_trained_there(without_training_images):
    rows = {"GAT": GAT, "FGSM-AT": replace(GAT, recipe="fgsm-at")}
    table = toy_table(rows=rows, columns={"FGSM": COLUMNS["FGSM"]})
    plan = forecast(table, shop_at(without_training_images))
    states = {(item.kind, item.name): item.state for item in plan.items}
    assert states["measure", "GAT, FGSM"] == "there"
    assert states["measure", "FGSM-AT, FGSM"] == "cannot be had"
    assert [item.state for item in plan.items if item.kind == "train"] == [
        "there", "cannot be had: no training images here",
    ]  # fmt: skip
    cells = run(table, shop_at(without_training_images)).cells
    assert [cell.status == "measured" for cell in cells] == [True, False]


def test_training_images_are_not_asked_for_where_all_networks_are_brought(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "split_data", lambda *_: pytest.fail("it looks for training images"))
    table = toy_table(rows={"public": GAT}, columns={"Clean": Measure(), "FGSM": COLUMNS["FGSM"]})
    weights = str(BUNDLED / "digits-cnn.safetensors")
    table = table.with_networks({"public": Network("", "digits-cnn", weights=weights, given=True)})
    shop = shop_at(tmp_path)
    assert [item.state for item in forecast(table, shop).items] == ["there", "40 images", "40 images"]
    assert [cell.status for cell in run(table, shop).cells] == ["measured", "measured"]


def test_a_brought_network_beside_one_that_cannot_be_trained_is_promised_and_measured(tmp_path, monkeypatch):
    def missing(*_):
        raise DataError("no training images here")

    monkeypatch.setattr(cache, "split_data", missing)
    given = Network("digits", "digits-cnn", weights=str(BUNDLED / "digits-cnn.safetensors"), given=True)
    slots = (
        Slot("GAT", "Clean", GAT, Measure()),
        Slot("yours", "Clean", given, Measure()),
        Slot("yours", "carried", given, Measure("fgsm", source=GAT)),  # made on what cannot be trained
    )
    table = replace(toy_table(), slots=slots)
    plan = forecast(table, shop_at(tmp_path)).items
    assert {item.name: item.state for item in plan if item.kind == "measure"} == {
        "GAT, Clean": "cannot be had", "yours, Clean": "40 images", "yours, carried": "cannot be had",
    }  # fmt: skip
    measured = [cell.status == "measured" for cell in run(table, shop_at(tmp_path)).cells]
    assert measured == [False, True, False]


@pytest.mark.parametrize("content", ["nothing", "5", "{}", '{"family": "digits", "count": [], "seen": ""}'])
def test_a_damaged_note_of_training_images_is_none_and_is_mended(filled, tmp_path, monkeypatch, content):
    copytree(filled, tmp_path / "cache")
    home = shop_at(tmp_path / "cache").cache.home(GAT)
    (note,) = (tmp_path / "cache" / "data").iterdir()
    whole = note.read_text()
    note.write_text(content)
    shop_at(tmp_path / "cache").trained(GAT)
    assert note.read_text() == whole
    note.write_text(content)

    def missing(*_):
        raise DataError("no training images here")

    monkeypatch.setattr(cache, "split_data", missing)
    with pytest.raises(DataError, match="no training images here"):
        shop_at(tmp_path / "cache").cache.home(GAT)
    note.write_text(whole)
    assert shop_at(tmp_path / "cache").cache.home(GAT) == home
