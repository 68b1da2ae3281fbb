"""gamagat bench as people and machines ask for it."""

import json
import runpy
import sys
from types import SimpleNamespace

import pytest

from gamagat import cli
from gamagat.engine.bench import attack, train
from helpers import ROOT

SMALL = ["--device", "cpu", "--n", "24", "--steps", "2", "--rounds", "1"]


@pytest.fixture
def command(monkeypatch, capsys):
    """Run the command in this process: exit code, standard output, standard error."""
    for module in (attack, train):
        monkeypatch.setattr(module, "machine_rate", lambda device, kind: 1e11)

    def call(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["gamagat", "bench", *map(str, words)])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        out, err = capsys.readouterr()
        return stop.value.code or 0, out, err

    return call


@pytest.mark.filterwarnings("ignore")  # of other packages, where they are installed
def test_one_table_shows_everyone(command):
    code, out, err = command("digits-cnn", *SMALL)
    assert (code, err) == (0, "")
    shown = " ".join(out.split())
    for words in ("seconds", "images/s", "gradients/s", "% left", "x published", "% of limit", "peak MiB",
                  "published-style GAMA-PGD", "torchattacks PGD", "foolbox LinfPGD", "ART PGD",
                  "AutoAttack APGD-CE", "our GAMA-PGD, fp32", "24 of digits", "linf, eps 0.2, 2 steps",
                  "times the published loop"):  # fmt: skip
        assert words in shown


@pytest.mark.filterwarnings("ignore")
def test_json_has_rows_whose_ratios_follow_from_their_seconds(command):
    code, out, err = command("digits-cnn", *SMALL, "--json")
    assert (code, err) == (0, "")
    (bench,) = json.loads(out)["benchmarks"]
    base = {row["part"]: row["seconds"] for row in bench["rows"] if row["who"] == "published"}
    measured = [row for row in bench["rows"] if row["seconds"]]
    assert {row["who"] for row in measured} >= {"published", "ours"}
    for row in measured:
        assert row["images_per_second"] == pytest.approx(24 / row["seconds"])
        assert row["times_published"] == pytest.approx(base[row["part"]] / row["seconds"])
        assert 0 <= row["accuracy_left"] <= 100
    for row in bench["rows"]:
        assert row["seconds"] or row["note"]


def test_training_is_measured_on_request(command):
    code, out, err = command("digits-cnn", "--train", "--epochs", "1", "--n", "64", "--steps", "1",
                             "--device", "cpu", "--json")  # fmt: skip
    assert (code, err) == (0, "")
    (bench,) = json.loads(out)["benchmarks"]
    assert [row["what"] for row in bench["rows"]] == ["published-style GAT", "our GAT, fp32"]
    assert all(row["seconds"] > 0 for row in bench["rows"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["resnet18", "--data", "digits"], "--weights FILE"),
        (["digits-cnn", "--steps", "0"], "steps"),
        (["digits-cnn", "--data", "digit"], "did you mean 'digits'?"),
        (["digits-cnn", "--device", "tpu"], "device 'tpu' is not to be had here"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_two(command, words, said):
    code, out, err = command(*words)
    assert (code, out) == (2, "")
    assert said in err
    assert len(err.strip().splitlines()) == 1


def test_the_script_of_training_prints_the_same_object(monkeypatch, capsys):
    monkeypatch.setattr(train, "machine_rate", lambda device, kind: 1e11)
    words = ["--n", "64", "--epochs", "1", "--steps", "1", "--device", "cpu", "--json"]
    monkeypatch.setattr(sys, "argv", ["train_speed.py", *words])
    runpy.run_path(str(ROOT / "benchmarks" / "train_speed.py"), run_name="__main__")
    (bench,) = json.loads(capsys.readouterr().out)["benchmarks"]
    assert [row["who"] for row in bench["rows"]] == ["published", "ours"]


@pytest.mark.parametrize(("weights", "blind"), [(None, True), ("gat.safetensors", False)])
def test_quick_takes_the_digits_and_a_resnet_blind_without_weights(monkeypatch, weights, blind):
    script = runpy.run_path(str(ROOT / "benchmarks" / "attack_speed.py"))
    words = ["--quick", "--device", "cpu"] + (["--weights", weights] if weights else [])
    monkeypatch.setattr(sys, "argv", ["attack_speed.py", *words])
    asked = []

    def measure(request, steps, **more):
        asked.append(
            (request.model, request.data, request.weights and str(request.weights), more.get("blind"))
        )
        return SimpleNamespace()

    monkeypatch.setitem(script["measured"].__globals__, "attack_bench", measure)
    assert len(list(script["measured"](script["arguments"]()))) == 2
    assert asked == [("digits-cnn", "digits", None, None), ("resnet18", "cifar10", weights, blind)]


def test_a_mistake_in_the_script_is_one_sentence(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["attack_speed.py", "--data", "digit", "--device", "cpu"])
    with pytest.raises(SystemExit, match="did you mean 'digits'"):
        runpy.run_path(str(ROOT / "benchmarks" / "attack_speed.py"), run_name="__main__")


@pytest.mark.parametrize(
    ("forward", "words"),
    [
        ("{'logits': self.net(x)}", "for 16 images, got dict; wrap it"),
        ("self.net(x.repeat(1, 3, 1, 1))", "the network cannot take images of shape (16, 1, 8, 8)"),
        ("self.net((255 * x).byte() / 255)", "the network cuts the gradient"),
    ],
)
def test_a_network_that_cannot_be_measured_is_refused_in_words(
    command, tmp_path, monkeypatch, forward, words
):
    (tmp_path / "bench_nets.py").write_text(
        "import gamagat\nfrom torch import nn\nclass Net(nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.net = gamagat.load_model('digits-cnn')\n"
        f"    def forward(self, x):\n        return {forward}\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "bench_nets", raising=False)
    code, _, err = command("bench_nets:Net", *SMALL)
    assert (code, words in err) == (2, True)
