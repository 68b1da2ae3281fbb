"""The numbers of every plot, against a computation of its own."""

import json
import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from small_run import small_run
from training.small_training import trained, write_images

from gamagat.engine.plan import plan_attacks
from gamagat.engine.request import EvaluationRequest, prepare
from gamagat.engine.run import read_run
from gamagat.engine.share import Share, wilson
from gamagat.engine.surfaces import Window, surfaces
from gamagat.engine.sweeps import sweep_eps
from gamagat.engine.traces import loss_curves, traces
from gamagat.errors import ConfigError, RunError
from gamagat.reports.plots.about import About, with_weights
from gamagat.reports.plots.core import PLOTS, Curve, Picture, Subject, percent, spanned
from gamagat.reports.plots.losses import iterations_picture, loss_picture
from gamagat.reports.plots.runs import cost_picture, restarts_picture
from gamagat.reports.plots.surface import surface_picture
from gamagat.reports.plots.sweeps import eps_picture, weight_picture
from gamagat.reports.plots.toy import climb, height, slope, toy_picture
from gamagat.reports.plots.training import epochs_picture

SPECS = ("fgsm", "gama-pgd:steps=6,restarts=3", "gama-mt:steps=4,top=2,restarts=2")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("runs") / "first"
    small_run(place, specs=SPECS)
    return place


@pytest.fixture(scope="module")
def run(folder):
    return read_run(folder)


def named(panel):
    return {curve.label: curve for curve in panel.curves}


def standing(run, entries):
    """Accuracy from the bare verdicts: 60 images, wrong once is wrong."""
    fooled = np.zeros(60, bool)
    for entry in ("clean", *entries):
        fooled |= run.entries[entry]["fooled"] == 1
    return 100 * (60 - int(fooled.sum())) / 60


def test_restarts_are_counted_try_by_try_whatever_a_try_is_made_of(run):
    picture = restarts_picture([run])
    (panel,) = picture.panels
    lines = named(panel)
    assert list(lines) == ["fgsm", "gama-pgd:steps=6", "gama-mt:steps=4,top=2"]
    names = ["gama-pgd#1", "gama-pgd#2", "gama-pgd#3"]
    assert lines["gama-pgd:steps=6"].x == (1, 2, 3)
    assert lines["gama-pgd:steps=6"].y == tuple(standing(run, names[:many]) for many in (1, 2, 3))
    first = ["gama-mt#1@1", "gama-mt#1@2"]
    assert lines["gama-mt:steps=4,top=2"].x == (1, 2)
    assert lines["gama-mt:steps=4,top=2"].y == (
        standing(run, first),
        standing(run, [*first, "gama-mt#2@1", "gama-mt#2@2"]),
    )
    assert lines["fgsm"].x == (1,)
    low, high = wilson(round(0.6 * lines["fgsm"].y[0]), 60)
    assert (lines["fgsm"].low, lines["fgsm"].high) == ((low,), (high,))
    assert panel.title == "row-by-row on small, L∞, ε = 0.04, 60 images"


def test_an_attack_that_only_has_targets_is_drawn_target_by_target(tmp_path, run):
    small_run(tmp_path / "targets", specs=("fgsm", "gama-mt:steps=4,top=3"))
    found = read_run(tmp_path / "targets")
    picture = restarts_picture([found])
    (panel,) = picture.panels
    line = named(panel)["gama-mt:steps=4,top=3 (targets)"]
    targets = ["gama-mt@1", "gama-mt@2", "gama-mt@3"]
    assert line.x == (1, 2, 3)
    assert line.y == tuple(standing(found, targets[:many]) for many in (1, 2, 3))
    assert panel.x.title == "targets tried"
    assert picture.title == "Accuracy against targets tried"
    both = restarts_picture([run, found])
    assert both.panels[0].x.title == "restarts or targets tried"
    assert {"gama-mt:steps=4,top=2", "gama-mt:steps=4,top=3 (targets)"} <= set(named(both.panels[0]))
    assert restarts_picture([run]).panels[0].x.title == "restarts"


def test_a_suite_is_one_try_whatever_targets_its_members_have(tmp_path):
    small_run(tmp_path, specs=("autoattack:steps=2,queries=5,top=2",))
    with pytest.raises(RunError, match="has finished a second try"):
        restarts_picture([read_run(tmp_path)])


