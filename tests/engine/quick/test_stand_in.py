"""Evaluations in which attacks see a stand-in: the verdicts are those of the network itself."""

import gc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from quick.nets import Around, usual
from small_run import RowByRow, rows, small_run
from torch import Tensor, nn

import gamagat
from gamagat.attacks.combine import delicate
from gamagat.attacks.core import ATTACKS
from gamagat.attacks.nearest import fools, looked
from gamagat.attacks.network import Network, OutOfTime
from gamagat.data.core import Dataset, from_tensors
from gamagat.engine import evaluate as module
from gamagat.engine.answers import COUNT
from gamagat.engine.arena import Arena
from gamagat.engine.evaluate import INTERRUPTED, TIME_OVER, evaluate
from gamagat.engine.manifest import Manifest
from gamagat.engine.plan import plan_attacks
from gamagat.engine.quick import network
from gamagat.engine.quick.network import Quick
from gamagat.engine.run import Run, read_run
from gamagat.engine.watch import Onlooker
from gamagat.errors import DataError, ModelError
from gamagat.pieces.threat import L2, LINF, ThreatModel
from helpers import images_like

CPU = torch.device("cpu")
FOLDED = "fp32, batch norms folded, channels last"
Verdicts = tuple[list[Any], ...]


@pytest.fixture(scope="module")
def model() -> nn.Module:
    return usual()


@pytest.fixture(scope="module")
def data(model: nn.Module) -> Dataset:
    images = images_like(30)
    with torch.no_grad():
        return from_tensors(images, name="random", labels=model(images).argmax(1), classes=map(str, range(5)))


def run(model: Any, data: Dataset, folder: Path, *specs: str, **options: Any) -> Run:
    """An evaluation, and what it wrote down."""
    threat = options.pop("threat", ThreatModel(LINF, 0.02))
    options = {"device": CPU, "batch_size": 8} | options
    evaluate(model, data, threat, plan_attacks(specs), out=folder, **options)
    return read_run(folder)


def verdicts(run: Run, *columns: str) -> dict[str, Verdicts]:
    """Some columns of all entries; nothing else is to be compared, since costs differ."""
    columns = columns or ("id", "fooled", "prediction", "distance", "step")
    return {entry: tuple(table[name].tolist() for name in columns) for entry, table in run.entries.items()}


def seen_by_attacks(monkeypatch: pytest.MonkeyPatch, stand_in: Any, half: bool = False) -> None:
    """Let attacks see this in place of the network, untried."""
    monkeypatch.setattr(module, "remembered", lambda *_: Quick(stand_in, "a stand-in", half))


SPECS = (
    "pgd:steps=6,restarts=2",
    "gama-pgd:steps=6",
    "apgd-ce:steps=6",
    "square:queries=20",
    "gama-mt:steps=4,top=2",
)


@pytest.mark.parametrize("half", [False, True])
def test_a_stand_in_that_calls_everything_fooled_is_not_believed(monkeypatch, tmp_path, model, data, half):
    honest = run(model, data, tmp_path / "honest", *SPECS, precision="fp32")
    fell = {entry: int((table["fooled"] == 1).sum()) for entry, table in honest.entries.items()}
    assert 0 < fell["pgd#1"] < 30
    seen_by_attacks(monkeypatch, lambda images: -model(images), half)
    lied = run(model, data, tmp_path / "lied", *SPECS)
    assert lied.manifest.made["attacks in"] == "a stand-in"
    assert verdicts(lied) == verdicts(honest)


class Tiring:
    """The network, until it has been asked a number of times."""

    def __init__(self, model: nn.Module, times: int, error: Exception) -> None:
        self.model, self.left, self.error = model, times, error

    def __call__(self, images: Tensor) -> Tensor:
        self.left -= 1
        if self.left < 0:
            raise self.error
        return self.model(images)


@pytest.mark.parametrize("times", [0, 9])
def test_a_stand_in_that_fails_on_the_way_is_done_without(monkeypatch, tmp_path, model, data, times):
    honest = run(model, data, tmp_path / "honest", *SPECS, precision="fp32")
    seen_by_attacks(monkeypatch, Tiring(model, times, RuntimeError("no way\nback")))
    said: list[str] = []
    tired = run(model, data, tmp_path / "tired", *SPECS, onlooker=Onlooker(say=said.append))
    assert verdicts(tired) == verdicts(honest)
    assert tired.manifest.made["attacks in"] == "a stand-in, then the network as it is"
    (words,) = said
    assert words.startswith("a stand-in: the network failed on images of shape (8, 3, 8, 8): no way back; ")
    assert words.endswith("; attacks use the network as it is from here on")


class CancelledError(Exception):
    """What somebody who looks on may raise."""


