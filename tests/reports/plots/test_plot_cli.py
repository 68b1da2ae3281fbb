"""gamagat plot as people and machines use it."""

import json
import xml.etree.ElementTree as ET

import pytest

MODEL = ["digits-cnn", "--n", "10", "--device", "cpu"]


@pytest.fixture
def command(monkeypatch, command, tmp_path):
    """Run the command in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    return command


@pytest.fixture
def folder(command):
    words = ["--attack", "fgsm", "--attack", "pgd:steps=2", "--restarts", "2", "--out", "run"]
    assert command("evaluate", *MODEL, *words)[0] == 0
    return "run"


@pytest.mark.parametrize("kind", ["restarts", "cost"])
def test_a_run_becomes_two_files(command, folder, tmp_path, kind):
    code, out, err = command("plot", kind, folder)
    assert (code, err) == (0, "")
    name = f"{kind}-digits-cnn-digits"
    assert out.split() == [f"{name}.png", f"{name}.svg"]
    assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert "pgd:steps=2" in "".join(ET.parse(tmp_path / f"{name}.svg").getroot().itertext())


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("lambda:weights=0+50", ["--attack", "gama-pgd:steps=2"]),
        ("eps:radii=0.1+8/255", ["--attack", "fgsm"]),
        ("eps", ["--attack", "fab:steps=2"]),
        ("loss-eps:radii=0.1", []),
        ("iterations:so_far=yes", ["--attack", "pgd:steps=2"]),
        ("surface:points=3,images=2", []),
    ],
)
def test_a_model_becomes_numbers_and_no_file_unless_asked(command, tmp_path, kind, more):
    code, out, err = command("plot", kind, *MODEL, *more, "--json")
    assert (code, err) == (0, "")
    content = json.loads(out, parse_constant=pytest.fail)
    assert content["kind"] == kind.split(":")[0]
    assert content["files"] == []
    assert content["panels"]
    assert not list(tmp_path.iterdir())


def test_json_with_a_place_writes_files_as_well(command, tmp_path):
    out = command("plot", "toy", "--json", "--out", "figures/toy.svg")[1]
    assert json.loads(out)["files"] == ["figures/toy.png", "figures/toy.svg"]
    assert (tmp_path / "figures" / "toy.png").is_file()


def test_without_a_kind_all_kinds_are_listed(command):
    code, out, _ = command("plot")
    assert code == 0
    assert all(
        kind in out for kind in ("restarts", "lambda", "eps", "loss-eps", "iterations", "surface", "toy")
    )
    assert {item["name"] for item in json.loads(command("plot", "--json")[1])} >= {"cost", "epochs"}


def test_a_kept_sweep_is_drawn_again_from_its_runs(command, tmp_path):
    sweep = ["--attack", "gama-pgd:steps=2", "--keep", "kept"]
    first = json.loads(command("plot", "lambda:weights=0+5", *MODEL, *sweep, "--json")[1])
    again = json.loads(command("plot", "lambda", "kept", "--json")[1])
    assert again == first
    command("plot", "eps:radii=0.1+0.2", *MODEL, "--attack", "fgsm", "--keep", "radii")
    places = sorted(str(path) for path in (tmp_path / "radii").iterdir())
    assert len(json.loads(command("plot", "eps", *places, "--json")[1])["panels"][0]["curves"][0]["x"]) == 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["restart", "run"], "unknown plot 'restart'; did you mean 'restarts'?"),
        (["restarts"], "this plot needs the folder of a run"),
        (["restarts", "nowhere"], "made of the folder of a run, and there is no folder nowhere"),
        (["restarts", *MODEL], "of a model, gamagat evaluate MODEL --out DIR makes one"),
        (["cost", "mynets:good", "--data", "mnist", "--n", "30"], "there is no folder mynets:good; of a"),
        (["epochs", *MODEL], "of a model, gamagat train RECIPE --model MODEL --out DIR makes one"),
        (["restarts:many=2", "run"], "unknown option of plot 'restarts' 'many'"),
        (["cost:count=seconds", "run"], "unknown value of cost:count 'seconds'"),
        (["epochs", "nowhere"], "made of the folder of a training, and there is no folder nowhere"),
        (["epochs", "."], "holds no training"),
        (["lambda", "digits-cn"], "did you mean 'digits-cnn'?"),
        (["lambda", *MODEL, "--attack", "pgd"], "'pgd' has no weight to change"),
        (["lambda:weights=a", *MODEL], "lambda:weights must be a number"),
        (["lambda", "digits-cnn", "resnet18"], "needs one model, got digits-cnn resnet18"),
        (["eps:radii=3", *MODEL], "at most 1 in linf"),
        (["eps"], "needs one model, got none"),
        (["surface:points=1", *MODEL], "3 to 501 points"),
        (["surface:image=10", *MODEL], "has 10 images, numbered 0 to 9"),
        (["surface:losses=mse", *MODEL], "unknown loss of a surface 'mse'"),
        (["surface", *MODEL, "--attack", "pgd"], "this plot runs no attack, got --attack pgd"),
        (["surface", *MODEL, "--keep", "x"], "--keep x is for plots that make runs"),
        (["iterations", *MODEL, "--attack", "square"], "cannot follow 'square' step by step"),
        (["loss-eps", *MODEL, "--eps", "0"], "eps must be positive"),
        (["toy", "digits-cnn"], "needs nothing to look at, got digits-cnn"),
        (["toy:steps=0"], "1 to 1000 steps"),
        (["toy", "--out", "a.pdf"], "a plot is written as .png and .svg, got --out a.pdf"),
        (["toy", "--device", "cpu"], "needs nothing to look at, got --device"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_two(command, words, message):
    code, out, err = command("plot", *words)
    assert code == 2
    assert message in err
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert out == ""


def test_a_training_given_for_a_run_points_to_the_runs_in_it(command, tmp_path):
    words = ["train", "gat", "--device", "cpu", "--n", "70", "--set", "epochs=1", "--out", "trained"]
    assert command(*words, "--test-images", "5")[0] == 0
    code, _, err = command("plot", "cost", "trained")
    assert code == 2
    assert err == (
        "error: trained is the folder of a training; give an evaluation in it: "
        "trained/evaluation-selected-5\n"
    )
    assert command("verify", "trained")[2] == err
    assert command("report", "trained")[2] == command("compare", "trained", "trained")[2] == err
    assert command("plot", "cost", "trained/evaluation-selected-5")[0] == 0
    assert "IFGSM-7, selects the epoch" in command("plot", "epochs", "trained", "--json")[1]


def test_options_of_a_model_do_not_change_a_run(command, folder):
    code, _, err = command("plot", "lambda", folder, "--n", "5", "--batch-size", "2")
    assert code == 2
    assert "--n --batch-size changes nothing of what lies in run" in err
    code, _, err = command("plot", "lambda", folder)
    assert "no guided attack of run comes with two weights" in err
