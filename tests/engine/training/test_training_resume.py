"""Training survives whatever happens to it, and ends with the same weights to the last bit."""

import json
from collections.abc import Callable

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from small_run import spawn
from training.small_training import (
    die_before_metrics,
    die_writing,
    go,
    kill_at_random,
    metrics,
    same,
    tensors,
    timeless,
    trained,
    wanted,
    write_images,
)

from gamagat.engine.alone import LOCK, alone_in
from gamagat.engine.scribe import Scribe
from gamagat.engine.training import course
from gamagat.engine.training.checkpoint import NAME
from gamagat.engine.training.course import Course
from gamagat.engine.training.run import Listener
from gamagat.errors import CheckpointError, RunError

KINDS = {
    "gat": {"recipe": "gat", "model": "with_dropout"},
    "free": {"recipe": "free", "replays": 2},
    "averaged": {"recipe": "pgd-at", "model": "with_norm", "steps": 2, "ema": 0.9, "awp": 0.01},
    "adam": {"recipe": "tr-gat", "steps": 2, "optimizer": "adam", "cycle": "triangle", "rate": 0.01},
}


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> str:
    return write_images(tmp_path_factory.mktemp("data"))


def check_equal(folder, reference):
    """Everything that an undisturbed run leaves, to the last bit."""
    for name in ("last.safetensors", "model.safetensors", NAME):
        assert same(folder, reference, name), name
    assert timeless(folder) == timeless(reference)


def killings(data, tmp_path, kind, kills, epochs):
    changes = KINDS[kind] | {"epochs": epochs}
    trained(data, tmp_path / "reference", **changes)
    done = kill_at_random(wanted(data, tmp_path / "run", **changes), kills, len(kind))
    check_equal(tmp_path / "run", tmp_path / "reference")
    return done


@pytest.mark.parametrize("kind", KINDS)
def test_training_killed_at_any_moment_ends_with_the_same_weights(data, tmp_path, kind):
    done = killings(data, tmp_path, kind, 4, 10)
    assert len(done) == 4
    assert done == sorted(done)  # a kill never loses an epoch that was finished
    assert 0 < done[-1] < 10


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_training_killed_thirty_times_ends_with_the_same_weights(data, tmp_path, kind):
    assert len(killings(data, tmp_path, kind, 30, 80)) == 30


def test_training_killed_while_it_writes_goes_on_from_the_file_before(data, tmp_path):
    # Up to three files in every epoch: the selected weights, what to go back to, and the checkpoint.
    changes = {"on_collapse": "stop", "epochs": 5}
    trained(data, tmp_path / "reference", **changes)
    request = wanted(data, tmp_path / "run", **changes)
    for call in (1, 2, 3, 4, 2):
        process = spawn(go, request, die_writing, call)
        process.join(60)
        assert process.exitcode == -9
        for name in (NAME, "model.safetensors"):
            if (tmp_path / "run" / name).exists():
                load_file(tmp_path / "run" / name)  # never half of one
    trained(data, tmp_path / "run", **changes)
    check_equal(tmp_path / "run", tmp_path / "reference")


@pytest.mark.parametrize("epoch", [1, 3])
def test_training_killed_between_checkpoint_and_metrics_has_all_rows_in_the_end(data, tmp_path, epoch):
    trained(data, tmp_path / "reference")
    process = spawn(go, wanted(data, tmp_path / "run"), die_before_metrics, epoch)
    process.join(60)
    assert process.exitcode == -9
    assert len(metrics(tmp_path / "run")) == epoch
    trained(data, tmp_path / "run")
    check_equal(tmp_path / "run", tmp_path / "reference")


class PluggedOutError(Exception):
    """Somebody pulls the plug."""


def stopped_after(data, folder, epochs, **changes):
    def epoch(row, settings):
        if row["epoch"] == epochs - 1:
            raise PluggedOutError

    with pytest.raises(PluggedOutError):
        trained(data, folder, listener=Listener(epoch=epoch), **changes)