def test_two_numbers_of_restarts_in_one_run_have_a_name_each(tmp_path):
    specs = ("pgd:steps=2,restarts=2", "pgd:steps=2,restarts=3", "gama-pgd:steps=2,restarts=2")
    small_run(tmp_path, specs=specs)
    lines = named(restarts_picture([read_run(tmp_path)]).panels[0])
    assert {name: line.x for name, line in lines.items()} == {
        specs[0]: (1, 2),
        specs[1]: (1, 2, 3),
        "gama-pgd:steps=2": (1, 2),
    }


def test_runs_without_a_second_try_have_no_restarts(tmp_path):
    small_run(tmp_path, specs=("fgsm",))
    with pytest.raises(RunError, match="has finished a second try; evaluate with --restarts 10"):
        restarts_picture([read_run(tmp_path)])


def test_each_network_and_threat_has_a_panel_and_twins_the_name_of_their_folder(tmp_path, run):
    small_run(tmp_path / "other eps", specs=SPECS, eps=0.02)
    small_run(tmp_path / "second", specs=SPECS, seed=1)
    runs = [run, read_run(tmp_path / "other eps"), read_run(tmp_path / "second")]
    first, second = restarts_picture(runs).panels
    assert "ε = 0.04" in first.title
    assert "ε = 0.02" in second.title
    assert {"fgsm (first)", "fgsm (second)"} <= set(named(first))
    assert "fgsm" in named(second)
    small_run(tmp_path / "deep" / "first", specs=SPECS, seed=1)
    twins = named(restarts_picture([run, read_run(tmp_path / "deep" / "first")]).panels[0])
    assert f"fgsm ({tmp_path / 'deep' / 'first'})" in twins


def test_cost_is_what_an_image_had_cost_when_it_fell(run):
    picture = cost_picture([run])
    (panel,) = picture.panels
    line = named(panel)["gama-pgd:steps=6,restarts=3"]
    tables = [run.entries[f"gama-pgd#{number}"] for number in (1, 2, 3)]
    wrong = run.entries["clean"]["fooled"] == 1
    assert line.x[0] == 1
    assert line.x[-1] == max(sum(t["forwards"] + t["backwards"] for t in tables))
    for budget, accuracy in zip(line.x, line.y, strict=True):
        left = 0
        for image in range(60):
            spent, fell = 0, bool(wrong[image])
            for table in tables:
                spent += int(table[image]["forwards"]) + int(table[image]["backwards"])
                fell |= table[image]["fooled"] == 1 and spent <= budget
            left += not fell
        assert accuracy == 100 * left / 60
    assert line.y[-1] == standing(run, [f"gama-pgd#{number}" for number in (1, 2, 3)])
    (mark,) = panel.marks
    assert (mark.label, mark.way, mark.at) == ("clean", "y", standing(run, []))
    backwards = named(cost_picture([run], "backwards").panels[0])["gama-pgd:steps=6,restarts=3"]
    assert backwards.x[-1] == 18


def test_an_unfinished_run_says_so_and_shows_what_is_through(tmp_path):
    small_run(tmp_path, specs=SPECS, max_seconds=0.0)
    for draw in (restarts_picture, cost_picture):
        with pytest.raises(RunError):
            draw([read_run(tmp_path)])
    whole = small_run(tmp_path, specs=SPECS)
    picture = cost_picture([read_run(tmp_path)])
    assert "Unfinished" not in picture.note
    assert named(picture.panels[0])["fgsm"].y[-1] == whole.attacks[0].standing.percent


def test_half_a_run_is_drawn_with_a_word_about_it(run):
    done = [chunk for chunk in run.finished if chunk.entry not in ("gama-mt#2@2", "gama-pgd#3")]
    half = replace(run, finished=done)
    picture = restarts_picture([half])
    lines = named(picture.panels[0])
    assert lines["gama-pgd:steps=6"].x == (1, 2)
    assert lines["gama-mt:steps=4,top=2"].x == (1,)
    assert "Unfinished: first (gama-pgd#3, gama-mt#2@2 still to do)" in picture.note
    assert list(named(cost_picture([half]).panels[0])) == ["fgsm"]