@pytest.mark.parametrize("stop", [OutOfTime, CancelledError])
def test_who_stops_an_attack_is_not_taken_for_the_stand_in(monkeypatch, tmp_path, model, data, stop):
    told: list[str] = []

    def progress(what: str, done: float, total: int) -> None:
        told.append(what)
        if told.count("pgd#1") == 3:
            raise stop

    seen_by_attacks(monkeypatch, model)
    said: list[str] = []
    onlooker = Onlooker(progress, said.append)
    if stop is CancelledError:
        with pytest.raises(CancelledError):
            run(model, data, tmp_path / "run", *SPECS, onlooker=onlooker)
    else:
        run(model, data, tmp_path / "run", *SPECS, onlooker=onlooker)
    assert said == []
    assert not {done.entry for done in read_run(tmp_path / "run").finished} & {"gama-pgd"}


def test_what_attacks_computed_in_stays_written_down(monkeypatch, tmp_path, model, data):
    asked = []

    def stopping(net: nn.Module, images: Tensor) -> Tensor:
        asked.append(images.requires_grad)
        if images.requires_grad and sum(asked) == 4:
            raise KeyboardInterrupt
        return net(images)

    network, folder = Around(stopping, model), tmp_path / "run"
    with monkeypatch.context() as patch:
        seen_by_attacks(patch, Tiring(model, 0, RuntimeError("not today")))
        assert "pgd#1" not in {done.entry for done in run(network, data, folder, *SPECS).finished}
    words = "a stand-in, then the network as it is"
    assert read_run(folder).manifest.made["attacks in"] == words
    with monkeypatch.context() as patch:
        seen_by_attacks(patch, model)
        assert verdicts(run(network, data, folder, *SPECS)) == verdicts(
            run(model, data, tmp_path / "a", *SPECS)
        )
    assert read_run(folder).manifest.made["attacks in"] == words


def test_what_the_network_cannot_do_either_is_an_error(monkeypatch, tmp_path, model, data):
    seen_by_attacks(monkeypatch, Tiring(model, 0, RuntimeError("not today")))

    def broken(net: nn.Module, images: Tensor) -> Tensor:
        if images.requires_grad:
            raise RuntimeError("nor tomorrow")
        return net(images)

    with pytest.raises(ModelError, match="nor tomorrow"):
        run(Around(broken, model), data, tmp_path / "run", "pgd:steps=2")


def test_an_error_on_purpose_is_not_blamed_on_the_stand_in(monkeypatch, tmp_path, model, data):
    seen_by_attacks(monkeypatch, Tiring(model, 0, DataError("the images are gone")))
    with pytest.raises(DataError, match="the images are gone"):
        run(model, data, tmp_path / "run", "pgd:steps=2")


