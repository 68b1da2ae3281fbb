"""Catastrophic overfitting is seen, said, and dealt with as asked."""

import json
from copy import deepcopy

import pytest
import torch
from training.small_training import metrics, same, tensors, trained, write_images

from gamagat.defenses.core import Precision
from gamagat.engine.training import course
from gamagat.engine.training.course import MOST_ATTEMPTS
from gamagat.engine.training.probe import collapsed
from gamagat.engine.training.run import Listener, TrainingRequest, train
from gamagat.errors import RunError

SOUND = {"clean": 90.0, "fgsm": 60.0, "pgd-10": 50.0, "selection": 50.0}
COLLAPSED = {"clean": 95.0, "fgsm": 80.0, "pgd-10": 1.0, "selection": 40.0}


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> str:
    return write_images(tmp_path_factory.mktemp("data"))


@pytest.fixture
def looks(monkeypatch):
    """Let the probe see what the test says, and keep the weights that it saw."""

    def install(*script):
        weights = []

        def look(self, model, posed=None):
            weights.append(deepcopy(model.state_dict()))
            return dict(script[min(len(weights), len(script)) - 1])

        monkeypatch.setattr(course.Probe, "look", look)
        return weights

    return install


def holds(path, expected):
    found = tensors(path)
    return all(torch.equal(found[key], value) for key, value in expected.items())


def watched(data, out, action, **changes):
    """Train and listen."""
    said = []
    result = trained(data, out, on_collapse=action, listener=Listener(say=said.append), **changes)
    return result, said


FIRST = "epoch 2: catastrophic overfitting: FGSM accuracy 80.0 %, PGD-10 accuracy 1.0 %; "


def test_warned_of_a_collapse_training_goes_on(data, tmp_path, looks):
    seen = looks(SOUND, SOUND, COLLAPSED)
    result, said = watched(data, tmp_path / "run", "warn", epochs=5)
    heads = [FIRST.replace("2", str(epoch), 1) for epoch in (2, 3, 4)]
    assert said == [f"{head}training goes on, the selected epoch is kept" for head in heads]
    assert [row["collapsed"] for row in metrics(tmp_path / "run")] == [False, False, True, True, True]
    assert result.story.ended is None
    assert holds(tmp_path / "run" / "model.safetensors", seen[0])
    assert holds(tmp_path / "run" / "last.safetensors", seen[4])


def test_stopped_at_a_collapse_training_keeps_the_last_sound_epoch(data, tmp_path, looks):
    seen = looks(SOUND, SOUND | {"selection": 45.0}, COLLAPSED)
    result, said = watched(data, tmp_path / "run", "stop", epochs=6)
    assert said == [f"{FIRST}training ends here, the weights of epoch 1 are kept"]
    assert (result.story.ended, result.story.sound, len(seen)) == ("collapsed", 1, 3)
    assert holds(tmp_path / "run" / "last.safetensors", seen[1])
    assert holds(tmp_path / "run" / "model.safetensors", seen[0])
    assert [row["collapsed"] for row in metrics(tmp_path / "run")] == [False, False, True]


def test_a_training_that_was_stopped_stays_stopped(data, tmp_path, looks):
    seen = looks(SOUND, SOUND, COLLAPSED)
    watched(data, tmp_path / "run", "stop", epochs=6)
    _, said = watched(data, tmp_path / "run", "stop", epochs=6)
    assert said == []
    assert len(seen) == 3
    assert holds(tmp_path / "run" / "last.safetensors", seen[1])


@pytest.mark.parametrize("action", ["stop", "rollback"])
def test_without_a_sound_epoch_there_is_nothing_to_go_back_to(data, tmp_path, looks, action):
    seen = looks(COLLAPSED)
    result, said = watched(data, tmp_path / "run", action, epochs=6)
    assert said == [FIRST.replace("2", "0", 1) + "training ends here, no epoch was sound"]
    assert result.story.ended == "collapsed"
    assert len(seen) == 1
    assert holds(tmp_path / "run" / "model.safetensors", seen[0])


