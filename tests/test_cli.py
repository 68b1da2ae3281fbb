"""The command as people and machines use it."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console

from gamagat.models.core import BUNDLED
from helpers import seeded, tiny_network

DIGITS = BUNDLED / "digits-cnn.safetensors"
QUICK = ["evaluate", "digits-cnn", "--data", "digits", "--n", "20", "--attack", "gama-pgd:steps=3"]


def test_the_table_shows_all_that_was_asked_and_used(command):
    code, out, err = command(*QUICK, "--attack", "fgsm", "--restarts", "2", "--seed", "5")
    assert code == 0
    for words in ("clean", "gama-pgd:steps=3", "fgsm", "worst case", "95 % interval", "forwards", "seconds"):
        assert words in out
    assert "linf, eps 0.2 (usual for the data)" in out
    assert "seed 5" in out
    assert (
        "gama-pgd:steps=3,weight=50,fade=0.25,rate=2,drops=0.6+0.85,factor=0.1,guide=start,as_published=false"
        in out
    )
    assert "after each run" in out
    assert err == ""


def test_json_is_one_object_and_nothing_else(command):
    code, out, err = command(*QUICK, "--json", "--eps", "1/10", "--norm", "l2")
    result = json.loads(out)
    assert code == 0
    assert err == ""
    assert list(result) == [
        "model", "data", "n", "norm", "eps", "clean_accuracy", "robust_accuracy", "ci95", "attacks",
        "seconds",
    ]  # fmt: skip
    assert (result["model"], result["data"], result["n"]) == ("digits-cnn", "digits", 20)
    assert (result["norm"], result["eps"]) == ("l2", 0.1)
    assert [set(a) for a in result["attacks"]] == [
        {"name", "robust_accuracy", "forwards", "backwards", "seconds"}
    ]
    assert result["ci95"][0] <= result["robust_accuracy"] <= result["ci95"][1]


def test_what_a_network_prints_is_no_json(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import gamagat\nprint('imported')\ndef net():\n    net = gamagat.load_model('digits-cnn')\n"
        "    net.register_forward_hook(lambda *_: print('forward'))\n    return net\n"
    )
    words = ["evaluate", "mine:net", "--data", "digits", "--n", "8", "--attack", "fgsm", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "gamagat", *words], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout)["n"] == 8
    assert {"imported", "forward"} <= set(done.stderr.splitlines())


@pytest.mark.parametrize("kind", ["attacks", "models", "data"])
def test_list_shows_a_line_for_everything(command, kind):
    names = [item["name"] for item in json.loads(command("list", kind, "--json")[1])[kind]]
    code, out, _ = command("list", kind)
    assert code == 0
    assert all(name in out for name in names)
    assert {"attacks": "gama-pgd", "models": "resnet18", "data": "cifar10"}[kind] in names
    assert all(item["summary"] for item in json.loads(command("list", kind, "--json")[1])[kind])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["evaluate", "digits-cn"], "did you mean 'digits-cnn'?"),
        (["evaluate", "digits-cnn", "--data", "digit"], "did you mean 'digits'?"),
        ([*QUICK, "--attack", "gama-pg"], "did you mean"),
        ([*QUICK, "--attack", "pgd:stepz=1"], "did you mean 'steps'?"),
        ([*QUICK, "--eps", "0"], "eps must be positive"),
        ([*QUICK, "--eps=-8/255"], "eps must be positive"),
        ([*QUICK, "--eps", "big"], "eps must be a number"),
        ([*QUICK, "--norm", "l0"], "unknown norm 'l0'"),
        ([*QUICK, "--n", "0"], "must be positive, got 0"),
        ([*QUICK, "--split", "tset"], "did you mean 'test'?"),
        ([*QUICK, "--batch-size", "0"], "batch size must be at least 1"),
        ([*QUICK, "--restarts", "0"], "restarts must be at least 1"),
        ([*QUICK, "--device", "tpu9"], "is not to be had here"),
        ([*QUICK, "--weights", "/no/such/file.pt"], "/no/such/file.pt"),
        (["evaluate", "resnet18", "--data", "digits"], "weights"),
        (["evaluate", "digits-cnn:normalize=half"], "is another network"),
        (["list", "atacks"], "did you mean 'attacks'?"),
        ([*QUICK, "--eps", "1e400"], "eps must be a number"),
        ([*QUICK, "--attack", "pgd:steps=1e400"], "must be a whole number"),
        ([*QUICK, "--attack", "pgd:as_published=1,as-published=0"], "given twice"),
        ([*QUICK, "--device", "meta"], "is not to be had here"),
        ([*QUICK, "--batch-size", "99999999999999999999"], "batch size must be at least 1"),
        ([*QUICK, "--n", "abc"], "'--n'"),
        ([*QUICK, "--n", "abc"], ". See: gamagat evaluate --help"),
        ([*QUICK, "--no-such-option"], "--no-such-option"),
        (["evaluate"], "Missing argument 'model'. See: gamagat evaluate --help"),
        (["evalute"], "evalute"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_two(command, words, message):
    code, _, err = command(*words)
    assert code == 2
    assert message in err
    assert "Traceback" not in err
    assert err.count("\n") == 1
    assert err.startswith("error: ")


def arrays(folder: Path, images: np.ndarray, labels: np.ndarray) -> str:
    np.savez(folder / "data.npz", images=images, labels=labels)
    return f"arrays:{folder / 'data.npz'}"


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (np.full((3, 1, 8, 8), np.nan, np.float32), [0, 1, 2], "[0, 1]"),
        (np.full((3, 1, 8, 8), 7.0, np.float32), [0, 1, 2], "[0, 1]"),
        (np.zeros((3, 1, 8, 8), np.uint8), [0, 1, 12], "outputs"),
        (np.zeros((3, 1, 8, 8), np.uint8), [0, -1, 2], "-1"),
        (np.zeros((0, 1, 8, 8), np.uint8), [], "empty"),
        (np.zeros((3, 3, 8, 8), np.uint8), [0, 1, 2], "cannot take images of shape (3, 3, 8, 8)"),
    ],
)
def test_bad_data_is_one_sentence_and_exit_code_two(command, tmp_path, monkeypatch, images, labels, message):
    source = arrays(tmp_path, images, np.array(labels, np.int64))
    code, _, err = command("evaluate", "digits-cnn", "--data", source, "--eps", "0.1")
    assert code == 2
    assert message in err
    assert err.count("\n") == 1


USER_MODULE = """
from torch import nn

