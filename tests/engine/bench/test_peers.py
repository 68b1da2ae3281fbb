"""Other packages' loops: what they are told, and words where they are missing."""

import sys
from types import ModuleType, SimpleNamespace

import pytest
import torch

from gamagat.engine.bench.measure import Counted
from gamagat.engine.bench.peers import PEERS, Budget, Peer, package_of
from gamagat.errors import ConfigError
from gamagat.pieces.threat import LINF, ThreatModel

CPU = torch.device("cpu")


def budget(steps: int = 3) -> Budget:
    return Budget(0.1, steps, 0.25, classes=5, shape=(3, 8, 8), batch_size=4, device=CPU)


def named(word: str) -> Peer:
    return next(peer for peer in PEERS if word in peer.name)


def test_a_missing_package_is_told_in_words():
    with pytest.raises(ConfigError, match=r"no_such_peer is not installed; pip install 'gamagat\[bench\]'"):
        package_of(("no_such_peer",))


def test_a_package_that_lacks_another_or_breaks_says_which(monkeypatch, tmp_path):
    (tmp_path / "half_peer.py").write_text("import no_such_part\n")
    (tmp_path / "broken_peer.py").write_text("raise RuntimeError('too old')\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match=r"half_peer needs no_such_part and broken_peer cannot .*too old"):
        package_of(("half_peer", "broken_peer"))


def test_any_of_several_packages_will_do():
    assert package_of(("no_such_peer", "json")).__name__ == "json"


def test_torchattacks_is_told_the_step_in_pixels(monkeypatch, small_model):
    told = {}
    fake = ModuleType("torchattacks")
    fake.PGD = lambda model, **words: told.update(words) or (lambda x, y: x + words["eps"])
    monkeypatch.setitem(sys.modules, "torchattacks", fake)
    loop = named("torchattacks").loop(small_model, budget())
    assert told == {"eps": 0.1, "alpha": 0.025, "steps": 3}
    assert torch.equal(loop(torch.zeros(2, 3, 8, 8), torch.zeros(2).long()), torch.full((2, 3, 8, 8), 0.1))


def test_foolbox_is_told_the_step_in_eps(monkeypatch, small_model):
    told = {}

    class Pgd:
        def __init__(self, **words):
            told.update(words)

        def run(self, model, x, criterion, *, epsilon):
            return x + epsilon

    fake = ModuleType("foolbox")
    fake.PyTorchModel = lambda model, bounds, device: SimpleNamespace(bounds=bounds)
    fake.attacks = SimpleNamespace(LinfPGD=Pgd)
    fake.criteria = SimpleNamespace(Misclassification=lambda y: y)
    monkeypatch.setitem(sys.modules, "foolbox", fake)
    loop = named("foolbox").loop(small_model, budget())
    assert told == {"rel_stepsize": 0.25, "steps": 3, "random_start": True}
    assert float(loop(torch.zeros(1, 3, 8, 8), torch.zeros(1).long()).max()) == pytest.approx(0.1)


@pytest.mark.filterwarnings("ignore")  # theirs are not ours
@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_one_that_is_installed_takes_every_step_and_stays_in_the_ball(peer, small_model, batch):
    try:
        package_of(peer.packages)
    except ConfigError as missing:
        pytest.skip(str(missing))
    x, y = batch
    counted = Counted(small_model.requires_grad_(False))
    images = peer.loop(counted, budget(steps=4))(x.clone(), y.clone())
    assert ThreatModel(LINF, 0.1).contains(images.clamp(0, 1), x).all()
    assert not torch.equal(images, x)
    assert 4 * len(x) <= counted.backwards <= 5 * len(x)  # Auto-PGD takes one gradient before its first step
