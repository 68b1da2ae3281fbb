import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gamagat.errors import ConfigError
from gamagat.pieces.noise import Noise
from gamagat.pieces.threat import L2, LINF, TOLERANCE, ThreatModel, norm_named
from gamagat.pieces.trees import rows

NORMS = [LINF, L2]
by_norm = pytest.mark.parametrize("norm", NORMS, ids=lambda norm: norm.name)


def draw(seed: int, spread: float, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(3, 2, 4, 4, generator=generator, dtype=dtype)
    return x, spread * torch.randn(x.shape, generator=generator, dtype=dtype)


@by_norm
@given(seed=st.integers(0, 2**32), eps=st.floats(1e-3, 3.0), spread=st.floats(0.0, 10.0))
@settings(max_examples=60, deadline=None)
def test_a_projected_image_is_inside_and_stays_where_it_is(norm, seed, eps, spread):
    threat = ThreatModel(norm, eps)
    x, delta = draw(seed, spread)
    inside = threat.project(delta, x)
    assert threat.contains((x + inside).clamp(0, 1), x).all()
    assert torch.allclose(threat.project(inside, x), inside, atol=2e-7, rtol=1e-5)


@by_norm
@given(seed=st.integers(0, 2**32))
@settings(max_examples=30, deadline=None)
def test_projection_onto_the_ball_leaves_no_nearer_point(norm, seed):
    _, delta = draw(seed, 1.0, torch.float64)
    nearest = norm.project(delta, 0.5)
    others = norm.project(draw(seed + 1, 1.0, torch.float64)[1], 0.5)
    # The ball is convex: from the nearest point no other point of the ball lies towards delta.
    assert (((delta - nearest) * (others - nearest)).flatten(1).sum(1) <= 1e-9).all()


@by_norm
@given(seed=st.integers(0, 2**32))
@settings(max_examples=30, deadline=None)
def test_no_unit_perturbation_climbs_faster_than_the_steepest(norm, seed):
    grad, other = draw(seed, 1.0, torch.float64)[1], draw(seed + 1, 1.0, torch.float64)[1]
    best, other = norm.steepest(grad), norm.project(other, 1.0)
    assert torch.allclose(norm.size(best), torch.ones(3, dtype=torch.float64))
    assert ((grad * best).flatten(1).sum(1) >= (grad * other).flatten(1).sum(1) - 1e-12).all()


@by_norm
@pytest.mark.parametrize("scale", [1e-40, 1e-30, 1.0, 1e30])
def test_the_steepest_direction_does_not_depend_on_the_size_of_the_gradient(norm, scale):
    grad = draw(0, 1.0)[1]
    assert torch.allclose(
        norm.steepest(grad * scale), norm.steepest(grad), atol=1e-2 if scale < 1e-38 else 1e-6
    )


@by_norm
def test_a_zero_gradient_moves_nothing(norm):
    assert torch.equal(norm.steepest(torch.zeros(2, 1, 3, 3)), torch.zeros(2, 1, 3, 3))


@by_norm
def test_random_points_fill_the_unit_ball(norm):
    points = norm.anywhere(torch.zeros(500, 1, 2, 2), Noise.for_images(torch.arange(500)))
    sizes = norm.size(points)
    assert sizes.max() <= 1
    # In four dimensions half of the ball lies further out than 0.5 ** (1 / 4) of its radius.
    assert abs((sizes > 0.5**0.25).float().mean() - 0.5) < 0.1


@by_norm
def test_images_just_past_the_tolerance_are_outside(norm):
    threat, x = ThreatModel(norm, 0.1), torch.full((1, 1, 1, 1), 0.5, dtype=torch.float64)
    assert threat.contains(x + 0.1 + 0.9 * TOLERANCE, x).all()
    assert not threat.contains(x + 0.1 + 1.1 * TOLERANCE, x).any()


@pytest.mark.parametrize("pixel", [float("nan"), float("inf"), -1e-3, 1.001])
def test_an_impossible_pixel_is_outside(pixel):
    x = torch.full((1, 1, 2, 2), 0.5)
    images = x.clone()
    images[0, 0, 0, 0] = pixel
    assert not ThreatModel(LINF, 10.0).contains(images, x).any()


@pytest.mark.parametrize("eps", [0.0, -0.1, float("nan"), float("inf")])
def test_eps_must_be_positive_and_finite(eps):
    with pytest.raises(ConfigError, match="eps must be positive"):
        ThreatModel(LINF, eps)


def test_norms_are_found_in_any_case_and_a_wrong_one_is_named():
    assert norm_named("Linf") is LINF
    assert norm_named("L2") is L2
    with pytest.raises(ConfigError, match="unknown norm 'l3'"):
        norm_named("l3")


@by_norm
def test_the_layout_in_memory_changes_no_number_and_no_pixel_is_moved(norm):
    threat = ThreatModel(norm, 0.3)
    x, delta = draw(4, 0.2, torch.float64)
    last = [part.contiguous(memory_format=torch.channels_last) for part in (x, delta)]
    assert rows(last[1]).data_ptr() == last[1].data_ptr()
    assert torch.allclose(norm.size(last[1]), norm.size(delta))
    assert torch.allclose(norm.steepest(last[1]), norm.steepest(delta))
    images = (x + delta, sum(last))
    for found in (threat.distance(images[1], last[0]), threat.distance(images[1], x)):
        assert torch.allclose(found, threat.distance(images[0], x))
    assert torch.equal(threat.contains(images[1], last[0]), threat.contains(images[0], x))
