"""What is set aside for a file stays as it was and lies as files want it."""

import torch
from safetensors.torch import load_file

from gamagat.engine.training.checkpoint import save, set_aside


def test_what_is_set_aside_does_not_follow_the_training(tmp_path):
    weights = torch.ones(3)
    aside = set_aside({"weights": weights})
    weights.zero_()
    save(tmp_path / "file", aside())
    assert load_file(tmp_path / "file")["weights"].equal(torch.ones(3))


def test_layouts_and_shared_tensors_can_be_written(tmp_path):
    turned = torch.rand(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    save(tmp_path / "file", set_aside({"one": turned, "same": turned, "part": turned[:, 1]})())
    found = load_file(tmp_path / "file")
    assert found["one"].equal(turned)
    assert found["same"].equal(turned)
    assert found["part"].equal(turned[:, 1])
