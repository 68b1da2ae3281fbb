import pytest
import torch

from gamagat.pieces.schedules import Timetable, constant, cosine, milestone, ramp_down, stepped, triangle


def test_ramp_down_reaches_zero_at_its_end_and_stays():
    weight = ramp_down(50.0, over=25)
    assert [weight(t) for t in (0, 5, 24, 25, 26, 99)] == [50.0, 40.0, pytest.approx(2.0), 0.0, 0.0, 0.0]


def test_stepped_drops_at_the_milestone_and_not_after_it():
    rate = stepped(2.0, at=(60, 85), factor=0.1)
    assert [round(rate(t), 4) for t in (0, 59, 60, 84, 85, 99)] == [2.0, 2.0, 0.2, 0.2, 0.02, 0.02]


def test_stepped_without_milestones_is_constant():
    assert (
        [stepped(0.5, at=(), factor=0.2)(t) for t in (0, 99)]
        == [0.5, 0.5]
        == [constant(0.5)(t) for t in (0, 99)]
    )


def test_cosine_starts_halves_and_ends():
    wave = cosine(1.0, 0.01, over=100)
    assert [wave(t) for t in (0, 50, 100, 150)] == pytest.approx([1.0, 0.505, 0.01, 0.01])


@pytest.mark.parametrize("at", [0.25, 0.5, 0.999])
def test_triangle_rises_to_its_peak_and_falls_to_zero(at):
    rate = triangle(0.2, at, 1.0)
    assert [rate(t) for t in (0.0, at / 2, at)] == pytest.approx([0.0, 0.1, 0.2])
    assert [rate(t) for t in ((1 + at) / 2, 1.0, 1.5)] == pytest.approx([0.1, 0.0, 0.0])
    assert max(rate(t / 1000) for t in range(1001)) <= 0.2


def test_a_triangle_with_its_peak_at_the_beginning_only_falls():
    rate = triangle(0.2, 0.0, 30.0)
    assert [rate(t) for t in (0, 15, 30, 31)] == pytest.approx([0.2, 0.1, 0.0, 0.0])


def test_a_triangle_is_never_negative():
    assert triangle(0.2, 0.5, 1.0)(-0.1) == 0.0


@pytest.mark.parametrize(
    ("place", "steps", "moment"),
    [(0.25, 100, 25), (0.6, 50, 30), (0.85, 10, 9), (1, 10, 10), (2, 10, 2), (60, 100, 60), (0, 10, 0)],
)
def test_a_milestone_up_to_one_is_a_share_of_the_run(place, steps, moment):
    assert milestone(place, steps) == moment


def test_a_timetable_reads_each_image_at_its_own_step():
    rate = stepped(2.0, at=(1, 3), factor=0.5)
    times = Timetable(4, torch.zeros(1, dtype=torch.float64))
    assert times.read(rate, torch.tensor([3, 0, 1])).tolist() == [0.5, 2.0, 1.0]