@pytest.mark.parametrize(("seconds", "after"), [(60.0, 5), (0.0, 1)])
def test_where_an_epoch_is_asked_for_ahead_the_one_before_is_written_then(
    data, tmp_path, monkeypatch, seconds, after
):
    monkeypatch.setattr(Course, "_asks_ahead", True)
    monkeypatch.setattr(course, "QUEUED", seconds)
    events = []
    handed = Scribe.write

    def watched(scribe: Scribe, task: Callable[[], None]) -> None:
        events.append("written")
        handed(scribe, task)

    monkeypatch.setattr(Scribe, "write", watched)
    listener = Listener(batch=lambda epoch, epochs, done, total: events.append((epoch, done)))
    trained(data, tmp_path / "run", epochs=3, listener=listener)
    assert events.count("written") == 3
    for epoch in (1, 2):
        assert events.index((epoch, after)) + 1 == events.index("written", events.index((epoch, 1)))
    assert events[-1] == "written"
    assert events.index("written") > events.index((1, 1))  # nothing is written in the first epoch
    trained(data, tmp_path / "reference", epochs=3)
    check_equal(tmp_path / "run", tmp_path / "reference")


def test_what_is_not_written_yet_when_training_is_interrupted_is_written_then(data, tmp_path, monkeypatch):
    monkeypatch.setattr(Course, "_asks_ahead", True)

    def interrupt(epoch: int, epochs: int, done: int, total: int) -> None:
        if (epoch, done) == (2, 1):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trained(data, tmp_path / "run", listener=Listener(batch=interrupt))
    assert [row["epoch"] for row in metrics(tmp_path / "run")] == [0, 1]
    trained(data, tmp_path / "run")
    trained(data, tmp_path / "reference")
    check_equal(tmp_path / "run", tmp_path / "reference")


def test_a_finished_training_is_not_made_again(data, tmp_path):
    trained(data, tmp_path / "run")
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    heard = []
    trained(data, tmp_path / "run", listener=Listener(batch=lambda *numbers: heard.append(numbers)))
    assert heard == []
    assert {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()} == before


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"seed": 3}, "(seed was 0 and is 3)"),
        ({"eps": "0.1"}, "(eps was 0.05 and is 0.1)"),
        ({"rate": 0.02}, "(rate was 0.05 and is 0.02)"),
        ({"epochs": 9}, "(epochs was 4 and is 9)"),
        ({"model": "with_norm"}, "model was training.small_training:plain and is"),
        ({"recipe": "free"}, "recipe was gat and is free"),
        ({"n": 90}, "(n was 150 and is 90)"),
        ({"precision": "fp32"}, "(precision was auto and is fp32)"),
        ({"norm": "l2"}, "(norm was linf and is l2)"),
    ],
)
def test_a_folder_of_another_training_is_refused_and_the_difference_named(data, tmp_path, changes, words):
    stopped_after(data, tmp_path / "run", 2)
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    with pytest.raises(RunError) as caught:
        trained(data, tmp_path / "run", **changes)
    assert words in str(caught.value)
    assert "give another --out" in str(caught.value)
    assert {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()} == before


def test_other_images_under_the_same_name_are_refused(tmp_path):
    data = write_images(tmp_path)
    trained(data, tmp_path / "run", epochs=1)
    with np.load(tmp_path / "small.npz") as stored:
        arrays = dict(stored)
    arrays["x_train"][0, 0, 0] ^= 1
    np.savez(tmp_path / "small.npz", **arrays)
    with pytest.raises(RunError, match=r"holds another training \(data_sha256 was"):
        trained(data, tmp_path / "run", epochs=1)


def truncated(path):
    path.write_bytes(path.read_bytes()[:-100])


def emptied(path):
    path.write_bytes(b"")


def scribbled(path):
    path.write_bytes(b"\xff" * 1000)


