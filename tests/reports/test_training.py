"""How training speaks to people."""

import io
import sys

import pytest
import torch
from rich.console import Console

from gamagat import evaluate
from gamagat.data.core import load_data
from gamagat.engine.training.settings import Settings
from gamagat.models.core import load_model
from gamagat.reports import terminal, training
from gamagat.reports.training import epoch_line, final_table, training_listener

ROW = {
    "epoch": 4,
    "train": {"loss": 1.5, "ce": 1.25, "drift": 0.25, "clean accuracy": 50.0},
    "val": {"clean": 91.04, "fgsm": 60.0, "pgd-10": 50.0, "selection": 55.0},
    "seconds": 1.26,
    "images_per_second": 1234.4,
    "collapsed": False,
}


def test_a_line_tells_the_epoch_from_one_its_losses_and_its_accuracies():
    assert epoch_line(ROW, Settings(epochs=30)) == (
        "epoch 5/30  loss 1.500 ce 1.250 drift 0.250  "
        "val: clean 91.0 fgsm 60.0 pgd-10 50.0 selection 55.0  1.3 s, 1234 images/s"
    )
    assert "pgd-10 50.0 ifgsm-7 55.0  1.3 s" in epoch_line(ROW, Settings(epochs=30), "ifgsm-7")


def test_the_seconds_of_a_line_are_those_of_training_and_a_long_look_is_told_beside_them():
    row = ROW | {"seconds": 289.8, "look_seconds": 223.4, "images_per_second": 755.0}
    assert epoch_line(row, Settings(epochs=30)).endswith("  66.4 s, 755 images/s, look 223.4 s")
    assert epoch_line(row | {"look_seconds": 0.9}, Settings()).endswith("  288.9 s, 755 images/s")


def test_in_a_log_there_is_a_line_of_an_epoch_now_and_then_and_of_a_long_epoch_its_batches(
    monkeypatch, capsys
):
    now = [0.0]
    monkeypatch.setattr(terminal, "monotonic", lambda: now[0])
    with training_listener() as listener:
        for epoch in range(4):  # of 12 seconds each
            now[0] += 12
            listener.batch(epoch, 30, 3, 3)
            listener.epoch(ROW | {"epoch": epoch}, Settings(epochs=30))
        assert [line[:10] for line in capsys.readouterr().err.splitlines()] == ["epoch 3/30"]
        for done in range(10):  # a long one
            now[0] += 13
            listener.batch(4, 30, done, 10)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == ["epoch 5/30: 3 of 10 batches", "epoch 5/30: 8 of 10 batches"]
    with training_listener(quiet=True) as listener:
        now[0] += 1000
        listener.batch(4, 30, 1, 10)
        listener.epoch(ROW, Settings(epochs=30))
    assert capsys.readouterr() == ("", "")


def test_a_log_tells_how_far_a_long_look_is(monkeypatch, capsys):
    now = [0.0]
    for place in (terminal, training):
        monkeypatch.setattr(place, "monotonic", lambda: now[0])
    with training_listener() as listener:
        listener.batch(0, 2, 5, 5)
        for done in range(0, 501, 50):
            listener.look(done, 500)
            now[0] += 25
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        f"epoch 1/2: a look at 500 validation images: {done} of them, 2 images/s" for done in (150, 300, 450)
    ]
    with training_listener(quiet=True) as listener:
        now[0] += 1000
        listener.look(250, 500)
    assert capsys.readouterr() == ("", "")


def test_the_log_of_a_long_training_has_what_is_trained_and_its_last_epoch(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(terminal, "monotonic", lambda: now[0])
    with training_listener() as listener:
        listener.begins("small-cnn on 10 images of mnist, linf 0.3: gat:weight=15")
        for epoch in range(5):
            now[0] += 12
            listener.epoch(ROW | {"epoch": epoch}, Settings(epochs=5))
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "small-cnn on 10 images of mnist, linf 0.3: gat:weight=15"
    assert [line[:9] for line in lines[1:]] == ["epoch 3/5", "epoch 5/5"]


def test_where_nobody_looks_only_what_is_unusual_is_said(capsys):
    with training_listener() as listener:
        for done in range(1, 4):
            listener.batch(0, 2, done, 3)
        listener.epoch(ROW, Settings())
    assert capsys.readouterr() == ("", "")
    with training_listener() as listener:
        listener.say("something [odd]")
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "note: something [odd]\n"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_every_epoch_is_a_line_on_standard_error(monkeypatch, capsys):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(
        training, "Console", lambda stderr: Console(file=screen, width=150, force_terminal=True)
    )
    with training_listener() as listener:
        listener.begins("small-cnn [of] mnist")
        for done in range(1, 4):
            listener.batch(1, 2, done, 3)
        listener.epoch(ROW, Settings(epochs=30))
    assert "small-cnn [of] mnist" in screen.getvalue()
    assert "epoch 5/30  loss 1.500" in screen.getvalue()
    assert "epoch 2/2" in screen.getvalue()
    assert capsys.readouterr().out == ""


def test_on_a_terminal_a_look_has_a_bar_in_place_of_that_of_the_batches(monkeypatch):
    screen, shown = Terminal(), []
    monkeypatch.setattr(sys, "stderr", screen)
    console = Console(file=screen, width=150, force_terminal=True)
    monkeypatch.setattr(training, "Console", lambda stderr: console)

    class Bars(training.Progress):
        def tell(self):
            shown.append([(task.description, task.percentage) for task in self.tasks if task.visible])

    bars = []
    monkeypatch.setattr(
        training, "Progress", lambda *words, **more: bars.append(Bars(*words, **more)) or bars[-1]
    )
    with training_listener() as listener:
        for epoch in range(2):
            listener.batch(epoch, 2, 3, 3)
            bars[0].tell()
            for done in (0, 125, 500):
                listener.look(done, 500)
                bars[0].tell()
    looks = [
        (f"epoch {epoch}/2: a look at 500 validation images", share) for epoch in (1, 2) for share in (0, 25)
    ]
    batches = [("epoch 1/2", 50), ("epoch 2/2", 100)]
    assert shown == [
        [batches[0]], [looks[0]], [looks[1]], [batches[0]],
        [batches[1]], [looks[2]], [looks[3]], [batches[1]],
    ]  # fmt: skip


@pytest.fixture(scope="module")
def figures():
    torch.set_num_threads(1)
    data, net = load_data("digits", "test").head(20), load_model("digits-cnn")
    return {
        which: evaluate(net, data, eps=eps, attacks=["fgsm", "pgd:steps=4"])
        for which, eps in {"selected": 0.1, "last": 0.4}.items()
    }


def test_the_table_has_a_row_for_each_epoch_and_a_column_for_each_attack(figures):
    screen = Console(file=io.StringIO(), width=120)
    screen.print(final_table(figures, "net[0] after gat on digits"))
    text = screen.file.getvalue()
    for words in (
        "net[0] after gat",
        "epoch",
        "clean",
        "fgsm",
        "pgd:steps=4",
        "worst case",
        "selected",
        "last",
    ):
        assert words in text
    rows = {which: next(line for line in text.splitlines() if which in line) for which in figures}
    for which, result in figures.items():
        assert f"{result.clean.percent:.2f}" in rows[which]
        assert f"{result.standing.percent:.2f}" in rows[which]
    assert rows["selected"] != rows["last"]
