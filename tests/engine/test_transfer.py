"""Images made on one network and judged on others."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

import gamagat.engine.transfer
from gamagat.attacks.combine import thorough
from gamagat.attacks.core import ATTACKS
from gamagat.data.core import from_tensors
from gamagat.engine.plan import plan_attacks
from gamagat.engine.quick.network import Quick
from gamagat.engine.transfer import run_transfer
from gamagat.engine.transfer_request import TransferRequest, transfer
from gamagat.engine.watch import Onlooker
from gamagat.errors import DataError, GamagatError, ModelError
from gamagat.models.core import BUNDLED
from gamagat.pieces.noise import Noise
from gamagat.pieces.threat import LINF, ThreatModel
from gamagat.reports.transfer import transfer_table
from helpers import images_like, seeded, tiny_network

THREAT = ThreatModel(LINF, 0.05)
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def case():
    networks = {
        "source": seeded(tiny_network),
        "same": seeded(tiny_network),
        "other": seeded(tiny_network, 9),
    }
    images = images_like(30)
    with torch.no_grad():
        labels = networks["source"](images).argmax(1)
    return networks, from_tensors(images, name="random", labels=labels, classes=map(str, range(5)))


def run(case, *specs, size=7, **options):
    networks, data = case
    return run_transfer(networks, data, THREAT, plan_attacks(specs), CPU, size, **options)


def test_a_network_equal_to_the_source_falls_with_it(case):
    result = run(case, "fgsm", "pgd:steps=7")
    for left in result.attacks.values():
        assert left["same"] == left["source"]
    assert result.attacks["pgd:steps=7"]["source"].count < result.clean["source"].count


def test_the_figures_are_those_of_images_made_by_hand(case):
    networks, data = case
    x, y = data.batch(torch.arange(30), CPU)
    result = run(case, "fgsm")
    pixels = x.clone().requires_grad_()
    (grad,) = torch.autograd.grad(nn.functional.cross_entropy(networks["source"](pixels), y), pixels)
    images = (x + THREAT.eps * grad.sign()).clamp(0, 1)
    for name, model in networks.items():
        right = (model(x).argmax(1) == y) & (model(images).argmax(1) == y)
        assert result.attacks["fgsm"][name].count == int(right.sum())
        assert result.clean[name].count == int((model(x).argmax(1) == y).sum())


def test_every_image_goes_to_the_last_iterate(case):
    networks, data = case
    x, y = data.batch(torch.arange(30), CPU)
    early = ATTACKS.make("pgd", steps=9)
    late = thorough(early)(networks["source"], x, y, THREAT, Noise.for_images(data.ids))
    assert (late.backwards == 9).all()
    assert (early(networks["source"], x, y, THREAT, Noise.for_images(data.ids)).backwards < 9).any()
    right = (networks["other"](x).argmax(1) == y) & (networks["other"](late.images).argmax(1) == y)
    assert run(case, "pgd:steps=9").attacks["pgd:steps=9"]["other"].count == int(right.sum())


def test_the_batch_size_does_not_matter(case):
    assert run(case, "pgd:steps=5,restarts=2", size=4) == run(case, "pgd:steps=5,restarts=2", size=30)


class StandIn(nn.Module):
    """Another network, and how many images it was asked about; it may fail on the way."""

    def __init__(self, seed: int = 0, fails: Exception | None = None, most: int = 0) -> None:
        super().__init__()
        self.inner, self.asked, self.fails, self.most = seeded(tiny_network, seed), 0, fails, most

    def forward(self, images):
        self.asked += len(images)
        if self.fails and len(images) > self.most:
            raise self.fails
        return self.inner(images)


@pytest.fixture
def stand_in(monkeypatch):
    """Lets transfers see this one in place of their source, if attacks may have any."""

    def use(model):
        def quickened(source, precision, *_):
            return None if precision == "fp32" else Quick(model, "stand-in of a test")

        monkeypatch.setattr(gamagat.engine.transfer, "quickened", quickened)
        return model

    return use


def test_attacks_see_a_stand_in_and_judges_the_networks_themselves(case, stand_in):
    networks, data = case
    other = stand_in(StandIn(seed=5))
    x, y = data.batch(torch.arange(30), CPU)
    attack = thorough(ATTACKS.make("pgd", steps=7))
    images = attack(other.inner, x, y, THREAT, Noise.for_images(data.ids)).images
    left = run(case, "pgd:steps=7").attacks["pgd:steps=7"]
    for name, model in networks.items():
        right = (model(x).argmax(1) == y) & (model(images).argmax(1) == y)
        assert left[name].count == int(right.sum())
    plain = run(case, "pgd:steps=7", precision="fp32").attacks["pgd:steps=7"]
    assert plain["source"].count < left["source"].count  # its own images fool it more often


def test_an_image_leaves_early_only_by_the_word_of_the_judge(case, stand_in):
    _, data = case
    other = stand_in(StandIn(seed=5))
    x, y = data.batch(torch.arange(30), CPU)
    wrong = int((other.inner(x).argmax(1) != y).sum())
    assert wrong > 10  # these would leave at the first look
    result = run(case, "square:queries=20").attacks["square:queries=20"]
    stay = result["source"].count
    assert other.asked >= 20 * stay


def test_a_stand_in_that_fails_is_done_without_and_said(case, stand_in):
    other, words = stand_in(StandIn(fails=RuntimeError("no such\n  kernel"))), []
    left = run(case, "fgsm", "pgd:steps=3", onlooker=Onlooker(say=words.append))
    assert other.asked == 7  # one batch
    assert words == [
        "stand-in of a test: the network failed on images of shape (7, 3, 8, 8): no such kernel; attacks use "
        "the network as it is from here on"
    ]
    assert left == run(case, "fgsm", "pgd:steps=3", precision="fp32")


def test_where_memory_does_not_suffice_it_goes_on_at_half_the_width(case, stand_in):
    stand_in(StandIn(fails=torch.OutOfMemoryError("too much"), most=3))
    words = []
    left = run(case, "pgd:steps=3", onlooker=Onlooker(say=words.append))
    assert words == ["out of memory with 7 images at a time; going on with 3"]
    assert left == run(case, "pgd:steps=3", precision="fp32")
    stand_in(StandIn(fails=torch.OutOfMemoryError("too much")))
    with pytest.raises(ModelError, match="memory does not suffice for a single image"):
        run(case, "pgd:steps=3")


def test_a_source_that_fails_says_so(case):
    class Broken(nn.Module):
        def forward(self, images):
            if torch.is_grad_enabled():
                raise RuntimeError("no such kernel")
            return images.flatten(1)[:, :5]

    networks, data = case
    with pytest.raises(ModelError, match="no such kernel"):
        run(({"source": Broken(), "same": networks["same"]}, data), "fgsm")


def test_a_real_stand_in_makes_the_same_images_but_for_rounding(monkeypatch):
    made, quickened = [], gamagat.engine.transfer.quickened
    monkeypatch.setattr(
        gamagat.engine.transfer, "quickened", lambda *words: made.append(quickened(*words)) or made[-1]
    )
    request = TransferRequest("digits-cnn", ("digits-cnn",), eps="0.15", attacks=("pgd:steps=7",))
    quick, plain = (transfer(replace(request, precision=kind)) for kind in ("auto", "fp32"))
    assert [stand_in is None for stand_in in made] == [False, True]
    (quick_left,), (plain_left,) = (list(result.attacks.values()) for result in (quick, plain))
    for name, share in plain_left.items():
        assert abs(quick_left[name].count - share.count) <= 2
        assert share.count < plain.clean[name].count


@pytest.mark.parametrize(("place", "words"), [("source", "^source source: "), ("other", "^target other: ")])
def test_a_network_that_does_not_fit_is_named(case, place, words):
    networks, data = case
    grey = seeded(lambda: tiny_network(channels=1))
    with pytest.raises(ModelError, match=f"{words}the network cannot take images of shape"):
        run((networks | {place: grey}, data), "fgsm")
    few = seeded(lambda: tiny_network(classes=2))
    with pytest.raises(DataError, match=f"{words}labels run from 0 to"):
        run((networks | {place: few}, data), "fgsm")


def test_a_target_that_fails_at_adversarial_images_is_named(case):
    networks, data = case

    class Choosy(nn.Module):
        def forward(self, images):
            if not torch.isin(images, data.batch(torch.arange(30), CPU)[0]).all():
                raise RuntimeError("never seen before")
            return images.flatten(1)[:, :5]

    with pytest.raises(ModelError, match=r"^target other: .*never seen before"):
        run((networks | {"other": Choosy()}, data), "fgsm")


def test_more_tries_leave_no_more(case):
    once, thrice = (
        next(iter(run(case, f"pgd:steps=5,restarts={times}").attacks.values())) for times in (1, 3)
    )
    assert all(thrice[name].count <= once[name].count for name in once)


def test_from_words_to_a_table():
    request = TransferRequest(
        source="digits-cnn",
        targets=("digits-cnn", "digits-cnn"),
        target_weights=(BUNDLED / "digits-cnn.safetensors",) * 2,
        n=20,
        attacks=("fgsm",),
    )
    result = transfer(request)
    assert list(result.clean) == ["digits-cnn (source)", "digits-cnn #1", "digits-cnn #2"]
    assert result.as_json()["n"] == 20
    assert json.loads(json.dumps(result.as_json()))["attacks"][0]["name"] == "fgsm"
    assert transfer_table(result).row_count == 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"targets": ()}, "--target"),
        ({"target_weights": (BUNDLED / "digits-cnn.safetensors",)}, "1 times for 2 targets"),
        ({"attacks": ("cw",)}, "l2"),
        ({"attacks": ("nothing",)}, "nothing"),
        ({"targets": ("resnet18",)}, "^target resnet18: .*with --target-weights FILE"),
        ({"source": "resnet18"}, "^source resnet18: .*with --source-weights FILE"),
        ({"targets": ("digits-cnn", "digits-cn")}, "^target digits-cn: unknown model"),
        ({"source_weights": Path("gone.pt")}, "^source digits-cnn: weights file gone.pt does not exist"),
        ({"target_weights": (Path("gone.pt"), None)}, "^target digits-cnn #1: weights file gone.pt"),
        ({"precision": "fp8"}, "precision must be one of auto, fp32, tf32, fp16, got 'fp8'"),
        ({"precision": "fp16", "device": "cpu"}, "precision fp16 needs a GPU"),
    ],
)
def test_bad_requests_are_one_sentence(options, words):
    given = {"source": "digits-cnn", "targets": ("digits-cnn", "digits-cnn"), "n": 5} | options
    with pytest.raises(GamagatError, match=words):
        transfer(TransferRequest(**given))
