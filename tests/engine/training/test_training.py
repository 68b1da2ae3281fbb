"""Training gives the weights that its words say, and nothing but those words decides them."""

import json
import math
from copy import deepcopy
from itertools import count
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from training.small_training import (
    metrics,
    plain,
    same,
    tensors,
    timeless,
    trained,
    wanted,
    with_norm,
    write_images,
)

from gamagat.data.core import load_data
from gamagat.engine.training import course, run
from gamagat.engine.training.feed import Streamed, shuffled
from gamagat.engine.training.run import Listener, choose_precision
from gamagat.errors import ConfigError, DataError, ModelError, RunError
from gamagat.models.loading.origin import Origin, origin_of


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> str:
    return write_images(tmp_path_factory.mktemp("data"))


RECIPES = ["standard", "gat", "free", "fgsm-at", "rfgsm-at", "rmgm", "fbf", "pgd-at", "trades", "tr-gat"]


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_same_words_give_the_same_weights_to_the_last_bit(data, tmp_path, recipe):
    for name in "ab":
        trained(data, tmp_path / name, recipe, epochs=2)
    trained(data, tmp_path / "c", recipe, epochs=2, seed=1)
    assert same(tmp_path / "a", tmp_path / "b")
    assert same(tmp_path / "a", tmp_path / "b", "model.safetensors")
    assert timeless(tmp_path / "a") == timeless(tmp_path / "b")
    assert not same(tmp_path / "a", tmp_path / "c")


@pytest.mark.parametrize("seed", [-1, 10**30])
def test_any_whole_number_is_a_seed(data, tmp_path, seed):
    trained(data, tmp_path / "run", seed=seed, epochs=1)
    assert len(metrics(tmp_path / "run")) == 1


def test_a_network_with_dropout_is_trained_with_it_and_measured_without(data, tmp_path):
    for name in "ab":
        trained(data, tmp_path / name, "gat", "with_dropout")
    trained(data, tmp_path / "plain", "gat", "plain")
    assert same(tmp_path / "a", tmp_path / "b")
    # The same first weights under the same names, so that only the dropped units make a difference.
    ours, theirs = tensors(tmp_path / "a" / "last.safetensors"), tensors(tmp_path / "plain/last.safetensors")
    assert not torch.equal(ours["1.weight"], theirs["1.weight"])


def test_the_callers_random_numbers_are_untouched(data, tmp_path):
    torch.manual_seed(11)
    before = torch.get_rng_state()
    trained(data, tmp_path / "run", "gat", "with_dropout", epochs=2)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(12)
    trained(data, tmp_path / "other", "gat", "with_dropout", epochs=2)
    assert same(tmp_path / "run", tmp_path / "other")


