"""The shortest way onto a plane, against general solvers that know nothing of its form."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize
from torch import Tensor, nn

from gamagat.errors import ModelError
from gamagat.pieces.hyperplane import Plane, distance_to, nearest_boundary, step_onto
from gamagat.pieces.threat import L2, LINF, ThreatModel
from helpers import images_like, seeded, tiny_network

THREATS = [ThreatModel(LINF, 0.1), ThreatModel(L2, 0.1)]
by_norm = pytest.mark.parametrize("threat", THREATS, ids=lambda threat: threat.norm.name)


def draw(seed: int, pixels: int, reach: float, count: int = 2, sparse: bool = False) -> tuple[Tensor, Plane]:
    """Points, some pixels at an end of the range, and planes a share `reach` of the way to the far corner."""
    generator = torch.Generator().manual_seed(seed)
    wild = torch.rand(4, count, 1, 1, pixels, generator=generator, dtype=torch.float64)
    points = (1.5 * wild[0] - 0.25).clamp(0, 1)
    normal = 2 * wild[1] - 1
    if sparse:
        normal = torch.where(wild[2] < 0.4, 0.0, normal)
    most = torch.where(normal > 0, normal * (1 - points), -normal * points).flatten(1).sum(1)
    anchor = wild[3]
    value = -reach * most - (normal * (points - anchor)).flatten(1).sum(1)
    return points, Plane(normal, anchor, value)


def solved(threat: ThreatModel, x: np.ndarray, w: np.ndarray, gap: float) -> float:
    """The smallest size of a d with w.d = gap and x + d in [0, 1], by a general solver."""
    box = list(zip(-x, 1 - x, strict=True))
    if threat.norm is LINF:
        one = np.eye(len(x))
        below = np.block([[one, -np.ones((len(x), 1))], [-one, -np.ones((len(x), 1))]])
        answer = linprog(
            [0.0] * len(x) + [1.0], below, np.zeros(2 * len(x)), [[*w, 0.0]], [gap], [*box, (0, None)]
        )
        assert answer.success
        return float(answer.fun)
    answer = minimize(
        lambda d: d @ d,
        np.zeros(len(x)),
        jac=lambda d: 2 * d,
        bounds=box,
        constraints={"type": "eq", "fun": lambda d: w @ d - gap, "jac": lambda d: w},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 300},
    )
    assert abs(w @ answer.x - gap) < 1e-7
    return float(np.sqrt(answer.fun))


@by_norm
@given(
    seed=st.integers(0, 2**32), pixels=st.integers(1, 7), reach=st.floats(-0.1, 0.98), sparse=st.booleans()
)
@settings(max_examples=60, deadline=None)
def test_no_solver_finds_a_shorter_way(threat, seed, pixels, reach, sparse):
    points, plane = draw(seed, pixels, max(reach, 0.0), sparse=sparse)
    way = step_onto(plane, points, threat)
    assert (plane.at(points + way).abs() < 1e-9).all()
    assert (((points + way) >= -1e-12) & ((points + way) <= 1 + 1e-12)).all()
    for one in range(len(points)):
        x, w = points[one].flatten().numpy(), plane.normal[one].flatten().numpy()
        best = solved(threat, x, w, -float(plane.at(points)[one]))
        assert abs(float(threat.norm.size(way)[one]) - best) < 1e-5 * (1 + best)


@by_norm
@given(seed=st.integers(0, 2**32), pixels=st.integers(1, 40))
@settings(max_examples=40, deadline=None)
def test_the_way_is_the_same_from_either_side(threat, seed, pixels):
    points, plane = draw(seed, pixels, 0.5)
    flipped = Plane(-plane.normal, plane.anchor, -plane.value)
    assert torch.equal(step_onto(plane, points, threat), step_onto(flipped, points, threat))


@by_norm
@given(seed=st.integers(0, 2**32), pixels=st.integers(1, 40), beyond=st.floats(1.001, 1e6))
@settings(max_examples=40, deadline=None)
def test_a_plane_out_of_reach_is_approached_up_to_the_corner(threat, seed, pixels, beyond):
    points, plane = draw(seed, pixels, beyond)
    corner = torch.where(plane.normal > 0, 1.0, 0.0).double()
    assert torch.allclose(points + step_onto(plane, points, threat), corner)


@by_norm
def test_far_from_the_ends_of_the_range_the_distance_is_the_closed_form(threat):
    normal = torch.randn(5, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    points = torch.full_like(normal, 0.5)
    plane = Plane(normal, points, torch.linspace(-1.0, 1.0, 5))
    rows = normal.flatten(1)
    dual = rows.abs().sum(1) if threat.norm is LINF else rows.norm(dim=1)
    assert torch.allclose(distance_to(plane, threat.norm), plane.value.abs() / dual)
    assert torch.allclose(threat.norm.size(step_onto(plane, points, threat)), plane.value.abs() / dual)


@by_norm
@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_the_way_does_not_depend_on_the_scale_of_the_logits(threat, scale):
    points, plane = draw(3, 50, 0.3)
    points, normal, anchor, value = (part.float() for part in (points, *plane))
    plain = step_onto(Plane(normal, anchor, value), points, threat)
    scaled = step_onto(Plane(scale * normal, anchor, scale * value), points, threat)
    assert torch.allclose(plain, scaled, atol=1e-5)


@by_norm
@pytest.mark.parametrize("value", [0.0, -1.0])
def test_without_a_normal_there_is_nowhere_to_go(threat, value):
    x = images_like(2)
    plane = Plane(torch.zeros_like(x), x, torch.full((2,), value))
    assert torch.equal(step_onto(plane, x, threat), torch.zeros_like(x))


@by_norm
def test_the_nearest_boundary_is_the_nearest_of_all_targets(threat):
    model, x = seeded(tiny_network).double(), images_like(6).double()
    y = model(x).argmax(1)
    nearest, cost = nearest_boundary(model, x, y, None, threat.norm)
    aimed = [nearest_boundary(model, x, y, (y + ahead) % 5, threat.norm) for ahead in range(1, 5)]
    assert cost == (1, 4)
    assert {cost for _, cost in aimed} == {(1, 1)}
    distances = torch.stack([distance_to(plane, threat.norm) for plane, _ in aimed])
    assert torch.allclose(distance_to(nearest, threat.norm), distances.amin(0))


def test_a_boundary_is_the_tangent_of_two_logits():
    model, x = seeded(tiny_network).double(), images_like(4).double()
    y, target = torch.tensor([0, 1, 2, 3]), torch.tensor([4, 3, 0, 1])
    plane, _ = nearest_boundary(model, x, y, target, LINF)
    rows = torch.arange(4)
    step = 1e-6 * images_like(4, seed=5).double()
    logits = model(x + step)
    assert torch.allclose(plane.at(x + step), logits[rows, target] - logits[rows, y], atol=1e-9)


def test_a_network_without_a_gradient_is_refused():
    with pytest.raises(ModelError, match="cuts the gradient"):
        nearest_boundary(lambda x: x.detach().flatten(1), images_like(2), torch.tensor([0, 1]), None, LINF)


def test_a_network_that_ignores_its_input_has_no_boundary():
    weight = nn.Parameter(torch.tensor([1.0, 0.0]))
    plane, _ = nearest_boundary(
        lambda x: weight.expand(len(x), 2), images_like(2), torch.tensor([0, 1]), None, LINF
    )
    assert not plane.normal.any()


@pytest.mark.filterwarnings("ignore")  # the compiler's own
def test_a_compiled_network_is_asked_anew_for_every_class():
    model, x = seeded(tiny_network), images_like(4)
    y = model(x).argmax(1)
    compiled = torch.compile(model, backend="aot_eager")
    first = x.clone().requires_grad_()
    compiled(first).sum().backward()  # from now on there is one way back through its graph
    plane, cost = nearest_boundary(compiled, x, y, None, LINF)
    exact, _ = nearest_boundary(model, x, y, None, LINF)
    assert cost == (5, 4)  # of which one pass showed that there is no second way back
    assert all(torch.allclose(ours, theirs, atol=1e-6) for ours, theirs in zip(plane, exact, strict=True))


def test_another_failure_on_the_way_back_is_not_hidden():
    class Failing(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            raise RuntimeError("no gradient today")

    model, x = seeded(tiny_network), images_like(2)
    with pytest.raises(RuntimeError, match="no gradient today"):
        nearest_boundary(lambda x: Failing.apply(model(x)), x, torch.tensor([0, 1]), None, LINF)
