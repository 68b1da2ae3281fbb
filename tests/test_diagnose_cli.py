"""gamagat diagnose as people and machines ask for it."""

import json
import sys

import pytest

from gamagat import cli
from gamagat.engine.masking.diagnose import CHECKS
from gamagat.errors import RunError

QUICK = ["--device", "cpu", "--quick", "--n", "30"]
NETS = """
import torch
from torch import nn
from gamagat.models.core import load_model

class Around(nn.Module):
    def __init__(self, front):
        super().__init__()
        self.front, self.net = front, load_model("digits-cnn")

    def forward(self, x):
        return self.net(self.front(x))

def rounded():
    return Around(lambda x: (4 * x).round() / 4)

def noisy():
    return Around(lambda x: x + 0.05 * torch.randn_like(x))

def squashed():
    return nn.Sequential(load_model("digits-cnn"), nn.Softmax(1))
"""


@pytest.fixture(autouse=True)
def nets(monkeypatch, tmp_path):
    """Networks to be named on the command line, in the current folder."""
    (tmp_path / "diagnosed_nets.py").write_text(NETS)
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder of a training, made in a moment."""
    out = tmp_path_factory.mktemp("trained") / "run"
    words = ["train", "standard:epochs=2", "--out", str(out), "--device", "cpu", "--test-images", "0"]
    sys.argv, before = ["gamagat", *words], sys.argv
    try:
        with pytest.raises(SystemExit) as stop:
            cli.main()
        assert not stop.value.code
    finally:
        sys.argv = before
    return out


def test_a_sound_network_is_exit_code_zero_and_every_check_is_shown(command):
    code, out, err = command("diagnose", "digits-cnn", *QUICK)
    assert (code, err) == (0, "")
    shown = " ".join(out.split())
    for check in CHECKS:
        assert check.name in shown
    for words in ("linf, eps 0.2 (usual for the data)", "seen", "limit", "meaning", "not checked",
                  "no source network was given. Give a network", "30 images are few",
                  "sound: no check found a sign of gradient masking; clean accuracy"):  # fmt: skip
        assert words in shown


@pytest.mark.parametrize(("name", "code", "verdict"), [("noisy", 1, "suspicious"), ("rounded", 4, "masked")])
def test_the_exit_code_tells_the_verdict(command, name, code, verdict):
    found, out, err = command("diagnose", f"diagnosed_nets:{name}", "--data", "digits", *QUICK)
    assert (found, err) == (code, "")
    last = out.strip().rpartition("\n\n")[2] if "\n\n" in out.strip() else out
    assert f"{verdict}: " in last
    assert "randomness" in last if name == "noisy" else "zero-gradients" in last
    assert " do " in out


def test_json_is_one_object_and_nothing_else(command, folder):
    words = ["--source", folder, "--seed", "3", "--batch-size", "16", "--eps", "0.1", "--json"]
    code, out, err = command("diagnose", "digits-cnn", "--data", "digits", *QUICK, *words)
    found = json.loads(out, parse_constant=pytest.fail)
    assert (code, err) == (0, "")
    assert list(found) == [
        "verdict", "model", "data", "threat", "run", "weights_sha256", "norm", "eps", "clean_accuracy",
        "robust_accuracy", "checks", "not_checked",
    ]  # fmt: skip
    assert found["verdict"] == "sound"
    assert found["threat"] == "linf, eps 0.1"
    assert (found["norm"], found["eps"]) == ("linf", 0.1)
    assert found["run"].startswith("seed 3, batch 16, cpu")
    assert [check["name"] for check in found["checks"]] == [check.name for check in CHECKS]
    for check in found["checks"]:
        assert list(check) == ["name", "level", "seen", "threshold", "meaning", "do", "numbers"]
        assert check["level"] == "fine"
        assert all(check[key] for key in ("seen", "threshold", "meaning", "do", "numbers"))
    assert 0 < found["robust_accuracy"] <= found["clean_accuracy"] <= 100


def test_the_folder_of_a_training_is_diagnosed_on_its_data_in_another_norm(command, folder):
    words = ["--weights", folder / "last.safetensors", "--norm", "l2", "--split", "val", "--json"]
    _, out, err = command("diagnose", folder, *QUICK, *words)
    found = json.loads(out)
    assert err == ""
    assert found["data"].startswith("digits, 30 images")
    assert found["threat"] == "l2, eps 0.5 (usual for the data)"


def test_help_tells_the_exit_codes(command):
    code, out, _ = command("diagnose", "--help")
    assert code == 0
    assert "0 sound, 1 suspicious, 4 masked, 2 for bad input" in " ".join(out.split())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["digits-cn"], "did you mean 'digits-cnn'?"),
        (["digits-cnn", "--data", "digit"], "did you mean 'digits'?"),
        (["digits-cnn", "--eps", "2"], "eps must be at most 1 in linf"),
        (["digits-cnn", "--n", "0"], "must be positive, got 0"),
        (["digits-cnn", "--n", "3"], "needs more than 3 images"),  # no attack could be proven wrong by them
        (["digits-cnn", "--norm", "l0"], "unknown norm 'l0'"),
        (["digits-cnn", "--batch-size", "0"], "batch size must be at least 1"),
        (["digits-cnn", "--source", "digits-cn"], "did you mean 'digits-cnn'?"),
        (["digits-cnn", "--source", "m-lenet"], "no weights"),
        (["digits-cnn", "--source-weights", "x.safetensors"], "give it with --source MODEL"),
        (["diagnosed_nets:squashed"], "probabilities, not logits"),
        ([], "Missing argument"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_two(command, words, message):
    code, out, err = command("diagnose", *words, "--device", "cpu")
    assert code == 2
    assert message in err
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert out == ""


def test_several_processes_are_refused(command, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    code, _, err = command("diagnose", "digits-cnn", *QUICK)
    assert code == 2
    assert "a diagnosis runs in one process" in err


def test_where_the_diagnosis_is_kept_is_told(command, tmp_path):
    _, out, _ = command("diagnose", "digits-cnn", "--n", "20", "--quick", "--out", "kept")
    assert "kept/diagnosis.json: the report of a run in kept shows it" in out
    code, _, err = command("report", "kept")
    assert (code, err) == (2, "error: kept holds a diagnosis but no run; add one with: gamagat evaluate "
                              "MODEL --out kept\n")  # fmt: skip


def test_the_diagnosis_goes_into_the_run_folder(command, tmp_path):
    code, out, _ = command(
        "diagnose", "digits-cnn", "--n", "20", "--quick", "--out", tmp_path / "run", "--json"
    )
    assert code in (0, 1, 4)
    assert json.loads((tmp_path / "run" / "diagnosis.json").read_text()) == json.loads(out)


@pytest.mark.parametrize(
    ("out", "words"),
    [
        ("file", "file is no folder"),
        ("file/below", "file is no folder"),
        ("loose", "loose is no folder"),
        ("x" * 300, "File name too long"),
    ],
)
def test_what_is_no_folder_is_refused_before_anything_runs(command, monkeypatch, tmp_path, out, words):
    (tmp_path / "file").write_text("")
    (tmp_path / "loose").symlink_to(tmp_path / "gone")
    monkeypatch.setattr("gamagat.cli.diagnose.run_diagnosis", lambda *_: pytest.fail("it ran"))
    code, shown, err = command("diagnose", "digits-cnn", *QUICK, "--out", out)
    assert (code, shown) == (2, "")
    assert err == f"error: cannot keep a diagnosis in {out}: {words}; give a folder with --out DIR\n"


def test_a_folder_that_cannot_be_written_to_is_refused_before_anything_runs(command, monkeypatch, tmp_path):
    monkeypatch.setattr("gamagat.cli.diagnose.os.access", lambda place, _: place != tmp_path)
    monkeypatch.setattr("gamagat.cli.diagnose.run_diagnosis", lambda *_: pytest.fail("it ran"))
    code, _, err = command("diagnose", "digits-cnn", *QUICK, "--out", tmp_path / "new")
    assert code == 2
    assert f"{tmp_path} cannot be written to; give a folder with --out DIR" in err


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_a_diagnosis_that_cannot_be_kept_is_shown_all_the_same(command, monkeypatch, more):
    def full(path, content):
        raise RunError(f"cannot write {path}: No space left on device")

    monkeypatch.setattr("gamagat.cli.diagnose.write_json", full)
    code, out, err = command("diagnose", "digits-cnn", *QUICK, "--n", "8", "--out", "kept", *more)
    assert code == 2
    assert (json.loads(out)["verdict"] == "sound") if more else ("sound: no check found" in out)
    assert "the report of a run" not in out
    assert err.endswith(
        "error: the diagnosis is shown but not kept in kept: cannot write kept/diagnosis.json: No space left "
        "on device; put that right, or give another --out\n"
    )


def test_a_folder_that_cannot_be_made_after_all_is_one_sentence(command, tmp_path, monkeypatch):
    monkeypatch.setattr("gamagat.cli.diagnose._check_place", lambda out: None)
    (tmp_path / "file").write_text("")
    code, out, err = command("diagnose", "digits-cnn", *QUICK, "--n", "8", "--out", "file")
    assert (code, "sound: no check found" in out) == (2, True)
    assert "error: the diagnosis is shown but not kept in file: File exists; put that right" in err
