"""The benchmark of attacks, small."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from gamagat.engine.bench.attack import attack_bench
from gamagat.engine.bench.limit import flops_of
from gamagat.engine.bench.peers import Peer
from gamagat.engine.bench.rows import OURS, PEER, PER_GRADIENT, PUBLISHED, WHOLE
from gamagat.engine.bench.scene import scene
from gamagat.engine.request import EvaluationRequest
from gamagat.errors import ConfigError, ModelError
from gamagat.models.core import load_model

N, STEPS = 40, 4
REQUEST = EvaluationRequest("digits-cnn", data="digits", n=N, device="cpu", batch_size=16)


def idle(package, model, budget):
    """A peer that looks once and gives the images back."""
    return lambda x, y: (model(x), x)[1]


def beyond(package, model, budget):
    """A peer that cheats: noise far outside the ball."""
    return lambda x, y: 1 - x


def failing(package, model, budget):
    raise RuntimeError("what a pity")


PEERS = (
    Peer("idle", ("json",), idle),
    Peer("beyond", ("json",), beyond),
    Peer("failing", ("json",), failing),
    Peer("absent", ("no_such_peer",), idle),
)


@pytest.fixture
def bench(known_rate):
    return attack_bench(REQUEST, STEPS, rounds=2, peers=PEERS)


def test_everyone_has_a_row_in_each_comparison(bench):
    rows = [(row.part, row.who, row.what) for row in bench.rows]
    peers = [(PEER, peer.name) for peer in PEERS]
    assert rows == [
        (PER_GRADIENT, PUBLISHED, "published-style GAMA-PGD"),
        *((PER_GRADIENT, *peer) for peer in peers),
        (PER_GRADIENT, OURS, "our GAMA-PGD, fp32"),
        (PER_GRADIENT, OURS, "our GAMA-PGD, auto"),
        (WHOLE, PUBLISHED, "published-style GAMA-PGD"),
        *((WHOLE, *peer) for peer in peers),
        (WHOLE, OURS, "our GAMA-PGD, fp32"),
        (WHOLE, OURS, "our GAMA-PGD, auto"),
    ]


def test_passes_are_counted_and_weighed(bench, known_rate):
    flops = flops_of(load_model("digits-cnn", classes=10, channels=1), torch.rand(1, 1, 8, 8))
    rows = {(row.part, row.what): row for row in bench.rows}
    published, ours = (
        rows[PER_GRADIENT, what] for what in ("published-style GAMA-PGD", "our GAMA-PGD, fp32")
    )
    assert published.gradients == ours.gradients == N * STEPS
    assert published.flops == flops.of(2 * N * STEPS, N * STEPS)
    assert ours.flops == flops.of(N * (STEPS + 1), N * STEPS)  # one look at the reference
    assert ours.percent_of_limit == pytest.approx(100 * ours.flops / ours.seconds / known_rate)
    whole = rows[WHOLE, "our GAMA-PGD, fp32"]
    assert 0 < whole.gradients < N * STEPS  # fallen images are dropped
    assert 0 < whole.attack_seconds < whole.seconds
    assert rows[WHOLE, "idle"].seconds > rows[PER_GRADIENT, "idle"].seconds
    assert all(row.peak and row.cpu_seconds for row in bench.rows if row.seconds)


def test_one_judge_says_what_is_left(bench):
    left = {(row.part, row.what): row.accuracy for row in bench.rows}
    with scene(REQUEST, STEPS) as place:
        clean = 100 * int(place.right.sum()) / N
    assert left[WHOLE, "idle"] == left[PER_GRADIENT, "idle"] == clean
    assert left[WHOLE, "beyond"] == clean  # what lies outside the ball fools nobody
    assert left[WHOLE, "published-style GAMA-PGD"] < clean
    assert left[WHOLE, "our GAMA-PGD, fp32"] < clean


def test_a_peer_that_fails_or_is_missing_is_a_row_in_words(bench):
    notes = {row.what: row.note for row in bench.rows if row.seconds is None}
    assert notes == {
        "failing": "RuntimeError: what a pity",
        "absent": "no_such_peer is not installed; pip install 'gamagat[bench]'",
    }


def test_random_images_say_nothing_of_accuracy(known_rate):
    request = EvaluationRequest("resnet18", n=2, device="cpu")
    found = attack_bench(request, 1, rounds=1, peers=(), blind=True)
    assert [row.part for row in found.rows] == [PER_GRADIENT] * 3
    assert all(row.accuracy is None and row.seconds for row in found.rows)
    assert "throughput only" in found.facts["images"]


def test_the_callers_random_state_stays_as_it_was(known_rate):
    torch.manual_seed(5)
    before, numpys = torch.get_rng_state(), np.random.get_state()[1].tolist()
    attack_bench(REQUEST, 1, rounds=1, peers=())
    assert torch.equal(torch.get_rng_state(), before)
    assert np.random.get_state()[1].tolist() == numpys


def test_a_network_in_another_precision_is_not_compared(tmp_path, monkeypatch):
    (tmp_path / "wide.py").write_text(
        "import gamagat\ndef build(): return gamagat.load_model('digits-cnn').double()\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    request = EvaluationRequest("wide:build", data="digits", n=20, device="cpu")
    words = "computes in float64, and packages are compared in float32"
    with pytest.raises(ModelError, match=words), scene(request, steps=2):
        pass


def test_bad_input_is_refused(known_rate):
    with pytest.raises(ConfigError, match="at least one step, got 0"):
        attack_bench(REQUEST, 0)
    with pytest.raises(ModelError, match="--weights FILE"):
        attack_bench(EvaluationRequest("resnet18", data="digits", device="cpu"), 1)


@pytest.mark.parametrize(("count", "size", "kept"), [(40, 64, 40), (40, 16, 24), (32, 16, 16)])
def test_a_warm_up_meets_every_shape(count, size, kept):
    with scene(REQUEST, STEPS) as place:
        fewer = replace(place, x=place.x[:count], y=place.y[:count], data=place.data.head(count))
        short = fewer.short(size)
    assert (len(short.x), len(short.data), short.steps) == (kept, kept, 2)
    shapes = {len(part) for part in torch.split(short.x, size)}
    assert shapes == {len(part) for part in torch.split(torch.zeros(count), size)}