def test_weights_are_read_from_the_settings_of_a_run(tmp_path):
    specs = tuple(f"{name}:steps=5,weight={w}" for name in ("gama-pgd", "gama-fw") for w in (0, 5, 50))
    small_run(tmp_path, specs=(*specs, "gama-pgd:steps=9,weight=1", "fgsm"))
    run = read_run(tmp_path)
    (panel,) = weight_picture([run]).panels
    lines = named(panel)
    assert list(lines) == ["gama-pgd:steps=5", "gama-fw:steps=5"]  # with 9 steps there is one weight only
    assert lines["gama-pgd:steps=5"].x == (0, 5, 50)
    assert lines["gama-fw:steps=5"].y == tuple(
        standing(run, [f"gama-fw:steps=5,weight={w}"]) for w in (0, 5, 50)
    )
    assert panel.x.ticks == (0, 5, 50)
    with pytest.raises(RunError, match=r"no guided attack of .* comes with two weights"):
        weight_picture([])


def test_one_run_of_a_minimum_norm_attack_gives_the_whole_curve(tmp_path):
    small_run(tmp_path, specs=("fab:steps=20",), eps=0.02)
    run = read_run(tmp_path)
    (panel,) = eps_picture([run]).panels
    (line,) = panel.curves
    clean, table = run.entries["clean"], run.entries["fab"]
    sizes = np.where(clean["fooled"] == 1, 0.0, table["distance"])
    sizes[(clean["fooled"] == 0) & (table["prediction"] == clean["prediction"])] = np.inf
    assert line.x[0] == 0
    assert line.x[-1] >= 0.04
    for eps, accuracy in zip(line.x, line.y, strict=True):
        assert accuracy == pytest.approx(100 * np.mean(sizes > eps + (1e-6 if eps else 0)))
    assert [mark.label for mark in panel.marks] == ["ε = 0.02"]


def test_runs_at_several_eps_make_a_curve_from_the_clean_accuracy_on(tmp_path):
    for eps in (0.04, 0.01, 0.02):
        small_run(tmp_path / str(eps), specs=("fgsm", "pgd:steps=3"), eps=eps)
    runs = [read_run(tmp_path / str(eps)) for eps in (0.04, 0.01, 0.02)]
    (panel,) = eps_picture(runs).panels
    lines = named(panel)
    assert lines["fgsm"].x == (0, 0.01, 0.02, 0.04)
    assert lines["pgd:steps=3"].y == (
        standing(runs[0], []),
        *(standing(run, ["pgd"]) for run in (runs[1], runs[2], runs[0])),
    )
    assert panel.title == "row-by-row on small, L∞, 60 images"
    with pytest.raises(RunError, match="holds no attack at several eps"):
        eps_picture(runs[:1])


def test_a_line_over_eps_is_of_one_attack_with_the_same_settings(tmp_path, monkeypatch):
    runs = []
    for eps, restarts in ((0.02, 1), (0.04, 1), (0.02, 3), (0.04, 3)):
        monkeypatch.setattr("small_run.plan_attacks", partial(plan_attacks, times=restarts))
        small_run(tmp_path / f"{eps}-{restarts}", specs=("pgd:steps=2",), eps=eps)
        runs.append(read_run(tmp_path / f"{eps}-{restarts}"))
    lines = [line.y for line in eps_picture(runs).panels[0].curves]
    entries = [f"pgd#{number}" for number in (1, 2, 3)]
    assert lines[0][1:] == tuple(standing(run, ["pgd"]) for run in runs[:2])
    assert lines[1][1:] == tuple(standing(run, entries) for run in runs[2:])
    once, thrice = (line.label for line in eps_picture(runs).panels[0].curves)
    assert (once[-10:], thrice[-10:]) == ("restarts=1", "restarts=3")
    with pytest.raises(RunError, match="no attack at several eps with the same settings"):
        eps_picture([runs[0], runs[3]])  # a weak attack at one, a strong one at the other


def prepared(*attacks, n=12, eps="0.25"):
    return prepare(EvaluationRequest("digits-cnn", n=n, eps=eps, attacks=attacks, device="cpu"))