def test_rolled_back_training_takes_another_order_and_ends(data, tmp_path, looks):
    seen = looks(SOUND, SOUND, COLLAPSED, SOUND)
    result, said = watched(data, tmp_path / "run", "rollback", epochs=5)
    assert said == [f"{FIRST}back to epoch 1, with another order of the images"]
    assert result.story.attempt == 1
    assert result.story.ended is None
    rows = metrics(tmp_path / "run")
    assert [row["epoch"] for row in rows] == [0, 1, 2, 3, 4]
    assert not any(row["collapsed"] for row in rows)
    assert len(seen) == 6
    # The third epoch began twice with the same weights and became something else.
    assert not torch.equal(seen[2]["1.weight"], seen[3]["1.weight"])


def test_before_a_rollback_both_ways_are_the_same(data, tmp_path, looks):
    looks(SOUND, SOUND, COLLAPSED, SOUND)
    watched(data, tmp_path / "back", "rollback", epochs=3)
    looks(SOUND)
    watched(data, tmp_path / "straight", "rollback", epochs=3)
    back, straight = metrics(tmp_path / "back"), metrics(tmp_path / "straight")
    assert [row["train"] for row in back[:2]] == [row["train"] for row in straight[:2]]
    assert back[2]["train"] != straight[2]["train"]


def test_after_three_rollbacks_training_ends(data, tmp_path, looks):
    seen = looks(SOUND, SOUND, COLLAPSED)
    result, said = watched(data, tmp_path / "run", "rollback", epochs=100)
    assert MOST_ATTEMPTS == 3
    assert [words.startswith(FIRST) for words in said] == [True] * 4
    assert [words.endswith("another order of the images") for words in said] == [True, True, True, False]
    assert said[-1].endswith("training ends here, the weights of epoch 1 are kept")
    assert len(seen) == 2 + 4
    assert result.story.ended == "collapsed"
    assert holds(tmp_path / "run" / "last.safetensors", seen[1])
    tries = {tuple(weights["1.weight"].flatten().tolist()) for weights in seen[2:]}
    assert len(tries) == 4  # four orders


def test_rollbacks_of_different_epochs_count_together(data, tmp_path, looks):
    seen = looks(SOUND, COLLAPSED, SOUND, COLLAPSED, SOUND, COLLAPSED, SOUND, COLLAPSED, SOUND)
    result, said = watched(data, tmp_path / "run", "rollback", epochs=100)
    assert len(said) == 4
    assert len(seen) == 8
    assert result.story.sound == 3
    assert holds(tmp_path / "run" / "last.safetensors", seen[6])


def test_a_collapsed_epoch_is_never_the_selected_one_if_there_is_another(data, tmp_path, looks):
    # What it is selected by may be fooled like FGSM; after a rollback there is no such epoch at all.
    fooled = COLLAPSED | {"selection": 99.0}
    for action in ("warn", "stop", "rollback"):
        seen = looks(SOUND, fooled, SOUND | {"selection": 10.0})
        result, _ = watched(data, tmp_path / action, action, epochs=3)
        assert result.story.best("selection") == 0
        assert holds(tmp_path / action / "model.safetensors", seen[0])


def test_a_network_that_was_never_taught_to_resist_does_not_collapse(data, tmp_path, looks):
    looks(COLLAPSED)
    result, said = watched(data, tmp_path / "run", "stop", recipe="standard", epochs=3)
    assert said == []
    assert len(result.story.rows) == 3


def test_a_rollback_interrupted_goes_on_as_if_nothing_had_been(data, tmp_path, looks):
    script = (SOUND, SOUND, COLLAPSED, SOUND, SOUND, SOUND)
    looks(*script)
    watched(data, tmp_path / "reference", "rollback", epochs=5)
    looks(*script)

    calls = []

    def batch(*numbers):
        calls.append(numbers)
        if len(calls) == 5 * 3 + 2:  # in the second batch after the rollback
            raise InterruptedError

    with pytest.raises(InterruptedError):
        trained(data, tmp_path / "run", on_collapse="rollback", epochs=5, listener=Listener(batch=batch))
    looks(*script[3:])
    result, _ = watched(data, tmp_path / "run", "rollback", epochs=5)
    assert result.story.attempt == 1
    assert same(tmp_path / "run", tmp_path / "reference")


def collapsing(out, action, **changes):
    """FGSM-AT on the digits with a large eps: known to collapse in its seventh epoch."""
    torch.set_num_threads(1)
    said = []
    request = TrainingRequest(
        "fgsm-at", out=out, eps="0.4", device="cpu", on_collapse=action, options={"epochs": "12"} | changes
    )
    return train(request, Listener(say=said.append)), said