def rewritten(data: str, options: dict, make=plain) -> torch.nn.Module:
    """Normal training as anybody would write it; only the order of the images is taken as it is."""
    images = load_data(data, "train")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = make().train()
    average = deepcopy(net)
    kind = torch.optim.Adam if options.get("optimizer") == "adam" else torch.optim.SGD
    extra = {} if kind is torch.optim.Adam else {"momentum": 0.9}
    optimizer = kind(net.parameters(), lr=1.0, weight_decay=5e-4, **extra)
    size, epochs = options["batch"], options["epochs"]
    for epoch in range(epochs):
        parts = torch.split(shuffled(len(images), 0, epoch), size)
        for number, places in enumerate(parts):
            moment = (epoch + number / len(parts)) / epochs
            rate = options["rate"]
            if options.get("cycle") == "triangle":
                rate *= moment / 0.5 if moment < 0.5 else (1 - moment) / 0.5
            else:
                rate *= 0.1 ** sum(epoch / epochs >= drop for drop in (0.71, 0.86))
            optimizer.param_groups[0]["lr"] = rate
            x, y = images.batch(places)
            loss = F.cross_entropy(net(x), y, label_smoothing=options.get("smoothing", 0.0))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            with torch.no_grad():
                for old, new in zip(average.state_dict().values(), net.state_dict().values(), strict=True):
                    if old.is_floating_point():
                        old.lerp_(new, 1 - options.get("ema", 0.0))
    return average if options.get("ema") else net


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (plain, {}),
        (plain, {"batch": 150}),
        (plain, {"batch": 1000}),
        (plain, {"cycle": "triangle"}),
        (plain, {"optimizer": "adam", "rate": 0.003}),
        (plain, {"smoothing": 0.1, "ema": 0.9}),
        (with_norm, {"rate": 0.01}),
        (with_norm, {"ema": 0.8, "rate": 0.01}),
    ],
)
def test_normal_training_is_what_anybody_would_write(data, tmp_path, make, options):
    # 150 images in batches of 32: the last has 22 and counts like any other.
    options = {"batch": 32, "epochs": 4, "rate": 0.05} | options
    trained(data, tmp_path / "run", "standard", make.__name__, **options)
    expected = rewritten(data, options, make).state_dict()
    found = tensors(tmp_path / "run" / "last.safetensors")
    for name, value in expected.items():
        if value.is_floating_point():
            assert torch.allclose(found[name], value, rtol=1e-4, atol=1e-5), name


def test_images_read_ahead_train_the_same_weights(data, tmp_path, monkeypatch):
    trained(data, tmp_path / "resident")
    monkeypatch.setattr(run, "make_feed", Streamed)
    trained(data, tmp_path / "streamed")
    assert same(tmp_path / "resident", tmp_path / "streamed")


def test_a_partial_last_batch_is_a_batch(data, tmp_path):
    seen = []
    listener = Listener(batch=lambda *numbers: seen.append(numbers))
    trained(data, tmp_path / "run", listener=listener, epochs=2)
    assert seen == [(epoch, 2, done, 5) for epoch in range(2) for done in range(1, 6)]


def test_the_look_after_an_epoch_tells_how_far_it_is(data, tmp_path):
    heard = []
    listener = Listener(
        batch=lambda epoch, epochs, done, total: heard.append((epoch, done)),
        look=lambda done, total: heard.append((done / total,)),
    )
    trained(data, tmp_path / "run", listener=listener, epochs=2)
    for epoch in range(2):
        began = heard.index((epoch, 5)) + 1
        ended = heard.index((1, 1)) if epoch == 0 else len(heard)
        shares = [share for (share,) in heard[began:ended]]
        assert (shares[0], shares[-1]) == (0.0, 1.0)
        assert shares == sorted(shares)
        assert any(0 < share < 1 for share in shares)


@pytest.mark.parametrize("n", [1, 7, 33])
def test_few_images_are_enough(data, tmp_path, n):
    trained(data, tmp_path / "run", "free", n=n, epochs=2)
    assert len(metrics(tmp_path / "run")) == 2


def test_a_last_batch_that_a_norm_cannot_use_is_one_sentence(data, tmp_path):
    with pytest.raises(ModelError, match=r"the last batch of an epoch has one image.* --set batch=16"):
        trained(data, tmp_path / "run", "gat", "with_flat_norm", n=33, batch=16)


def test_every_epoch_leaves_one_row(data, tmp_path):
    heard = []
    listener = Listener(epoch=lambda row, settings: heard.append(row))
    result = trained(data, tmp_path / "run", listener=listener, epochs=12)
    rows = metrics(tmp_path / "run")
    assert [row["epoch"] for row in rows] == list(range(12))
    assert rows == heard == result.story.rows
    for row in rows:
        assert set(row) == {
            "epoch",
            "train",
            "val",
            "seconds",
            "look_seconds",
            "images_per_second",
            "collapsed",
        }
        assert set(row["train"]) == {"loss", "ce", "drift", "clean accuracy", "adversarial accuracy"}
        assert set(row["val"]) == {
            "clean",
            "fgsm",
            "pgd-10",
            "selection",
            "clean validation loss",
            "pgd-10 validation loss",
        }
        assert row["train"]["loss"] == pytest.approx(row["train"]["ce"] + row["train"]["drift"], rel=1e-5)
        assert all(math.isfinite(value) for value in row["train"].values())
        assert all(0 <= value <= 100 for value in row["val"].values())
        assert row["seconds"] > row["look_seconds"] > 0
        assert row["images_per_second"] > 0
        assert row["collapsed"] is False
    assert rows[-1]["train"]["clean accuracy"] > 80  # it has learnt something