def test_losses_against_eps_with_their_intervals():
    ready = prepared("fgsm")
    (found,) = loss_curves(ready, [0.1, 0.2])
    (panel,) = loss_picture(About.prepared(ready), [found]).panels
    (line,) = panel.curves
    assert line.x == (0, 0.1, 0.2)
    x, y = ready.data.batch(torch.arange(12))
    with torch.no_grad():
        losses = F.cross_entropy(ready.model(x), y, reduction="none").double()
    half = 1.959964 * losses.std().item() / math.sqrt(12)
    assert line.y[0] == pytest.approx(losses.mean().item(), rel=1e-4)
    assert line.low[0] == pytest.approx(losses.mean().item() - half, rel=1e-3)
    assert panel.marks[0].at == 0.25
    assert panel.title == "digits-cnn on digits, L∞, 12 images"


def test_iterations_show_accuracy_and_loss_of_each_attack():
    ready = prepared("gama-pgd:steps=4", "gama-pgd:steps=4,weight=0")
    found = traces(ready)
    now, so_far = (iterations_picture(About.prepared(ready), found, which) for which in (False, True))
    accuracy, loss = now.panels
    assert [line.label for line in accuracy.curves] == ["gama-pgd:steps=4", "gama-pgd:steps=4,weight=0"]
    assert loss.curves[0].x == (0, 1, 2, 3, 4)
    assert loss.curves[0].y == tuple(moment.loss.value for moment in found[0].moments)
    assert accuracy.curves[1].y == tuple(moment.right.percent for moment in found[1].moments)
    ends = [line.y[-1] for line in so_far.panels[0].curves]
    assert ends == [attack.standing.percent for attack in ready.run().attacks]
    assert accuracy.y.after == loss.y.after == 0.2
    assert now.title == "Along the attack: digits-cnn on digits, L∞, ε = 0.25, 12 images"


def test_a_surface_keeps_its_numbers():
    ready = prepared("fgsm", n=1)
    found = surfaces(ready, ("ce", "gama"), 10.0, Window(1.0, 3))
    first, second = surface_picture(About.prepared(ready), found, "image 0", 10.0).panels
    assert (first.title, second.title) == ("Cross-entropy", "GAMA: margin + 10 · ‖p − p₀‖²")  # noqa: RUF001
    assert first.heights == found[0].values
    assert first.edge == found[0].margin
    assert surface_picture(About.prepared(ready), found, "mean over images 0 to 4").panels[0].edge == ()


def test_epochs_are_those_of_the_training(tmp_path):
    trained(write_images(tmp_path), tmp_path / "run", recipe="gat")
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    loss, right = epochs_picture([tmp_path / "run"]).panels
    assert named(loss)["cross-entropy"].y == tuple(row["train"]["ce"] for row in rows)
    assert named(loss)["cross-entropy"].x == (1, 2, 3, 4)
    # Before there is a card, nobody knows what attack images of no known family were selected by.
    assert set(named(right)) == {"clean", "fgsm", "pgd-10", "unnamed attack, selects the epoch"}
    assert named(right)["pgd-10"].y == tuple(row["val"]["pgd-10"] for row in rows)
    assert loss.title.startswith("gat, ")


def test_few_epochs_have_a_tick_each_and_twins_the_name_of_their_folder(tmp_path):
    for name, count in (("a", 3), ("b", 40)):
        (tmp_path / name).mkdir()
        rows = [{"epoch": epoch, "train": {"loss": 1.0}, "val": VALIDATION} for epoch in range(count)]
        (tmp_path / name / "metrics.jsonl").write_text("\n".join(map(json.dumps, rows)))
        told = {"recipe": "gat", "model": "net", "data": "digits"}
        (tmp_path / name / "card.json").write_text(json.dumps(told))
    first, _, second, _ = epochs_picture([tmp_path / "a", tmp_path / "b"]).panels
    assert (first.x.ticks, second.x.ticks) == ((1, 2, 3), ())
    assert first.title == f"gat, net on digits ({tmp_path / 'a'}): training"
    assert epochs_picture([tmp_path / "b"]).panels[0].title == "gat, net on digits: training"


VALIDATION = {"clean": 90.0, "fgsm": 50.0, "pgd-10": 40.0, "selection": 45.0}


