"""Attacks against the truth: networks so small that it can be computed which images can be fooled at all.

With one hidden layer of ReLUs the lead of a wrong class over the right one is linear on each piece of the
ball that the hidden units cut out. So its maximum can be found by enumeration, in two ways that know nothing
of each other: a linear program for each pattern of units that are on, and the network's values at every
corner of every piece. Images whose maximum is too near zero to decide are left out; all others count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import combinations, product
from typing import NamedTuple

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.optimize import linprog
from torch import Tensor, nn

import gamagat
from gamagat.attacks.core import ATTACKS, L2_ONLY
from gamagat.engine.judge import judge
from gamagat.engine.plan import plan_attacks
from gamagat.pieces.noise import Noise
from gamagat.pieces.threat import LINF, ThreatModel
from gamagat.pieces.types import Mask

Reals = NDArray[np.float64]
IMAGES, CLASSES, UNDECIDED = 40, 3, 1e-7
TARGETED = ("gama-mt:top=2,restarts=3", "multitargeted:top=2,restarts=3")
# A few pixels have few corners to begin from, so restarts soon repeat themselves; what no start of one attack
# finds, another finds.
SUITE = (
    *TARGETED,
    "gama-pgd:restarts=3",
    "ga-ce:restarts=20",
    "gama-adam:restarts=10",
    "gama-fw:restarts=30",
)


@dataclass(frozen=True)
class Problem:
    """A random network, random images with the classes it gives them, and a ball."""

    shape: tuple[int, int, int]
    hidden: int
    seed: int
    lead: float  # what the first class is ahead by: the others are left with pockets that are hard to find
    eps: float

    @property
    def threat(self) -> ThreatModel:
        return ThreatModel(LINF, self.eps)


SMALL = (Problem((1, 1, 3), 8, 0, 0.0, 0.1), Problem((1, 2, 2), 8, 1, 0.0, 0.1))
LARGE = (
    Problem((1, 2, 2), 10, 4, 2.0, 0.25),
    Problem((1, 2, 2), 16, 2, 2.0, 0.2),
    Problem((1, 2, 2), 24, 0, 3.0, 0.2),
)
PROBLEMS = (*SMALL, *LARGE)
every_problem = pytest.mark.parametrize(
    "problem", PROBLEMS, ids=lambda problem: f"{np.prod(problem.shape)}-pixels-{problem.hidden}-units"
)


class Truth(NamedTuple):
    """The network, the images, and what can be known about them."""

    model: nn.Module
    x: Tensor
    y: Tensor
    best: Tensor  # how far a wrong class can get ahead of the right one within the ball
    witness: Tensor  # where it does

    @property
    def breakable(self) -> Mask:
        return self.best > UNDECIDED

    @property
    def robust(self) -> Mask:
        return self.best < -UNDECIDED


def build(problem: Problem) -> tuple[nn.Module, Tensor, Tensor]:
    """A network in double precision every bend of which passes through the cube of all images."""
    numbers = torch.Generator().manual_seed(problem.seed)
    pixels = int(np.prod(problem.shape))

    def draw(make: Callable[..., Tensor], *shape: int) -> Tensor:
        return make(*shape, generator=numbers, dtype=torch.float64)

    model = nn.Sequential(
        nn.Flatten(), nn.Linear(pixels, problem.hidden), nn.ReLU(), nn.Linear(problem.hidden, CLASSES)
    ).double()
    first, last = model[1], model[3]
    with torch.no_grad():
        first.weight.copy_(draw(torch.randn, problem.hidden, pixels))
        first.bias.copy_(-(first.weight * draw(torch.rand, problem.hidden, pixels)).sum(1))
        last.weight.copy_(draw(torch.randn, CLASSES, problem.hidden))
        last.bias.zero_()
        last.bias.sub_(model(draw(torch.rand, 2000, *problem.shape)).mean(0))
        last.bias[0] += problem.lead
        x = draw(torch.rand, IMAGES, *problem.shape)
        return model, x, model(x).argmax(1)


class Layers(NamedTuple):
    """The weights of such a network as arrays."""

    first: Reals
    first_bias: Reals
    last: Reals
    last_bias: Reals

    @classmethod
    def of(cls, model: nn.Module) -> Layers:
        return cls(*(parameter.detach().numpy() for parameter in model.parameters()))

    def leads(self, points: Reals, label: int) -> Reals:
        """How far the best wrong class is ahead at each point."""
        scores = np.maximum(points @ self.first.T + self.first_bias, 0) @ self.last.T + self.last_bias
        return np.delete(scores, label, 1).max(1) - scores[:, label]


def ball(x: Tensor, eps: float) -> tuple[Reals, Reals]:
    """The lowest and the highest value of every pixel."""
    pixels = x.flatten().numpy()
    return np.maximum(pixels - eps, 0), np.minimum(pixels + eps, 1)


def by_corners(problem: Problem, layers: Layers, x: Tensor, y: Tensor) -> tuple[Reals, Reals]:
    """The largest lead of a wrong class and where it is, among all corners."""
    pixels = layers.first.shape[1]  # at a corner as many bends or sides of the ball meet as there are pixels
    planes = np.concatenate([layers.first, np.eye(pixels), np.eye(pixels)])
    meeting = np.array(list(combinations(range(len(planes)), pixels)))
    meeting = meeting[np.abs(np.linalg.det(planes[meeting])) > 1e-9]  # parallel ones do not meet
    inverses = np.linalg.inv(planes[meeting])
    best, where = [], []
    for image, label in zip(x, y.tolist(), strict=True):
        low, high = ball(image, problem.eps)
        offsets = np.concatenate([-layers.first_bias, low, high])
        points = np.einsum("nij,nj->ni", inverses, offsets[meeting])
        points = points[((points >= low - 1e-9) & (points <= high + 1e-9)).all(1)].clip(low, high)
        leads = layers.leads(points, label)
        best.append(leads.max())
        where.append(points[leads.argmax()])
    return np.array(best), np.array(where)


def by_programs(problem: Problem, layers: Layers, x: Tensor, label: int) -> float:
    """The largest lead of a wrong class, by a linear program for each pattern and class."""
    low, high = ball(x, problem.eps)
    middle = layers.first @ (low + high) / 2 + layers.first_bias
    reach = np.abs(layers.first) @ (high - low) / 2
    # A unit that does not bend within the ball has one state.
    states = [(float(at > 0),) if abs(at) > by else (0.0, 1.0) for at, by in zip(middle, reach, strict=True)]
    best = -np.inf
    for on, rival in product(product(*states), set(range(CLASSES)) - {label}):
        sides = 1 - 2 * np.array(on)
        slope = (layers.last[rival] - layers.last[label]) * on
        found = linprog(
            -slope @ layers.first,
            A_ub=sides[:, None] * layers.first,
            b_ub=-sides * layers.first_bias,
            bounds=np.stack([low, high], 1),
        )
        if found.status == 0:  # else no point of the ball has this pattern
            ahead = slope @ layers.first_bias + layers.last_bias[rival] - layers.last_bias[label]
            best = max(best, ahead - found.fun)
    return best


@cache
def truth(problem: Problem) -> Truth:
    """All there is to know, computed once."""
    model, x, y = build(problem)
    best, where = by_corners(problem, Layers.of(model), x, y)
    return Truth(model, x, y, torch.from_numpy(best), torch.from_numpy(where).view_as(x))


def fallen(problem: Problem, specs: tuple[str, ...], among: Mask, seed: int = 0) -> Mask:
    """Which of these images the judge finds fooled by any run of the attacks, each on what is left."""
    known, found = truth(problem), torch.zeros(IMAGES, dtype=torch.bool)
    noise = Noise.for_images(torch.arange(IMAGES), seed)
    for _, attack in (run for planned in plan_attacks(specs) for run in planned.runs):
        left = (among & ~found).nonzero().squeeze(1)
        if len(left) == 0:
            break
        x, y = known.x[left], known.y[left]
        outcome = attack(known.model, x, y, problem.threat, noise[left])
        found[left] = judge(known.model, outcome.images, x, y, problem.threat).fooled
    return found


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Networks this small wait for threads longer than they compute."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("problem", "images"), [(SMALL[0], IMAGES), (SMALL[1], IMAGES), (LARGE[0], 1)], ids=["3x8", "4x8", "4x10"]
)
def test_both_ways_of_computing_the_truth_agree(problem, images):
    known = truth(problem)
    layers = Layers.of(known.model)
    pairs = list(zip(known.x, known.y.tolist(), strict=True))[:images]
    programs = [by_programs(problem, layers, x, label) for x, label in pairs]
    assert known.best[:images].tolist() == pytest.approx(programs, abs=1e-7)


def test_a_dense_grid_finds_the_same_truth():
    problem, steps = SMALL[0], 24
    known = truth(problem)
    layers = Layers.of(known.model)
    for x, label, best in zip(known.x, known.y.tolist(), known.best.tolist(), strict=True):
        axes = [np.linspace(*side, steps + 1) for side in zip(*ball(x, problem.eps), strict=True)]
        grid = layers.leads(np.stack(np.meshgrid(*axes), -1).reshape(-1, len(axes)), label).max()
        steepest = (np.abs(layers.last - layers.last[label]) @ np.abs(layers.first)).sum(1).max()
        assert grid <= best + 1e-9
        assert best <= grid + steepest * problem.eps / steps  # half a cell from the nearest point of the grid


@every_problem
def test_the_problems_are_worth_solving(problem):
    known = truth(problem)
    assert 0.3 <= float(known.breakable.double().mean()) <= 0.7
    assert bool((known.breakable | known.robust).all())  # nothing is left out
    assert known.model(known.x).argmax(1).equal(known.y)


@every_problem
def test_the_judge_believes_the_truth(problem):
    known = truth(problem)
    fooled = judge(known.model, known.witness, known.x, known.y, problem.threat).fooled
    assert fooled.equal(known.breakable)


@every_problem
@pytest.mark.parametrize("name", [name for name in ATTACKS.names() if L2_ONLY not in ATTACKS[name].tags])
def test_no_attack_breaks_a_provably_robust_image(name, problem):
    robust = truth(problem).robust
    assert not bool(fallen(problem, (name,), among=robust).any())


@every_problem
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_best_suite_breaks_every_breakable_image(problem, seed):
    known = truth(problem)
    missed = known.breakable & ~fallen(problem, SUITE, known.breakable, seed)
    assert known.best[missed].tolist() == []


@pytest.mark.parametrize("problem", SMALL, ids=["3-pixels", "4-pixels"])
def test_an_evaluation_reports_the_true_robust_accuracy(problem):
    known = truth(problem)
    assert float(known.best.abs().min()) > 1e-4  # so that single precision decides as double does
    model, x, _ = build(problem)
    result = gamagat.evaluate(model.float().eval(), (x.float(), known.y), TARGETED, eps=problem.eps)
    assert result.clean.percent == 100.0
    assert result.standing.count == int(known.robust.sum())
