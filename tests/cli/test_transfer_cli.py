"""gamagat transfer as people and machines ask for it: the doctor looks at every network first."""

import json

import numpy as np
import pytest

QUICK = ["transfer", "--source", "digits-cnn", "--n", "30", "--attack", "fgsm", "--device", "cpu"]
NETS = """
import torch
from torch import nn
from gamagat.models.core import load_model

class Around(nn.Module):
    def __init__(self, front=lambda x: x, back=lambda z: z):
        super().__init__()
        self.front, self.net, self.back = front, load_model("digits-cnn"), back

    def forward(self, images):
        return self.back(self.net(self.front(images)))

def noisy():
    return Around(lambda x: x + 0.3 * torch.randn_like(x))

def rounded():
    return Around(lambda x: (x * 16).round() / 16)

def flipped():
    return Around(back=lambda z: z.roll(1, 1))

def squashed():
    return Around(back=lambda z: z.softmax(1))

def wide():
    class Wide(Around):
        def forward(self, images):
            return self.net(images.double())
    return Wide().double()
"""


@pytest.fixture(autouse=True)
def nets(monkeypatch, tmp_path):
    """Networks to be named on the command line, in the current folder."""
    (tmp_path / "transferred_nets.py").write_text(NETS)
    monkeypatch.chdir(tmp_path)


def test_healthy_networks_have_a_table_and_nothing_to_note(command):
    code, out, err = command(*QUICK, "--target", "digits-cnn", "--json")
    assert (code, err) == (0, "")
    assert list(json.loads(out)["clean_accuracy"]) == ["digits-cnn (source)", "digits-cnn"]


@pytest.mark.parametrize(
    ("words", "whose"),
    [
        (
            ["--target", "digits-cnn", "--target", "transferred_nets:flipped"],
            "target transferred_nets:flipped",
        ),
        (
            ["--target", "digits-cnn", "--source", "transferred_nets:flipped"],
            "source transferred_nets:flipped",
        ),
        (
            ["--target", "transferred_nets:flipped", "--source", "transferred_nets:flipped"],
            "source transferred_nets:flipped, target transferred_nets:flipped",
        ),
    ],
)
def test_what_makes_numbers_worthless_stops_before_anything_runs(command, monkeypatch, words, whose):
    with monkeypatch.context() as patched:
        patched.setattr("gamagat.engine.transfer_request.run_transfer", lambda *_: pytest.fail("it ran"))
        code, out, err = command(*QUICK, *words)
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {whose}: label-order: ")
    assert err.endswith(" (--force goes on)\n")
    assert err.count("\n") == 1
    code, out, err = command(*QUICK, *words, "--force", "--json")
    assert code == 0
    assert err.startswith(f"note: {whose}: label-order: ")
    assert json.loads(out)["n"] == 30


def test_a_random_target_stops_it_and_its_name_is_told(command):
    code, _, err = command(*QUICK, "--target", "transferred_nets:noisy")
    assert (code, "error: target transferred_nets:noisy: non-determinism: " in err) == (2, True)


def test_probabilities_are_let_through_by_force(command):
    code, _, err = command(*QUICK, "--target", "transferred_nets:squashed")
    assert (code, err.count("\n")) == (2, 1)
    assert err.startswith("error: target transferred_nets:squashed: the network returns probabilities")
    code, _, err = command(*QUICK, "--target", "transferred_nets:squashed", "--force")
    assert (code, "note: target transferred_nets:squashed: probabilities: " in err) == (0, True)


def test_gradients_matter_of_the_source_alone(command):
    code, _, err = command(*QUICK, "--target", "transferred_nets:rounded")
    assert (code, err) == (0, "")
    code, _, err = command(*QUICK, "--source", "transferred_nets:rounded", "--target", "digits-cnn")
    assert (code, "source transferred_nets:rounded: input-gradients: " in err) == (2, True)


def test_the_radius_is_no_networks(command):
    code, _, err = command(*QUICK, "--target", "digits-cnn", "--eps", "0.9")
    assert (code, err.startswith("note: eps: eps is 0.9")) == (0, True)


def test_a_network_of_double_precision_is_judged_and_attacked(command):
    code, out, err = command(*QUICK, "--target", "transferred_nets:wide", "--json")
    assert (code, err) == (0, "")
    for accuracy in (json.loads(out)["clean_accuracy"], json.loads(out)["attacks"][0]["accuracy"]):
        assert accuracy["digits-cnn (source)"] == accuracy["transferred_nets:wide"]
    code, _, err = command("evaluate", "transferred_nets:wide", "--n", "30", "--attack", "fgsm")
    assert (code, err) == (0, "")
    assert command("doctor", "transferred_nets:wide")[:2] == (0, "nothing found\n")


def test_images_that_cannot_be_used_are_no_networks(command, tmp_path):
    np.savez(tmp_path / "bright.npz", images=np.full((3, 1, 8, 8), 7.0, np.float32), labels=np.arange(3))
    words = ["--target", "digits-cnn", "--data", "arrays:bright.npz", "--eps", "0.1"]
    code, out, err = command(*QUICK, *words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "digits-cnn" not in err
    assert "[0, 1]" in err