@pytest.mark.parametrize(
    ("told", "labels"),
    [
        ({"selection": "PGD-20", "selected_by": "selection"}, {"clean", "PGD-20, selects the epoch"}),
        ({"selection": "IFGSM-7", "selected_by": "clean"}, {"clean, selects the epoch", "IFGSM-7"}),
        ({"recipe": "gat", "data": "cifar10"}, {"clean", "IFGSM-7, selects the epoch"}),
        ({"recipe": "gat:epochs=3", "data": "mnist"}, {"clean", "IFGSM-40, selects the epoch"}),
        ({"recipe": "pgd-at", "data": "imagenet100"}, {"clean", "PGD-20, selects the epoch"}),
        ({"recipe": "standard", "data": "digits"}, {"clean, selects the epoch", "IFGSM-7"}),
        ({"recipe": "of old", "data": "digits"}, {"clean", "IFGSM-7, selects the epoch"}),
        ({}, {"clean", "unnamed attack, selects the epoch"}),
    ],
)
def test_the_attack_that_selects_the_epoch_has_its_name(tmp_path, told, labels):
    row = {"epoch": 0, "train": {"loss": 1.0}, "val": VALIDATION}
    (tmp_path / "metrics.jsonl").write_text(json.dumps(row))
    (tmp_path / "card.json").write_text(json.dumps(told))
    right = epochs_picture([tmp_path]).panels[1]
    assert set(named(right)) == {"fgsm", "pgd-10"} | labels


def test_the_kept_epoch_and_the_first_collapse_are_marked(tmp_path):
    row = {"train": {"loss": 1.0}, "val": {"clean": 90.0, "test loss": 0.5}}
    rows = [row | {"epoch": epoch, "collapsed": epoch > 1} for epoch in range(4)]
    (tmp_path / "metrics.jsonl").write_text("\n".join(map(json.dumps, rows)))
    card = {"selected_epoch": 1, "recipe": "gat:epochs=4", "model": "/x/net", "data": "mnist"}
    (tmp_path / "card.json").write_text(json.dumps(card))
    loss, right = epochs_picture([tmp_path]).panels
    assert [(mark.label, mark.at) for mark in right.marks] == [("weights kept: 2", 2), ("collapse: 3", 3)]
    assert loss.title == "gat, net on mnist: training"
    assert set(named(loss)) == {"whole loss", "test loss"}
    assert set(named(right)) == {"clean"}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, r"holds no training: there is no metrics.jsonl"),
        ("", "holds no epoch yet"),
        ("{", "cannot read"),
        ("[1]", "cannot read"),
        ('{"epoch": 0}', "cannot read"),
    ],
)
def test_a_folder_that_is_no_training_is_one_sentence(tmp_path, content, words):
    if content is not None:
        (tmp_path / "metrics.jsonl").write_text(content)
    with pytest.raises(RunError, match=words):
        epochs_picture([tmp_path])


def test_alone_the_climber_is_caught_and_with_the_relaxation_it_is_not():
    alone, guided = climb(-1.8, 0.0, 30, 0.15), climb(-1.8, 0.6, 30, 0.15)
    top = max(height(x) for x in np.linspace(-2.2, 2.2, 2001))
    assert height(alone[-1][0]) < 0.5 * top
    assert height(guided[-1][0]) == pytest.approx(top, rel=1e-3)
    assert abs(slope(alone[-1][0])) < 1e-3  # a summit, and not the highest
    assert guided[0][1] == 0.6
    assert guided[-1][1] == 0
    for x in np.linspace(-2.1, 2.1, 15):
        assert slope(x) == pytest.approx((height(x + 1e-6) - height(x - 1e-6)) / 2e-6, abs=1e-6)
    left, right = toy_picture(-1.8, 0.6, 30, 0.15).panels
    assert left.curves[-1].y == pytest.approx([height(x) for x, _ in alone])
    assert len(right.curves) == 6


def test_shares_become_percent_with_wilsons_band():
    line = Curve.of_shares("a", [(1, Share(3, 10)), (2, Share(0, 0))])
    assert (line.x, line.y) == ((1.0,), (30.0,))
    assert (line.low[0], line.high[0]) == wilson(3, 10)