def network():
    return nn.Sequential(nn.Flatten(), nn.Linear({pixels}, 10){more})
"""


@pytest.mark.parametrize(
    ("pixels", "more", "message"),
    [
        (64, ", nn.Softmax(1)", "probabilities"),
        (64, ", nn.Unflatten(1, (2, 5))", "logits"),
        (99, "", "(16, 1, 8, 8)"),
    ],
)
def test_a_network_that_does_not_fit_is_one_sentence(command, tmp_path, monkeypatch, pixels, more, message):
    name = f"user_module_{pixels}_{len(more)}"
    (tmp_path / f"{name}.py").write_text(USER_MODULE.format(pixels=pixels, more=more))
    monkeypatch.chdir(tmp_path)
    code, _, err = command("evaluate", f"{name}:network", "--data", "digits", "--n", "30", "--attack", "fgsm")
    assert code == 2
    assert message in err
    assert err.count("\n") == 1


def test_a_batch_of_one_grey_or_colour_works(command, tmp_path):
    torch.save(seeded(lambda: tiny_network(10, 3)).state_dict(), tmp_path / "tiny.pt")
    for channels in (1, 3):
        images = np.random.default_rng(0).integers(0, 256, (1, channels, 8, 8), np.uint8)
        source = arrays(tmp_path, images, np.array([1]))
        (tmp_path / "colour_net.py").write_text(
            "import torch\nfrom torch import nn\ntorch.manual_seed(0)\n"
            "def grey(): return nn.Sequential(nn.Flatten(), nn.Linear(64, 4))\n"
            "def colour(): return nn.Sequential(nn.Flatten(), nn.Linear(192, 4))\n"
        )
        sys.path.insert(0, str(tmp_path))
        try:
            net = "colour_net:grey" if channels == 1 else "colour_net:colour"
            code, out, err = command("evaluate", net, "--data", source, "--eps", "8/255", "--json")
        finally:
            sys.path.remove(str(tmp_path))
        assert code == 0
        assert "error" not in err
        assert json.loads(out)["n"] == 1


def test_python_dash_m_is_the_command():
    words = [sys.executable, "-m", "gamagat", *QUICK, "--json"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["n"] == 20
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("eps", "words"), [("8/255", "eps 8/255 = 0.0313725"), ("0.3", "eps 0.3"), ("1/10", "eps 1/10 = 0.1")]
)
def test_a_radius_is_told_twice_only_if_it_was_written_as_a_fraction(command, eps, words):
    out = command(*QUICK, "--eps", eps)[1]
    assert f"linf, {words}" in [line.strip().removeprefix("threat").strip() for line in out.splitlines()]


@pytest.mark.parametrize("what", ["gamagat.cli.app", "gamagat.cli.list", "torch"])
def test_an_interruption_while_modules_are_imported_is_one_line(tmp_path, what):
    # The module is found by a finder that behaves as if Ctrl-C were pressed at that moment.
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {what!r}:\n"
        "            raise KeyboardInterrupt\n"
        "import gamagat\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        "from gamagat.cli import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, script, "list"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "note: stopped: it was interrupted\n"


def test_the_runs_that_are_missing_are_named(command, tmp_path):
    words = ["--attack", "autoattack:steps=5,queries=20", "--out", tmp_path / "run", "--max-seconds", "0"]
    code, out, _ = command("evaluate", "digits-cnn", "--n", "5", *words)
    assert code == 3
    assert (
        "unfinished: 0 of 5 images are through with every run shown; still to do: autoattack>apgd-ce" in out
    )
    assert "autoattack>apgd-t (9 runs)" in " ".join(out.split())
    assert "autoattack>square" in out
    assert "unfinished: 0 of 5 images" in command("verify", tmp_path / "run")[1]


def test_the_version_is_told(command):
    assert command("--version")[1].strip().count(".") == 2


def test_no_words_at_all_show_the_help(command):
    code, out, _ = command()
    assert code == 0
    assert "evaluate" in out


def test_no_image_finished_is_json_all_the_same(command, tmp_path):
    code, out, _ = command(*QUICK, "--json", "--max-seconds", "0", "--out", tmp_path / "run")
    assert code == 3
    assert json.loads(out, parse_constant=pytest.fail)["robust_accuracy"] is None


def test_brackets_in_names_are_shown_as_they_are(command, tmp_path, monkeypatch):
    folder = tmp_path / "a[/b] n[red]x"
    folder.mkdir(parents=True)
    (folder / "digits.safetensors").write_bytes(DIGITS.read_bytes())
    code, out, _ = command(*QUICK, "--weights", folder / "digits.safetensors")
    assert code == 0
    assert "a[/b] n[red]x" in out


def test_a_reader_that_has_seen_enough_is_no_error():
    words = f"{sys.executable} -m gamagat list | head -1"
    done = subprocess.run(words, shell=True, capture_output=True, text=True, check=True)
    assert done.stderr == ""


@pytest.mark.parametrize("columns", [40, 60, 200])
def test_the_table_keeps_names_and_accuracies_at_any_width(command, monkeypatch, columns):
    monkeypatch.setattr("gamagat.cli.evaluate.console", lambda: Console(width=columns))
    _, out, _ = command(*QUICK)
    assert "gama-pgd" in out
    assert "100.00" in out or "95.00" in out


def test_missing_weights_are_told_before_data_are_looked_for(command, tmp_path):
    words = [
        "evaluate",
        "resnet18",
        "--weights",
        tmp_path / "no.pt",
        "--data",
        "cifar10",
        "--data-dir",
        tmp_path,
    ]
    code, _, err = command(*words)
    assert code == 2
    assert "no.pt does not exist" in " ".join(err.split())
    assert not list(tmp_path.iterdir())