def renamed(path):
    save_file({f"x{key}": value for key, value in load_file(path).items()}, path, {"story": "{}"})


def untold(path):
    save_file(load_file(path), path)


def mistold(path):
    save_file(load_file(path), path, {"story": json.dumps({"chapters": []})})


def misshapen(path):
    save_file({key: torch.zeros(3, 3, 3) for key in load_file(path)}, path, {"story": "{}"})


@pytest.mark.parametrize("damage", [truncated, emptied, scribbled, renamed, untold, mistold, misshapen])
def test_a_damaged_checkpoint_is_one_sentence(data, tmp_path, damage):
    stopped_after(data, tmp_path / "run", 2)
    damage(tmp_path / "run" / NAME)
    with pytest.raises(CheckpointError) as caught:
        trained(data, tmp_path / "run")
    assert str(tmp_path / "run" / NAME) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_checkpoint_of_another_precision_is_told_and_kept(data, tmp_path):
    """A GPU that is not there today is not taken for another recipe."""
    stopped_after(data, tmp_path / "run", 2)
    path = tmp_path / "run" / NAME
    with safe_open(path, "pt") as file:
        words = file.metadata()
    save_file(load_file(path) | {"scaler.scale": torch.ones(1)}, path, words)
    with pytest.raises(
        CheckpointError, match="was written in half precision and this run computes in single"
    ):
        trained(data, tmp_path / "run")
    save_file(load_file(path) | {"model.more": torch.ones(1)}, path, words)
    with pytest.raises(CheckpointError, match="is of another network or recipe; give another --out"):
        trained(data, tmp_path / "run")


def test_without_its_checkpoint_training_begins_again(data, tmp_path):
    trained(data, tmp_path / "reference")
    stopped_after(data, tmp_path / "run", 3)
    (tmp_path / "run" / NAME).unlink()
    trained(data, tmp_path / "run")
    check_equal(tmp_path / "run", tmp_path / "reference")


@pytest.mark.parametrize("content", ["", "{", "[1]", "7"])
def test_a_damaged_list_of_settings_is_one_sentence(data, tmp_path, content):
    trained(data, tmp_path / "run", epochs=1)
    (tmp_path / "run" / "training.json").write_text(content)
    with pytest.raises(RunError, match=r"cannot read .*training\.json"):
        trained(data, tmp_path / "run", epochs=1)


def test_a_full_disk_is_one_sentence_and_the_checkpoint_before_is_intact(data, tmp_path, monkeypatch):
    stopped_after(data, tmp_path / "run", 3)
    before = tensors(tmp_path / "run" / NAME)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("gamagat.engine.training.checkpoint.save_file", full)
    with pytest.raises(RunError, match=r"cannot write .*No space left on device"):
        trained(data, tmp_path / "run")
    after = tensors(tmp_path / "run" / NAME)
    assert all(torch.equal(before[key], after[key]) for key in before)
    assert not list((tmp_path / "run").glob(".*.part"))


def test_a_folder_in_which_another_process_begins_is_refused_before_anything_is_written(data, tmp_path):
    with (
        alone_in(tmp_path / LOCK, lambda: pytest.fail("who else?")),
        pytest.raises(RunError, match="another process is training in"),
    ):
        trained(data, tmp_path, epochs=1)
    assert [path.name for path in tmp_path.iterdir()] == [LOCK]


def test_a_folder_in_which_another_process_trains_is_refused(data, tmp_path):
    """Both would write its weights in turn."""
    out = tmp_path / "run"
    trained(data, out, epochs=1)
    before = tensors(out / "last.safetensors")
    with (
        alone_in(out / LOCK, lambda: pytest.fail("who else?")),
        pytest.raises(RunError, match="another process is training in"),
    ):
        trained(data, out, epochs=1)
    assert all(torch.equal(before[key], value) for key, value in tensors(out / "last.safetensors").items())
    trained(data, out, epochs=1)
