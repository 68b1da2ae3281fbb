"""From door to door on a GPU, as strong as on a CPU: what no test on a CPU reaches (`pytest -m gpu`).

GAMAGAT_TEST_DEVICE names another device than cuda: cuda:1, or cpu, to try the tests themselves.
"""

import json
import math
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import gamagat
from gamagat.attacks.core import ATTACKS, L2_ONLY
from gamagat.defenses.core import DEFENSES
from gamagat.engine.quick import network
from gamagat.engine.training.run import Listener, TrainingRequest, train
from gamagat.models.core import load_model

pytestmark = pytest.mark.gpu
DEVICE = os.environ.get("GAMAGAT_TEST_DEVICE", "cuda")
ON_GPU = DEVICE != "cpu"
IMAGES, NEAR = 60, 4  # a near tie may fall on either side


def short(name: str) -> str:
    """The attack with few steps, where it has steps."""
    defaults = ATTACKS[name].defaults()
    few = {"steps": 8, "queries": 100, "samples": 16, "searches": 2, "targets": 2, "top": 2}
    chosen = [f"{key}={min(value, defaults[key])}" for key, value in few.items() if key in defaults]
    return f"{name}:{','.join(chosen)}" if chosen else name


def norm_of(name: str) -> list[str]:
    return ["--norm", "l2", "--eps", "1"] if L2_ONLY in ATTACKS[name].tags else ["--norm", "linf"]


def evaluated(command, name: str, device: str, out: Path, *more: str) -> dict[str, float]:
    """What is left of the digits by an attack."""
    words = ["evaluate", "digits-cnn", "--data", "digits", "--n", str(IMAGES), "--device", device, "--json"]
    code, said, err = command(*words, "--attack", short(name), *norm_of(name), "--out", out, *more)
    assert code == 0, err
    return json.loads(said)


@pytest.mark.parametrize(
    "name", [name for name in ATTACKS.names() if name != "autoattack"]
)  # all its members
def test_an_attack_is_as_strong_as_on_a_cpu_and_every_claim_holds_there(name, command, tmp_path):
    here = evaluated(command, name, DEVICE, tmp_path / "gpu")
    there = evaluated(command, name, "cpu", tmp_path / "cpu")
    assert here["clean_accuracy"] == there["clean_accuracy"]
    assert abs(here["robust_accuracy"] - there["robust_accuracy"]) * IMAGES / 100 <= NEAR
    for device in (DEVICE, "cpu"):
        code, said, err = command("verify", tmp_path / "gpu", "--device", device)
        assert code == 0, said + err


@pytest.mark.parametrize("name", ["gama-pgd", "fab", "apgd-t", "square", "ddn"])
def test_a_compiled_stand_in_serves_as_well(name, command, tmp_path, monkeypatch):
    there = evaluated(command, name, "cpu", tmp_path / "cpu")
    monkeypatch.setattr(network, "WORTH_COMPILING", 0)
    here = evaluated(command, name, DEVICE, tmp_path / "gpu")
    made = json.loads((tmp_path / "gpu" / "manifest.json").read_text())["made"]
    assert ("compiled" in made["attacks in"]) == ON_GPU
    assert abs(here["robust_accuracy"] - there["robust_accuracy"]) * IMAGES / 100 <= NEAR


def asked(out: Path, recipe: str, epochs: int = 3, **changes: object) -> TrainingRequest:
    options = {"epochs": str(epochs), "probe": "50"}
    request = TrainingRequest(recipe, "digits", "digits-cnn", out, options=options, device=DEVICE)
    return replace(request, **changes)  # type: ignore[arg-type]


def rows(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("recipe", DEFENSES.names())
def test_a_recipe_learns_the_digits(recipe, tmp_path):
    train(asked(tmp_path, recipe))
    found = rows(tmp_path)
    assert [row["epoch"] for row in found] == [0, 1, 2]
    assert all(math.isfinite(row["train"]["loss"]) for row in found)
    assert max(row["val"]["clean"] for row in found) > 60


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")  # torch looks at it while compiling
@pytest.mark.parametrize("recipe", ["gat", "trades", "rmgm:full=true"])
def test_a_compiled_training_learns_them_too(recipe, tmp_path):
    train(asked(tmp_path, recipe, compile=ON_GPU))
    assert max(row["val"]["clean"] for row in rows(tmp_path)) > 60


def test_an_interrupted_training_goes_on(tmp_path):
    def stop(row, settings):
        if row["epoch"] == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(asked(tmp_path, "gat", 4), Listener(stop))
    train(asked(tmp_path, "gat", 4))
    found = rows(tmp_path)
    assert [row["epoch"] for row in found] == [0, 1, 2, 3]
    assert all(math.isfinite(row["train"]["loss"]) for row in found)


def test_images_made_on_one_network_are_judged_on_another(command):
    words = ["transfer", "--source", "digits-cnn", "--target", "digits-cnn", "--data", "digits", "--json"]
    words += ["--n", str(IMAGES), "--attack", "fgsm", "--attack", "pgd:steps=7"]
    here, there = (json.loads(command(*words, "--device", device)[1]) for device in (DEVICE, "cpu"))
    for ours, theirs in zip(here["attacks"], there["attacks"], strict=True):
        left = [abs(ours["accuracy"][name] - theirs["accuracy"][name]) for name in theirs["accuracy"]]
        assert max(left) * IMAGES / 100 <= NEAR


def test_the_verdict_of_a_diagnosis_is_that_of_a_cpu(command):
    words = ["diagnose", "digits-cnn", "--data", "digits", "--quick", "--n", "60", "--json"]
    here, there = (json.loads(command(*words, "--device", device)[1]) for device in (DEVICE, "cpu"))
    assert here["verdict"] == there["verdict"]


def test_in_python_nothing_of_the_caller_changes():
    data = gamagat.load_data("digits").head(40)
    x, y = (tensor.to(DEVICE) for tensor in data.batch(torch.arange(40)))
    model = load_model("digits-cnn", None, classes=10, channels=1).to(DEVICE).eval()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    state = torch.cuda.get_rng_state(x.device) if x.is_cuda else None
    images = gamagat.attack("gama-pgd", model, eps=0.2, steps=10)(x, y)
    chosen = {"version": "custom", "attacks_to_run": ["apgd-ce", "square"], "verbose": False}
    suite = gamagat.AutoAttack(model, norm="Linf", eps=0.2, **chosen).run_standard_evaluation(x, y, bs=17)
    for found in (images, suite):
        assert found.device == x.device
        assert float((found - x).abs().max()) <= 0.2 + 1e-6
        assert int((model(found).argmax(1) == y).sum()) < 40
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())
    assert state is None or torch.equal(state, torch.cuda.get_rng_state(x.device))