@pytest.mark.parametrize(
    ("values", "limits"),
    [
        ((0.0, 80.0), (0, 100)),
        ((0.0, 0.0), (0, 4)),
        ((99.0, 100.0), (96, 100)),
        ((50.0, 52.0), (49, 53)),
        ((40.0, 60.0), (39.6, 60.4)),
        ((), (0, 100)),
    ],
)
def test_the_axis_of_accuracies_is_near_but_not_too_near(values, limits):
    axis = percent(curves=[Curve("a", values, values)])
    assert (axis.low, axis.high) == pytest.approx(limits)


def test_an_axis_may_begin_after_a_plunge():
    fall = Curve(
        "a",
        (0.0, 1.0, 5.0, 9.0),
        (80.0, 55.0, 51.0, 48.0),
        (79.0, 54.0, 50.0, 47.0),
        (81.0, 56.0, 52.0, 49.0),
    )
    near, loss = percent(curves=[fall], after=5.0), spanned("loss", [fall], 5.0)
    assert (near.low, near.high) == pytest.approx((49.5 - 0.52 * 5, 49.5 + 0.52 * 5))
    assert (loss.low, loss.high) == (47.0, 52.0)
    assert percent(curves=[fall]).high == 100.0
    for late in (9.5, 10.0):  # nothing comes later
        assert (spanned("loss", [fall], late).low, spanned("loss", [fall], late).high) == (None, None)
    flat = Curve("a", (0.0, 1.0), (2.0, 1.0))
    assert (spanned("loss", [flat], 1.0).low, spanned("loss", [flat]).low) == (None, 1.0)


@pytest.mark.parametrize(
    ("weights", "name"),
    [
        (None, "small-cnn"),
        ("place/trades.pt", "small-cnn (trades)"),
        ("networks/gat-1/model.safetensors", "small-cnn (gat-1)"),
        ("model.safetensors", "small-cnn (model)"),
    ],
)
def test_networks_are_told_apart_by_their_weights(weights, name):
    assert with_weights("small-cnn", weights) == name


def test_json_knows_no_nan():
    json.dumps(toy_picture(0.0, 0.5, 2, 0.1).as_json(), allow_nan=False)
    nan = Curve("a", (1.0,), (math.nan,), (-math.inf,), (math.inf,))
    panel = replace(toy_picture(0.0, 0.5, 2, 0.1).panels[0], curves=(nan,))
    content = Picture("a", "t", (panel,)).as_json()["panels"][0]["curves"][0]
    assert (content["y"], content["low"], content["high"]) == ([None], [None], [None])


def test_names_of_paths_are_short_and_weights_tell_networks_apart(run):
    assert About.run(run.manifest).slug == "row-by-row-small"
    assert About("net (a)", "arrays:/long/way/file.npz", "l2", "0.5", 3).told() == (
        "net (a) on arrays:file.npz, L2, ε = 0.5, 3 images"
    )
    assert Picture("eps", "", (), "net (a)-arrays:f.npz").name == "eps-net-a-arrays-f.npz"
    assert Picture("toy", "", ()).name == "toy"


def test_every_kind_is_registered_and_says_what_it_takes():
    kinds = ["cost", "epochs", "eps", "iterations", "lambda", "loss-eps", "restarts", "surface", "toy"]
    assert PLOTS.names() == kinds
    assert all(PLOTS[kind].summary for kind in kinds)


def test_words_that_would_change_nothing_are_refused(folder):
    request = EvaluationRequest("", n=3, eps="0.1", attacks=())
    with pytest.raises(ConfigError, match="--n --eps changes nothing of what lies in"):
        PLOTS.make("restarts")(Subject((str(folder),), request))
    plain = EvaluationRequest("", attacks=())
    assert PLOTS.make("restarts")(Subject((str(folder),), plain)).kind == "restarts"


def test_a_sweep_becomes_the_picture_of_its_runs():
    request = EvaluationRequest("digits-cnn", n=10, attacks=("fgsm",), device="cpu")
    (panel,) = eps_picture(sweep_eps(request, (0.1, 0.3))).panels
    assert panel.curves[0].x == (0, 0.1, 0.3)