def test_the_kept_weights_are_those_of_the_best_epoch(data, tmp_path, monkeypatch):
    seen, accuracies = [], iter([10.0, 30.0, 30.0, 20.0])

    def look(self, model, posed=None):
        seen.append(deepcopy(model.state_dict()))
        value = next(accuracies)
        return {"clean": 50.0, "fgsm": value, "pgd-10": value, "selection": value}

    monkeypatch.setattr(course.Probe, "look", look)
    result = trained(data, tmp_path / "run")
    assert result.story.best("selection") == 1  # the first of equals
    for name, epoch in {"model.safetensors": 1, "last.safetensors": 3}.items():
        kept = tensors(tmp_path / "run" / name)
        assert all(torch.equal(kept[key], value) for key, value in seen[epoch].items())


@pytest.mark.parametrize("name", ["model.safetensors", "last.safetensors"])
def test_weights_say_what_they_were_trained_as(data, tmp_path, name):
    result = trained(data, tmp_path / "run", epochs=1)
    assert origin_of(tmp_path / "run" / name) == Origin(result.request.model, "the file itself")


def test_the_average_of_the_weights_is_measured_and_kept(data, tmp_path):
    trained(data, tmp_path / "run", ema=0.9)
    stored = tensors(tmp_path / "run" / "checkpoint.safetensors")
    kept = tensors(tmp_path / "run" / "last.safetensors")
    assert all(torch.equal(kept[key], stored[f"average.{key}"]) for key in kept)
    assert not torch.equal(kept["1.weight"], stored["model.1.weight"])


@pytest.mark.parametrize(("ema", "told"), [(0.0, False), (0.5, False), (0.99, True)])
def test_an_average_that_holds_much_of_the_random_start_is_told(data, tmp_path, ema, told):
    heard = []
    trained(data, tmp_path / "run", ema=ema, epochs=3, listener=Listener(say=heard.append))
    words = [word for word in heard if "averaged weights" in word]
    assert bool(words) is told
    if told:  # 3 epochs of 4 whole batches
        assert words[0].startswith(f"{100 * 0.99**12:.0f} % of the averaged weights")
        assert float(words[0].rpartition("ema=")[2]) < 0.99


def test_the_folder_tells_every_setting(data, tmp_path):
    trained(data, tmp_path / "run", n=100)
    told = json.loads((tmp_path / "run" / "training.json").read_text())
    assert told["recipe"] == "gat"
    assert (told["epochs"], told["n"], told["eps"], told["seed"]) == ("4", 100, 0.05, 0)
    assert told["made"]["device"] == "cpu"


def test_a_training_is_gone_on_with_from_anywhere(data, tmp_path, monkeypatch):
    file = Path(data.removeprefix("arrays:"))
    monkeypatch.chdir(file.parent)
    trained(f"arrays:{file.name}", tmp_path / "run", epochs=1)
    monkeypatch.chdir(tmp_path)
    again = trained(data, tmp_path / "run", epochs=1)
    assert len(again.story.rows) == 1


