"""What is known of official images without having them: a plan downloads nothing."""

import json
import runpy
import sys
from pathlib import Path

import pooch
import pytest

from experiments.toy import shop_at, toy_table
from gamagat.errors import DataError
from gamagat.experiments import pace
from gamagat.experiments.cache import Cache
from gamagat.experiments.core import Measure, Network
from gamagat.experiments.facts import official
from gamagat.experiments.forecast import forecast

WORDS = ["reproduce", "S5", "--rows", "GAT", "--columns", "Clean", "--device", "cpu"]


@pytest.fixture(autouse=True)
def asked(monkeypatch, tmp_path):
    """Every download fails and is listed; no folder has images; every network is as fast."""
    urls = []

    def offline(url, *_, **__):
        urls.append(url)
        raise OSError("the network is down")

    monkeypatch.setattr(pooch, "retrieve", offline)
    monkeypatch.setenv("GAMAGAT_DATA", str(tmp_path / "empty"))
    monkeypatch.setattr(pace, "_pace", lambda model, images: pace.Pace(1.0, 2.0))
    return urls


@pytest.mark.parametrize(("data", "count"), [("mnist", 50_000), ("cifar10", 49_000)])
def test_a_plan_without_the_images_is_that_with_them_and_downloads_nothing(asked, tmp_path, data, count):
    table = toy_table(rows={"Normal": Network(data, "m-lenet", "standard")}, columns={"Clean": Measure()})
    shop = shop_at(tmp_path / "cache", n=None)
    shop.cache.fetch = False
    plan = forecast(table, shop)
    assert asked == []
    assert [item.kind for item in plan.items] == ["fetch", "train", "measure"]
    assert plan.items[0].name == data
    assert "the run itself fetches what is missing" in plan.items[0].state
    assert plan.items[1].seconds >= 3 * count
    assert plan.items[2].state == "10000 images"
    assert plan.complete
    assert [item.kind for item in plan.of_networks().items] == ["fetch", "train"]
    assert not list(tmp_path.iterdir())


def test_the_command_only_fetches_where_it_runs(command, asked, tmp_path):
    code, out, _ = command(*WORDS, "--cache", tmp_path / "cache", "--plan", "--json")
    items = json.loads(out)["items"]
    assert (code, asked) == (0, [])
    assert [(item["kind"], item["name"]) for item in items[:1]] == [("fetch", "mnist")]
    code, out, _ = command(*WORDS, "--cache", tmp_path / "cache")
    assert code == 3
    assert asked


def test_a_plan_of_what_is_missing_downloads_nothing(command, asked, tmp_path):
    words = [*WORDS, "--cache", tmp_path / "cache", "--results", tmp_path / "results", "--missing", "--plan"]
    code, out, _ = command(*words, "--json")
    assert (code, asked) == (0, [])
    assert [item["kind"] for item in json.loads(out)["items"]] == ["fetch", "train", "measure"]


def test_data_that_nothing_is_known_of_cannot_be_had(tmp_path):
    shop = shop_at(tmp_path / "cache")
    shop.cache.fetch = False
    with pytest.raises(DataError, match="no folder"):
        shop.cache.facts("imagenet100")


@pytest.mark.data
def test_what_is_known_of_mnist_is_what_the_files_say(shared: Path, tmp_path):
    there = Cache(tmp_path, shared / "data")
    assert official("mnist") == (there.facts("mnist"), there.training("mnist"))


@pytest.mark.data
@pytest.mark.slow
def test_what_is_known_of_cifar10_is_what_the_files_say(shared: Path, tmp_path, monkeypatch):
    script = shared / "data" / "unpack_cifar10.py"
    monkeypatch.setattr(sys, "argv", [str(script), str(tmp_path / "data")])
    runpy.run_path(str(script), run_name="__main__")
    there = Cache(tmp_path, tmp_path / "data")
    assert official("cifar10") == (there.facts("cifar10"), there.training("cifar10"))
