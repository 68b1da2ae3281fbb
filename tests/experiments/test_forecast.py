"""What will run and for how long, said beforehand."""

from contextlib import nullcontext
from shutil import copytree

import pytest

from experiments.toy import COLUMNS, GAT, NORMAL, shop_at, toy_table
from gamagat.engine.training.run import Listener
from gamagat.experiments.core import Measure, Network
from gamagat.experiments.forecast import forecast
from gamagat.experiments.runner import run
from gamagat.reports.reproduction import forecast_table


def test_before_anything_ran_everything_is_to_do(tmp_path):
    plan = forecast(toy_table(), shop_at(tmp_path))
    assert [(item.kind, item.name) for item in plan.items[:2]] == [
        ("train", "standard, digits-cnn, digits"),
        ("train", "gat, digits-cnn, digits"),
    ]
    assert [item.state for item in plan.items[:2]] == ["1 epochs"] * 2
    assert [item.state for item in plan.items[2:]] == ["40 images"] * 10
    assert all(item.seconds > 0 for item in plan.items)
    assert plan.seconds == pytest.approx(sum(item.seconds for item in plan.items))
    assert not list(tmp_path.iterdir())  # a plan leaves nothing


def test_networks_can_be_planned_alone(tmp_path):
    plan = forecast(toy_table(), shop_at(tmp_path))
    assert [item.kind for item in plan.of_networks().items] == ["train", "train"]
    assert plan.of_networks().seconds < plan.seconds


def test_afterwards_nothing_is(filled):
    plan = forecast(toy_table(), shop_at(filled))
    assert {item.state for item in plan.items} == {"there"}
    assert plan.seconds == 0


def test_images_that_an_earlier_row_makes_are_only_judged(filled, tmp_path, monkeypatch):
    from gamagat.experiments import pace  # noqa: PLC0415

    monkeypatch.setattr(pace, "_pace", lambda model, images: pace.Pace(1.0, 2.0))
    table = toy_table().only(columns=["transfer"])
    there, nothing = shop_at(filled), shop_at(tmp_path)
    there.cache.seed = 5  # networks are trained, nothing is measured yet
    making = 40 * (2 * 1 + 1 * 2)  # one step and a look, for 40 images
    assert [item.seconds for item in forecast(table, there).items[-2:]] == [making, 40]
    # Before the second is trained, the first has been through.
    assert [item.seconds for item in forecast(table, nothing).items[-2:]] == [making, making]


def test_what_is_left_of_a_training_goes_by_the_epochs_that_are_done(shop):
    def batch(number, *_):
        if number == 1:
            raise KeyboardInterrupt

    stopping = shop(epochs="3")
    stopping.listening = lambda: nullcontext(Listener(batch=batch))
    table = toy_table(rows={"GAT": GAT}, columns={"Clean": Measure()})
    run(table, stopping)
    item = forecast(table, shop(epochs="3")).items[0]
    assert item.state == "goes on, 1 of 3 epochs done"
    metrics = (stopping.cache.home(GAT) / "metrics.jsonl").read_text()
    assert item.seconds == pytest.approx(2 * float(metrics.split('"seconds": ')[1].split(",")[0]))


def test_a_plan_survives_what_is_damaged(filled, tmp_path):
    copytree(filled, tmp_path / "cache")
    there = shop_at(tmp_path / "cache")
    home = there.cache.home(GAT)
    (there.cache.evaluation(GAT, COLUMNS["FGSM"]) / "manifest.json").write_text("{")
    (there.cache.evaluation(GAT, COLUMNS["PGD-40"]) / "manifest.json").unlink()
    states = {item.name: item.state for item in forecast(toy_table(), there).items}
    assert states["GAT, Clean"] == states["GAT, FGSM"] == "40 images"  # of one run, to be made again
    assert states["GAT, PGD-40"] == "40 images"
    assert states["GAT, CW mean L2"] == "there"
    (home / "card.json").unlink()
    (home / "metrics.jsonl").write_text('{"epoch": 0, "seco')
    assert forecast(toy_table(), there).items[1].state == "1 epochs"


def test_time_grows_with_epochs_images_and_steps(tmp_path, monkeypatch):
    from gamagat.experiments import pace  # noqa: PLC0415

    monkeypatch.setattr(pace, "_pace", lambda model, images: pace.Pace(1.0, 2.0))
    columns = {
        "few": Measure("pgd:steps=3,as_published=true"),
        "many": Measure("pgd:steps=30,as_published=true"),
    }
    table = toy_table(rows={"Normal": NORMAL}, columns=columns)
    train, few, many = (item.seconds for item in forecast(table, shop_at(tmp_path)).items)
    assert few == 40 * (4 * 1 + 3 * 2)  # three steps and the clean pass, for 40 images
    assert many == 40 * (31 * 1 + 30 * 2)
    # 1,234 images of one pass, and 20 validation images of 1 + 1 + 10 + 7.
    assert train == 3 * (1234 + 20 * 19)
    longer = forecast(table, shop_at(tmp_path, epochs="4")).items[0]
    assert longer.seconds == 4 * train


def test_images_that_fall_leave_an_attack_that_lets_them(tmp_path, monkeypatch):
    from gamagat.experiments import pace  # noqa: PLC0415

    monkeypatch.setattr(pace, "_pace", lambda model, images: pace.Pace(1.0, 0.0))
    table = toy_table(rows={"Normal": NORMAL}, columns={"FGSM": Measure("pgd:steps=99")})
    seconds = forecast(table, shop_at(tmp_path)).items[-1].seconds
    assert seconds == pytest.approx(40 * 100 * 0.1659)  # the paper leaves 16.59 %


def test_a_look_at_a_pace_is_told_once(tmp_path):
    shop, said = shop_at(tmp_path), []
    shop.say = said.append
    rows = {"Normal": NORMAL, "GAT": GAT}
    forecast(toy_table(rows=rows, columns={"Clean": Measure(), "FGSM": Measure("fgsm")}), shop)
    assert said == [f"looking at the pace of {GAT.model} on digits"]


def test_what_cannot_be_had_is_said(tmp_path):
    shop = shop_at(tmp_path / "cache")
    shop.cache.data_dir = tmp_path
    rows = {"bare": Network("digits", "digits-cnn"), "far": Network("imagenet100", "alexnet", "standard")}
    plan = forecast(toy_table(rows=rows, columns={"Clean": Measure()}), shop)
    assert [item.state.partition(":")[0] for item in plan.items] == ["cannot be had"] * 4
    assert plan.seconds == 0
    assert not plan.complete
    assert "all that can be had" in list(forecast_table(plan).columns[1].cells)


def test_why_data_cannot_be_had_is_said_once(tmp_path):
    shop = shop_at(tmp_path / "cache")
    shop.cache.data_dir = tmp_path
    rows = {recipe: Network("imagenet100", "alexnet", recipe) for recipe in ("standard", "gat")}
    first, second, *measured = forecast(toy_table(rows=rows, columns={"Clean": Measure()}), shop).items
    assert first.state.startswith("cannot be had: no folder")
    assert second.state == "cannot be had"
    assert {item.state for item in measured} == {"cannot be had"}
