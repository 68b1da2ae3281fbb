"""A GPU that has failed is no matter of the network, of the stand-in, or of the next attack."""

from contextlib import contextmanager, nullcontext

import pytest
import torch

from gamagat.engine import runtime
from gamagat.engine.runtime import is_lost, telling_of_loss
from gamagat.errors import DeviceError, ModelError

FAULT = "CUDA error: unspecified launch failure"


@pytest.fixture
def lost(monkeypatch):
    monkeypatch.setattr(runtime, "is_lost", lambda device: True)


@pytest.mark.parametrize("kind", [RuntimeError, ModelError])
def test_it_is_told_in_one_sentence(lost, kind):
    words = rf"^the GPU failed \({FAULT}\), and .*goes on from what is kept$"
    with pytest.raises(DeviceError, match=words), telling_of_loss(torch.device("cpu")):
        raise kind(FAULT)


def test_other_failures_go_by():
    with pytest.raises(RuntimeError, match="unspecified"), telling_of_loss(torch.device("cpu")):
        raise RuntimeError(FAULT)


def test_whether_it_is_lost_is_asked_of_the_gpu(monkeypatch):
    def fails(device):
        raise RuntimeError(FAULT)

    gpu = torch.device("cuda")
    assert not is_lost(gpu)  # none is in use
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: None)
    assert not is_lost(gpu)
    monkeypatch.setattr(torch.cuda, "synchronize", fails)
    assert is_lost(gpu)
    assert is_lost(None)
    assert not is_lost(torch.device("cpu"))


def test_an_evaluation_ends_and_the_same_command_goes_on(lost, command, monkeypatch, tmp_path):
    words = ["evaluate", "digits-cnn", "--data", "digits", "--n", "20", "--attack", "fgsm", "--out", tmp_path]
    with monkeypatch.context() as broken:
        broken.setattr("gamagat.pieces.gradients.logits_of", _fails)
        code, said, err = command(*words)
    assert code == 3
    assert "accuracy" not in said
    assert "the GPU failed (CUDA error" in err
    assert "Traceback" not in err
    assert command(*words)[0] == 0


def test_nothing_that_is_given_back_hides_it(lost, command, monkeypatch, tmp_path):
    """A generator's state cannot be put back there, nor an image looked at."""

    @contextmanager
    def dice(seed: int):
        try:
            yield
        finally:
            raise RuntimeError(FAULT)

    words = ["evaluate", "digits-cnn", "--data", "digits", "--n", "20", "--attack", "fgsm", "--out", tmp_path]
    monkeypatch.setattr("gamagat.engine.evaluate.own_dice", dice)
    code, _, err = command(*words)
    assert code == 3
    assert "the GPU failed (CUDA error" in err
    monkeypatch.setattr("gamagat.engine.evaluate.own_dice", lambda seed: nullcontext())
    monkeypatch.setattr("gamagat.engine.evaluate.check_door", _fails)
    assert command(*words)[0] == 3


TRAIN = [
    "train",
    "gat",
    "--data",
    "digits",
    "--model",
    "digits-cnn",
    "--set",
    "epochs=1",
    "--set",
    "probe=20",
]


@pytest.mark.parametrize(
    "place",
    [
        "gamagat.engine.training.run._trainer",
        "gamagat.defenses.core.Stage.logits",
        "gamagat.engine.training.run.given_back",
    ],
)
def test_a_training_ends_and_the_same_command_goes_on(lost, command, monkeypatch, tmp_path, place):
    with monkeypatch.context() as broken:
        broken.setattr(place, _fails)
        code, _, err = command(*TRAIN, "--out", tmp_path)
    assert code == 3
    assert "the GPU failed (CUDA error" in err
    assert command(*TRAIN, "--out", tmp_path)[0] == 0


def test_a_checkpoint_that_a_lost_gpu_does_not_take_is_not_called_damaged(
    lost, command, monkeypatch, tmp_path
):
    assert command(*TRAIN, "--out", tmp_path)[0] == 0
    with monkeypatch.context() as broken:
        broken.setattr(torch.Tensor, "copy_", _fails)
        code, _, err = command(*TRAIN, "--out", tmp_path)
    assert code == 3
    assert "the GPU failed (CUDA error" in err
    assert "remove" not in err


def _fails(*_):
    raise RuntimeError(FAULT)