def test_what_the_lie_cost_is_counted(monkeypatch, tmp_path, model, data):
    passed = []

    def counted(net: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        def call(images: Tensor) -> Tensor:
            passed.append(len(images) * images.requires_grad)
            return net(images)

        return call

    honest = run(counted(model), data, tmp_path / "honest", "pgd:steps=6", precision="fp32")
    assert honest.table("pgd")["backwards"].sum() == sum(passed)
    passed.clear()
    seen_by_attacks(monkeypatch, counted(lambda images: -model(images)))
    lied = run(counted(model), data, tmp_path / "lied", "pgd:steps=6")
    assert lied.table("pgd")["backwards"].sum() == sum(passed)
    more = lied.table("pgd")["backwards"] - honest.table("pgd")["backwards"]
    # One reading of the stand-in each; who falls at the start has paid for that reading only.
    assert set(more.tolist()) <= {0, 1}
    assert more.sum() == 30 - (honest.table("pgd")["step"] == 0).sum()


@pytest.mark.parametrize("name", ["fab", "fab-t", "cw", "ddn", "autoattack"])
def test_attacks_that_look_for_the_boundary_are_delicate(name):
    assert delicate(ATTACKS.make(name))


@pytest.mark.parametrize("name", ["pgd", "gama-pgd", "gama-mt", "apgd-ce", "square", "fgsm", "spsa"])
def test_other_attacks_are_not(name):
    assert not delicate(ATTACKS.make(name))


DELICATE = ("fab:steps=4", "cw:steps=20,searches=1", "ddn:steps=10")


@pytest.mark.parametrize("spec", DELICATE)
def test_a_delicate_attack_asks_the_judge(spec, monkeypatch, tmp_path, model, data):
    judged, threat = [], ThreatModel(L2, 0.3)

    def judge(images: Tensor) -> Tensor:
        judged.append(len(images))
        return model(images)

    exact = run(model, data, tmp_path / "exact", spec, precision="fp32", threat=threat)
    seen_by_attacks(monkeypatch, model)
    asked = run(judge, data, tmp_path / "asked", spec, threat=threat)
    assert verdicts(asked) == verdicts(exact)
    assert verdicts(asked, "forwards", "backwards") == verdicts(exact, "forwards", "backwards")
    assert len(judged) > 10  # more than the door, the clean images and the last word


@pytest.mark.parametrize("spec", DELICATE)
def test_a_delicate_attack_believes_the_judge_alone(spec, monkeypatch, tmp_path, model, data):
    seen_by_attacks(monkeypatch, lambda images: -model(images))
    table = run(model, data, tmp_path / "run", spec, threat=ThreatModel(L2, 0.3)).entries[spec.split(":")[0]]
    assert bool((table["fooled"] == 1)[table["step"] >= 0].all())


@pytest.mark.parametrize("spec", DELICATE)
def test_of_a_stand_in_whose_error_is_known_the_judge_is_asked_where_it_matters(
    spec, monkeypatch, tmp_path, model, data
):
    """As near as with the network itself, with a fraction of the judge's looks."""
    judged, threat = [], ThreatModel(L2, 0.3)

    def judge(images: Tensor) -> Tensor:
        judged.append(len(images))
        return model(images)

    exact = run(judge, data, tmp_path / "exact", spec, precision="fp32", threat=threat)
    many = sum(judged)
    judged.clear()
    off = torch.tensor([0.01, -0.01, 0.01, -0.01, 0.01])
    rough = Quick(lambda images: model(images) + off, "a stand-in", error=0.01)
    monkeypatch.setattr(module, "remembered", lambda *_: rough)
    near = run(judge, data, tmp_path / "near", spec, threat=threat)
    first = 16 + 1 + 2 * 2 * COUNT  # the check at the door, also of one image, and what it answers twice
    assert sum(judged) - first < 0.6 * (many - first)
    name = spec.split(":")[0]
    ours, theirs = near.entries[name], exact.entries[name]
    assert bool((ours["fooled"] == 1)[ours["step"] >= 0].all())
    assert abs(float((ours["distance"] - theirs["distance"]).mean())) < 0.05 * theirs["distance"].mean()


def test_the_judge_has_the_last_word_where_it_matters():
    ahead = torch.tensor([0.3, 0.05, 0.05, -0.05, -0.3])
    images = torch.stack([torch.zeros(5), ahead], 1).view(5, 1, 1, 2)
    y, matters = torch.zeros(5, dtype=torch.int64), torch.tensor([True, False, True, True, True])
    asked: list[int] = []

    def look(_: Any, some: Tensor) -> Tensor:
        asked.append(len(some))
        return (some.flatten(1)[:, 1] < 0).long()  # the opposite

    network = Network(lambda some: some.flatten(1), 8, look=look, slack=0.1)
    fooled, passes = looked(network, images, y, matters)
    assert fooled.tolist() == [True, True, False, True, False]
    assert passes.tolist() == [1, 1, 2, 2, 1]
    assert fools(network, images, y).tolist() == [False, False, False, True, True]
    assert asked == [2, 5]


def arena(model: Any, data: Dataset, half: bool) -> Arena:
    return Arena(model, data, ThreatModel(LINF, 0.02), CPU, 8, quick=Quick(model, "a stand-in", half))


def test_who_sees_a_stand_in_and_who_asks(model, data):
    fab, pgd = ATTACKS.make("fab"), ATTACKS.make("pgd")
    single, half = arena(model, data, False), arena(model, data, True)
    for seen, asks in (
        (single.stand_in(fab), True),
        (half.stand_in(fab), True),
        (single.stand_in(pgd), False),
        (half.stand_in(pgd), False),
    ):
        assert seen is not None
        assert seen.asks == asks
    assert Arena(model, data, single.threat, CPU, 8).stand_in(pgd) is None


@pytest.mark.parametrize(
    "spec",
    [
        "gama-pgd:steps=15",
        "pgd:steps=10",
        "square:queries=150",
        "apgd-ce:steps=15",
        "autoattack:steps=8,queries=30,top=2",
        "fab:steps=5",
    ],
)
def test_the_folded_network_gives_the_verdicts_of_the_network(spec, tmp_path):
    digits, few = gamagat.load_model("digits-cnn"), gamagat.load_data("digits").head(60)
    threat = ThreatModel(LINF, 0.24)
    exact = run(digits, few, tmp_path / "exact", spec, precision="fp32", threat=threat, batch_size=32)
    quick = run(digits, few, tmp_path / "quick", spec, threat=threat, batch_size=32)
    assert exact.manifest.made["attacks in"] == "the network as it is"
    assert quick.manifest.made["attacks in"].startswith(FOLDED)
    names = [name for attack in exact.manifest.attacks for name in attack["runs"]]
    stood, stands = exact.standing(names), quick.standing(names)
    assert 2 < stood.sum() < 58
    assert np.count_nonzero(stood != stands) <= 1  # one near tie


def quick_run(folder: Path | None, **options: Any) -> Any:
    return small_run(folder, precision="auto", **options)


@pytest.fixture(scope="module")
def reference(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("reference") / "run"
    quick_run(folder)
    assert Manifest.read(folder).made["attacks in"] == FOLDED
    return folder


def test_time_that_is_over_ends_a_run_with_a_stand_in_and_it_goes_on(reference, tmp_path):
    assert quick_run(tmp_path / "run", max_seconds=0.0).stopped == TIME_OVER
    quick_run(tmp_path / "run")
    assert rows(tmp_path / "run") == rows(reference)


class Stopping(RowByRow):
    """Raises something in its fortieth pass, and for more images than it has room for."""

    def __init__(self, error: BaseException | None = None, room: int = 100) -> None:
        super().__init__()
        self.calls, self.error, self.room = 0, error, room

    def forward(self, images: Tensor) -> Tensor:
        self.calls += 1
        if len(images) > self.room:
            raise torch.OutOfMemoryError("CUDA out of memory")
        if self.calls == 40 and self.error is not None:
            raise self.error
        return super().forward(images)


def switches() -> list[Any]:
    flags = [torch.is_autocast_enabled("cpu"), torch.is_grad_enabled(), torch.is_inference_mode_enabled()]
    return [*flags, torch.backends.cuda.matmul.fp32_precision, torch.backends.cudnn.conv.fp32_precision]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), DataError("a cable was pulled")])