def test_fgsm_training_with_a_large_eps_really_collapses_and_is_stopped(tmp_path):
    result, said = collapsing(tmp_path / "run", "stop")
    (words,) = said
    assert "catastrophic overfitting" in words
    assert result.story.ended == "collapsed"
    last = result.story.rows[-1]["val"]
    assert last["fgsm"] - last["pgd-10"] > 20
    assert result.story.sound == len(result.story.rows) - 2
    stored = tensors(tmp_path / "run" / "sound.safetensors")
    assert holds(
        tmp_path / "run" / "last.safetensors",
        {key.removeprefix("model."): value for key, value in stored.items() if key.startswith("model.")},
    )


@pytest.mark.slow
def test_fgsm_training_that_collapses_again_and_again_comes_to_an_end(tmp_path):
    result, said = collapsing(tmp_path / "run", "rollback")
    assert 1 <= result.story.attempt <= MOST_ATTEMPTS
    assert len(said) == result.story.attempt + (result.story.ended is not None)
    assert not any(row["collapsed"] for row in result.story.rows[:-1])


@pytest.mark.slow
def test_fgsm_training_that_collapses_is_carried_on_with_a_warning(tmp_path):
    result, said = collapsing(tmp_path / "run", "warn")
    assert len(result.story.rows) == 12
    assert len(said) == sum(row["collapsed"] for row in result.story.rows) > 0
    best = result.story.best("selection")
    assert not result.story.rows[best]["collapsed"]
    assert json.loads((tmp_path / "run" / "training.json").read_text())["eps"] == 0.4


@pytest.mark.parametrize(
    ("fgsm", "pgd", "expected"),
    [
        (58.4, 50.6, False),  # a little worse than the best epoch, as always at the end
        (66.6, 45.2, True),  # PGD's has fallen while FGSM's has risen
        (49.0, 44.0, False),  # both have fallen together: overfitting of the usual kind
        (62.0, 53.0, False),  # FGSM's has risen, PGD's has not fallen
    ],
)
def test_a_collapse_is_seen_when_it_begins(fgsm, pgd, expected):
    before = [{"fgsm": 57.5, "pgd-10": 53.2}, {"fgsm": 57.9, "pgd-10": 53.5}, {"fgsm": 59.1, "pgd-10": 50.3}]
    assert collapsed({"fgsm": fgsm, "pgd-10": pgd}, before) == expected


@pytest.mark.parametrize(
    ("fgsm", "pgd", "expected"),
    [
        (63.3, 34.4, True),  # R-MGM's 45th epoch on CIFAR-10; GAMA-PGD leaves 18.55
        (63.3, 37.1, False),  # PGD's is a new best
        (56.0, 36.5, False),  # not that far apart
    ],
)
def test_fgsm_alone_rising_is_a_collapse_too(fgsm, pgd, expected):
    before = [{"fgsm": 40.1, "pgd-10": 37.0}, {"fgsm": 45.4, "pgd-10": 28.2}]
    assert collapsed({"fgsm": fgsm, "pgd-10": pgd}, before) == expected


def test_few_images_are_not_believed_too_soon():
    now, best = {"fgsm": 54.9, "pgd-10": 38.1}, {"fgsm": 52.0, "pgd-10": 46.0}
    assert not collapsed(now, [best], images=113)
    assert collapsed(now, [best], images=1000)


def test_a_network_that_resists_nothing_yet_has_not_collapsed():
    assert not collapsed({"fgsm": 14.0, "pgd-10": 0.0}, [{"fgsm": 10.0, "pgd-10": 10.0}])


@pytest.mark.parametrize(("half", "advice"), [(False, r"1e\+10"), (True, r"1e\+10 or --precision fp32")])
def test_training_that_diverges_is_one_sentence(data, tmp_path, half, advice, monkeypatch):
    if half:
        kinds = Precision(torch.float16, torch.float16)
        monkeypatch.setattr("gamagat.engine.training.run.choose_precision", lambda name, device: kinds)
    words = rf"has diverged: the loss of epoch [012] .* rate lower than {advice}$"
    with pytest.raises(RunError, match=words):
        trained(data, tmp_path / "run", rate=1e10, epochs=3)
