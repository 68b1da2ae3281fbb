"""Rates and ratios follow from seconds."""

import pytest

from gamagat.engine.bench.rows import (
    OURS,
    PEER,
    PER_GRADIENT,
    PUBLISHED,
    WHOLE,
    Bench,
    Row,
    quickest,
    summary,
)  # fmt: skip


def row(part, who, what, seconds, **more):
    return Row(part, who, what, 100, seconds, **{"gradients": 1000.0, "flops": 5e9, "limit": 1e10} | more)


@pytest.fixture
def bench():
    return Bench(
        "net on data",
        {},
        (
            row(PER_GRADIENT, PUBLISHED, "published", 4.0, accuracy=50.0),
            row(PER_GRADIENT, PEER, "half the work", 1.5, accuracy=51.0, gradients=500.0),
            row(PER_GRADIENT, PEER, "all of it", 2.0, accuracy=52.0),
            row(PER_GRADIENT, PEER, "absent", None, note="is not installed"),
            row(PER_GRADIENT, OURS, "ours", 1.0, accuracy=49.0),
            row(WHOLE, PUBLISHED, "published", 5.0, accuracy=50.0),
            row(WHOLE, OURS, "ours", 0.5, accuracy=49.5, attack_seconds=0.25),
        ),
    )


def test_a_row_says_what_its_seconds_say():
    one = row(WHOLE, OURS, "ours", 2.0)
    assert (one.images_per_second, one.gradients_per_second) == (50.0, 500.0)
    assert one.percent_of_limit == pytest.approx(100 * 5e9 / 2.0 / 1e10)


def test_a_row_without_seconds_says_nothing():
    one = row(WHOLE, PEER, "absent", None)
    assert (one.images_per_second, one.gradients_per_second, one.percent_of_limit) == (None, None, None)
    assert one.faster_than(row(WHOLE, PUBLISHED, "published", 1.0)) is None


def test_of_two_rounds_the_faster_counts_with_the_higher_peak():
    slow, fast = (row(WHOLE, OURS, "ours", seconds, peak=peak) for seconds, peak in ((2.0, 7), (1.0, 5)))
    for best in (slow.fastest(fast), fast.fastest(slow)):
        assert (best.seconds, best.peak) == (1.0, 7)
    assert fast.fastest(None) is fast


def test_ratios_are_within_a_comparison(bench):
    times = [bench.times_published(one) for one in bench.rows]
    assert times == [1.0, pytest.approx(4 / 1.5), 2.0, None, 4.0, 1.0, 10.0]


def test_the_best_peer_is_the_one_with_the_most_gradients_a_second(bench):
    assert quickest(bench.of(PER_GRADIENT, PEER)).what == "all of it"
    assert quickest([]) is None


def test_the_summary_says_the_ratios_in_words(bench):
    assert summary(bench) == [
        f"{PER_GRADIENT}: ours is 4.00 times the published loop (49.00 % left, there 50.00 %)",
        f"{PER_GRADIENT}: ours is 2.00 times the best peer, all of it (49.00 % left, there 52.00 %)",
        f"{WHOLE}: ours is 10.00 times the published loop (49.50 % left, there 50.00 %)",
        f"{WHOLE}: of the 0.5 s of ours the attack and its judge take 0.25; the published loop alone takes "
        "16.00 times that",
    ]


def test_json_has_what_the_rows_say(bench):
    content = bench.as_json()
    assert content["rows"][4]["times_published"] == 4.0
    assert content["rows"][3]["seconds"] is None
    assert content["rows"][3]["note"] == "is not installed"
    assert content["summary"] == summary(bench)