def test_a_stand_in_that_stops_leaves_everything_as_it_was(monkeypatch, reference, tmp_path, error):
    before = switches()
    with monkeypatch.context() as patch:
        seen_by_attacks(patch, Stopping(error))
        if isinstance(error, KeyboardInterrupt):
            assert quick_run(tmp_path / "run").stopped == INTERRUPTED
        else:
            with pytest.raises(DataError, match="a cable was pulled"):
                quick_run(tmp_path / "run")
    assert switches() == before
    assert 0 < len(rows(tmp_path / "run")) < len(rows(reference))
    quick_run(tmp_path / "run")
    assert rows(tmp_path / "run") == rows(reference)


def test_an_interrupt_while_a_stand_in_is_made_ends_the_run_in_order(monkeypatch, reference, tmp_path):
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    before = switches()
    with monkeypatch.context() as patched:
        patched.setattr(network, "_single", interrupted)
        assert quick_run(tmp_path / "run").stopped == INTERRUPTED
    assert switches() == before
    quick_run(tmp_path / "run")
    assert rows(tmp_path / "run") == rows(reference)


def test_memory_that_the_stand_in_lacks_halves_the_batch(monkeypatch, reference, tmp_path):
    said: list[str] = []
    seen_by_attacks(monkeypatch, Stopping(room=3))
    quick_run(tmp_path / "run", onlooker=Onlooker(say=said.append))
    assert said == ["out of memory with 7 images at a time; going on with 3"]
    assert rows(tmp_path / "run") == rows(reference)


@pytest.mark.parametrize("outer", [torch.no_grad, torch.inference_mode])
def test_the_callers_mode_does_not_matter(outer, reference, tmp_path):
    net = RowByRow()
    with outer():
        quick_run(tmp_path / "run", model=net)
    assert rows(tmp_path / "run") == rows(reference)


def test_the_network_comes_back_as_it_was_and_the_copy_goes_with_it(monkeypatch, tmp_path, data):
    made: list[weakref.ref[Any]] = []
    single = network._single

    def noted(model: nn.Module, own: bool) -> Any:
        made.append(weakref.ref(stand_in := single(model, own)))
        return stand_in

    monkeypatch.setattr(network, "_single", noted)
    net = usual().train()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    run(net, data, tmp_path / "run", "pgd:steps=2")
    assert net.training
    assert all(value.requires_grad for value in net.parameters())
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    del net
    gc.collect()
    assert [ref() for ref in made] == [None]


def test_a_network_in_double_precision_is_attacked_as_it_is(tmp_path, data):
    done = run(usual().double(), data, tmp_path / "run", "pgd:steps=2")
    assert done.manifest.made["attacks in"] == "the network as it is"


def test_a_random_network_is_attacked_as_it_is(tmp_path, data):
    net = Around(lambda inner, images: inner(images + 1e-3 * torch.rand_like(images)))
    done = run(net, data, tmp_path / "run", "pgd:steps=2")
    assert done.manifest.made["attacks in"] == "the network as it is"
