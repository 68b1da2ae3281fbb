"""The benchmark of training, small."""

import pytest
import torch

from gamagat.engine.bench.lesson import LessonRequest, make_lesson
from gamagat.engine.bench.rows import OURS, PUBLISHED, TRAINING
from gamagat.engine.bench.train import train_bench
from gamagat.errors import ConfigError, ModelError

SMALL = LessonRequest("digits-cnn", n=100, epochs=2, batch_size=32, device="cpu")


def test_both_loops_have_a_row_on_the_same_images(known_rate):
    torch.manual_seed(3)
    before = torch.get_rng_state()
    bench = train_bench(SMALL, 2)
    assert torch.equal(torch.get_rng_state(), before)
    published, ours = bench.rows
    assert [(row.part, row.who, row.images) for row in bench.rows] == [
        (TRAINING, PUBLISHED, 100), (TRAINING, OURS, 100),
    ]  # fmt: skip
    for row in bench.rows:
        assert row.seconds
        assert row.peak
        assert 0 <= row.accuracy <= 100
        assert row.images_per_second == pytest.approx(100 / row.seconds)
    # Ours makes one clean pass serve the attack and the loss.
    assert 0.8 < ours.flops / published.flops < 1.0
    assert bench.times_published(ours) == pytest.approx(published.seconds / ours.seconds)


def test_rates_and_order_are_those_of_training():
    lesson = make_lesson(SMALL)
    rates, weights = lesson.timetable(1)
    assert len(rates) == len(weights) == len(lesson.parts()) == 4
    assert rates == sorted(rates, reverse=True)  # the second half of the triangle falls
    order, keys = lesson.order(0)
    assert sorted(order.tolist()) == list(range(100))
    assert len(keys) == 100


def test_both_begin_with_the_same_weights():
    one, other = (make_lesson(SMALL).model.state_dict() for _ in range(2))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_bad_input_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="at least one epoch, got 0"):
        make_lesson(LessonRequest("digits-cnn", epochs=0, device="cpu"))
    with pytest.raises(ModelError, match="only a network made from a name can be trained"):
        make_lesson(LessonRequest(str(tmp_path / "net.onnx"), device="cpu"))
