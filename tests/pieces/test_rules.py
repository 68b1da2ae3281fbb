import pytest
import torch

from gamagat.pieces.rules import Iterate, adam, frank_wolfe, projected_ascent, squarable
from gamagat.pieces.schedules import Timetable, constant, stepped
from gamagat.pieces.threat import L2, LINF, ThreatModel
from gamagat.pieces.trees import pick


def iterate(step: int = 0, count: int = 4, seed: int = 0) -> Iterate:
    generator = torch.Generator().manual_seed(seed)
    x = 0.3 + 0.4 * torch.rand(count, 1, 3, 3, generator=generator, dtype=torch.float64)
    delta, grad = (0.05 * torch.randn(x.shape, generator=generator, dtype=torch.float64) for _ in range(2))
    steps = torch.full((count,), step)
    times = Timetable(100, x)
    return Iterate(x, delta, grad, torch.zeros(count), steps, lambda schedule: times.read(schedule, steps))


def test_a_step_of_two_eps_lands_on_the_corner_and_so_does_frank_wolfe_with_rate_one():
    it, threat = iterate(), ThreatModel(LINF, 0.1)
    ascent, _ = projected_ascent(constant(2.0)).next(it, None, threat)
    wolfe, _ = frank_wolfe(constant(1.0)).next(it, None, threat)
    assert torch.allclose(ascent, 0.1 * it.grad.sign())
    assert torch.allclose(wolfe, ascent)


def test_frank_wolfe_moves_part_of_the_way_to_the_vertex():
    it, threat = iterate(), ThreatModel(L2, 0.1)
    moved, _ = frank_wolfe(constant(0.5)).next(it, None, threat)
    vertex = 0.1 * it.grad / it.grad.flatten(1).norm(dim=1)[:, None, None, None]
    assert torch.allclose(moved, threat.project((it.delta + vertex) / 2, it.x))


def test_rates_follow_the_schedule_image_by_image():
    it, threat = iterate(), ThreatModel(LINF, 0.1)
    times = Timetable(100, it.x)
    mixed = torch.tensor([0, 60, 60, 0])
    it = it._replace(delta=torch.zeros_like(it.x), at=lambda schedule: times.read(schedule, mixed))
    moved, _ = projected_ascent(stepped(0.5, (60,), 0.1)).next(it, None, threat)
    assert torch.allclose(moved.abs().amax((1, 2, 3)), torch.tensor([0.05, 0.005, 0.005, 0.05]).double())


def test_adam_takes_the_steps_of_torch_adam():
    threat, x = ThreatModel(LINF, 10.0, -100.0, 100.0), iterate().x
    rule, grads = adam(constant(0.01)), [iterate(seed=seed).grad for seed in range(5)]
    delta, state = torch.zeros_like(x), rule.init(x)
    theirs = torch.zeros_like(x).requires_grad_()
    optimizer = torch.optim.Adam([theirs], lr=0.1, eps=0.0, maximize=True)
    for step, grad in enumerate(grads):
        delta, state = rule.next(iterate(step)._replace(delta=delta, grad=grad), state, threat)
        theirs.grad = grad
        optimizer.step()
    assert torch.allclose(delta, theirs.detach())


def test_a_state_can_be_taken_apart_by_image():
    threat, rule = ThreatModel(LINF, 0.1), adam(constant(0.5))
    whole, state = rule.next(iterate(), rule.init(iterate().x), threat)
    _, state = rule.next(iterate(1, seed=1)._replace(delta=whole), state, threat)
    some = torch.tensor([True, False, False, True])
    late = iterate(2, seed=2)
    alone, _ = rule.next(
        iterate(2, 2)._replace(x=late.x[some], delta=late.delta[some], grad=late.grad[some]),
        pick(state, some),
        threat,
    )
    together, _ = rule.next(late, state, threat)
    assert torch.equal(alone, together[some])


def test_gradients_are_made_shorter_where_their_squares_would_be_infinite_and_nowhere_else():
    long = torch.tensor([1.0, 1e15, 1e19, 3e38, float("inf")])[:, None, None, None]
    ways = torch.tensor([1.0, -0.5, 0.0]).view(1, 1, 1, 3)
    shown = squarable((long * ways).nan_to_num(nan=0.0))
    assert torch.equal(shown[:2], (long * ways)[:2])
    assert shown.square().isfinite().all()
    assert torch.allclose(shown[2:4] / shown[2:4].amax(3, keepdim=True), ways)


@pytest.mark.parametrize("size", [1e15, 1e30])
def test_adam_walks_along_a_gradient_of_any_size(size):
    it, threat, rule = iterate(), ThreatModel(LINF, 0.1), adam(constant(0.5))
    it = it._replace(x=it.x.float(), delta=it.delta.float(), grad=it.grad.float())
    moved, _ = rule.next(it._replace(grad=size * it.grad), rule.init(it.x), threat)
    assert torch.allclose(moved, rule.next(it, rule.init(it.x), threat)[0])
    assert not torch.equal(moved, it.delta)


def test_a_pixel_without_gradient_stays_under_adam():
    it = iterate()._replace(grad=torch.zeros(4, 1, 3, 3, dtype=torch.float64))
    rule = adam(constant(0.5))
    moved, _ = rule.next(it, rule.init(it.x), ThreatModel(LINF, 1.0))
    assert torch.allclose(moved, it.delta)