@pytest.mark.parametrize(
    ("changes", "kind", "message"),
    [
        ({"precision": "fp8"}, ConfigError, "precision must be auto or fp32, got 'fp8'"),
        ({"model": "too_few_outputs"}, DataError, "labels run from 0 to 3"),
        ({"n": 0}, ConfigError, "must be positive"),
        ({"eps": None}, ConfigError, "there is no usual eps"),
        ({"eps": "0"}, ConfigError, "eps must be positive"),
        ({"norm": "l0"}, ConfigError, "unknown norm"),
        ({"model": "no_such_network"}, ConfigError, "unknown callable"),
        ({"augment": "flip"}, ConfigError, "unknown value of gat:augment"),
    ],
)
def test_what_cannot_be_trained_is_one_sentence_and_claims_no_folder(data, tmp_path, changes, kind, message):
    with pytest.raises(kind) as caught:
        trained(data, tmp_path / "run", **changes)
    assert message in str(caught.value)
    assert not (tmp_path / "run" / "training.json").exists()


def test_a_folder_that_cannot_be_made_is_one_sentence(data, tmp_path):
    (tmp_path / "file").write_text("no folder")
    for out in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(RunError, match="cannot make the folder"):
            trained(data, out)


def test_half_precision_is_for_gpus():
    assert choose_precision("auto", torch.device("cpu")) == (None, None)
    assert choose_precision("auto", torch.device("cuda")) == (torch.float16, torch.float16)
    assert choose_precision("fp32", torch.device("cuda")) == (None, None)


@pytest.mark.usefixtures("tf32")
@pytest.mark.parametrize(("precision", "kind"), [("fp32", "ieee"), ("auto", "tf32")])
def test_single_precision_is_no_tf32_where_it_is_asked_for(data, tmp_path, precision, kind):
    place, seen = torch.backends.cudnn.conv, set()
    watching = Listener(batch=lambda *_: seen.add(place.fp32_precision))
    trained(data, tmp_path / "run", epochs=1, precision=precision, listener=watching)
    assert (seen, place.fp32_precision) == ({kind}, "tf32")


def test_long_training_without_a_gpu_is_forecast_once(data, tmp_path, monkeypatch):
    said = []
    trained(data, tmp_path / "short", listener=Listener(say=said.append))
    assert said == []
    monkeypatch.setattr(course, "LONG", 0.0)
    trained(data, tmp_path / "long", listener=Listener(say=said.append))
    (words,) = said
    assert words.startswith("without a GPU this takes about ")
    assert "--n 1000" in words


def test_a_forecast_counts_batches_and_looks(data, tmp_path, monkeypatch):
    told, ticks = [], count()
    monkeypatch.setattr(course, "LONG", 0.0)
    monkeypatch.setattr(course, "_spoken", lambda seconds: told.append(seconds) or "")
    monkeypatch.setattr(course, "perf_counter", lambda: float(next(ticks)))  # three batches in a second
    trained(data, tmp_path / "run", "standard", epochs=2, batch=16)
    batches, looks = 10, 40 * (1 + 1 + 10 + 7) / 16
    assert told == [pytest.approx((batches + looks) / 3 * 2)]


@pytest.mark.parametrize(
    ("seconds", "words"), [(1900, "32 minutes"), (5399, "90 minutes"), (9000, "2.5 hours")]
)
def test_time_is_told_as_people_tell_it(seconds, words):
    assert course._spoken(seconds) == words


def test_a_request_is_all_that_is_needed(data, tmp_path):
    # Two trainings in one process do not know of each other.
    first, second = wanted(data, tmp_path / "a"), wanted(data, tmp_path / "b", "free")
    run.train(first)
    run.train(second)
    trained(data, tmp_path / "alone", "free")
    assert same(tmp_path / "b", tmp_path / "alone")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the compiler's own
def test_a_compiled_network_trains_to_the_same_weights(data, tmp_path):
    pytest.importorskip("torch._inductor")
    trained(data, tmp_path / "plain", epochs=2)
    trained(data, tmp_path / "compiled", epochs=2, compile=True)
    plain, compiled = (tensors(tmp_path / name / "last.safetensors") for name in ("plain", "compiled"))
    assert all(torch.allclose(plain[key], compiled[key], atol=1e-3) for key in plain)
