import pytest
import torch
from torch import Tensor, nn

import gamagat
from gamagat.data.core import Dataset, from_tensors
from gamagat.engine import arena
from gamagat.engine.codec import encode_all
from gamagat.engine.evaluate import evaluate
from gamagat.engine.plan import plan_attacks
from gamagat.engine.watch import Onlooker
from gamagat.errors import ConfigError, DataError, ModelError
from gamagat.pieces.threat import LINF, ThreatModel
from helpers import images_like, seeded, tiny_network

THREAT = ThreatModel(LINF, 0.03)
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def model() -> nn.Module:
    return seeded(tiny_network)


@pytest.fixture(scope="module")
def data(model: nn.Module) -> Dataset:
    """Forty images; the network gets all but the first five right."""
    images = images_like(40)
    with torch.no_grad():
        labels = model(images).argmax(1)
    labels[:5] = (labels[:5] + 1) % 5
    return from_tensors(images, name="random", labels=labels, classes=map(str, range(5)))


def run(model, data, *specs, size=16, **options):
    plan = plan_attacks(specs or ["gama-pgd:steps=8"])
    return evaluate(model, data, THREAT, plan, device=CPU, batch_size=size, **options)


def test_images_misclassified_clean_are_lost_already(model, data):
    result = run(model, data, "fgsm")
    assert result.clean.count == 35
    assert result.standing.count <= 35
    assert result.clean.of == result.standing.of == 40


@pytest.mark.parametrize("size", [1, 7, 40, 500])
def test_the_batch_size_does_not_matter(model, data, size):
    double = Doubled(model)
    expected, got = (run(double, data, "gama-pgd:steps=8,restarts=3", size=s) for s in (16, size))
    assert got.attacks[0].curve == expected.attacks[0].curve
    assert (got.attacks[0].forwards, got.attacks[0].backwards) == (
        expected.attacks[0].forwards,
        expected.attacks[0].backwards,
    )


class Doubled(nn.Module):
    """A network whose sums hardly depend on the batch they are made in."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = seeded(tiny_network).double()

    def forward(self, images: Tensor) -> Tensor:
        return self.net(images.double()).float()


def test_images_of_a_run_that_will_be_forgotten_are_not_compressed(model, data, monkeypatch, tmp_path):
    stored: list[int] = []

    def encoded(images):
        stored.append(len(images))
        return encode_all(images)

    monkeypatch.setattr(arena, "encode_all", encoded)
    forgotten = run(model, data, "pgd:steps=8")
    assert sum(stored) == 0
    kept = run(model, data, "pgd:steps=8", out=tmp_path)
    assert sum(stored) == kept.clean.count - kept.standing.count > 0
    assert forgotten.standing == kept.standing


def test_the_worst_case_is_taken_image_by_image(model, data):
    specs = ["fgsm", "gama-pgd:steps=8", "pgd:steps=8"]
    together = run(model, data, *specs)
    alone = [run(model, data, spec) for spec in specs]
    assert [a.standing.count for a in together.attacks] == [one.standing.count for one in alone]
    assert together.standing.count <= min(one.standing.count for one in alone)


def test_the_curve_of_restarts_never_rises_and_begins_at_a_single_run(model, data):
    many, single = run(model, data, "gama-pgd:steps=4,restarts=4"), run(model, data, "gama-pgd:steps=4")
    curve = many.attacks[0].curve
    assert list(curve) == sorted(curve, reverse=True)
    assert curve[0] == single.attacks[0].curve[0]


def test_a_seed_gives_the_same_result_twice_and_another_seed_another_start(model, data):
    same = [run(model, data, "gama-pgd:steps=2", seed=7).attacks[0].forwards for _ in range(2)]
    others = {run(model, data, "gama-pgd:steps=2", seed=seed).attacks[0].forwards for seed in range(8)}
    assert same[0] == same[1]
    assert len(others) > 1


def test_progress_moves_forward_within_a_batch_and_ends_at_the_end(model, data):
    told = []
    run(model, data, "gama-pgd:steps=8", size=40, onlooker=Onlooker(lambda *word: told.append(word)))
    attack = [done for what, done, _ in told if what == "gama-pgd"]
    assert attack[0] == 0
    assert attack == sorted(attack)
    assert attack[-1] == 35
    assert any(0 < done < 35 for done in attack)


def test_a_training_network_is_evaluated_in_eval_mode_and_given_back_training():
    net = seeded(lambda: nn.Sequential(nn.Dropout(0.9), tiny_network()))
    net.train()
    images = images_like(10)
    with torch.no_grad():
        labels = net[1](images).argmax(1)
    result = gamagat.evaluate(net, (images, labels), ["fgsm"], eps=1e-6, onlooker=Onlooker())
    assert result.clean.percent == 100.0
    assert net.training


def test_what_is_wrong_shows_before_anything_runs(model, data):
    with pytest.raises(ConfigError, match="batch size must be at least 1"):
        run(model, data, size=0)
    with pytest.raises(DataError, match="outputs are numbered 0 to 2"):
        run(seeded(lambda: tiny_network(3)), data)
    with pytest.raises(ModelError, match="cannot take images"):
        run(seeded(lambda: tiny_network(5, channels=1)), data)
