import pytest
import torch

from gamagat.pieces.noise import Noise

LIKE = torch.zeros(4, 3, 8, 8)
IDS = torch.tensor([7, 0, 123456789, 2**62])


@pytest.mark.parametrize("draw", ["uniform", "signs", "normal"])
def test_a_draw_depends_on_the_image_and_not_on_its_batch(draw):
    noise = Noise.for_images(IDS, seed=3)
    together = getattr(noise, draw)(LIKE)
    alone = [getattr(noise[torch.tensor([place])], draw)(LIKE[:1]) for place in range(4)]
    assert torch.equal(together, torch.cat(alone))


def test_images_seeds_and_folds_all_have_streams_of_their_own():
    streams = [Noise.for_images(IDS, 0), Noise.for_images(IDS, 1), Noise.for_images(IDS, 0).fold(0)]
    streams += [Noise.for_images(IDS, 0).fold(1), Noise.for_images(IDS + 1, 0)]
    draws = torch.cat([stream.uniform(LIKE).flatten(1) for stream in streams])
    correlation = torch.corrcoef(draws) - torch.eye(len(draws))
    assert correlation.abs().max() < 0.35  # 192 numbers each: four standard deviations are 0.29


def test_uniform_numbers_fill_the_unit_interval_evenly():
    values = Noise.for_images(torch.arange(64)).uniform(torch.zeros(64, 1, 32, 32)).flatten()
    assert values.min() >= 0
    assert values.max() < 1
    counts = torch.histc(values, bins=16, min=0, max=1)
    chi_square = ((counts - counts.mean()).square() / counts.mean()).sum()
    assert chi_square < 37.7  # the 99.9 % point for 15 degrees of freedom


def test_signs_are_balanced_and_normals_are_normal():
    noise, like = Noise.for_images(torch.arange(64), 5), torch.zeros(64, 1, 32, 32)
    assert set(noise.signs(like).unique().tolist()) == {-1.0, 1.0}
    assert abs(noise.signs(like).mean()) < 0.02
    normal = noise.normal(like)
    assert normal.isfinite().all()
    assert abs(normal.mean()) < 0.02
    assert abs(normal.std() - 1) < 0.02


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_normals_of_half_precision_are_finite(dtype):
    like = torch.zeros(64, 1, 32, 32)
    normal = Noise.for_images(torch.arange(64), 5).normal(like.to(dtype))
    assert normal.isfinite().all()
    assert torch.equal(normal, Noise.for_images(torch.arange(64), 5).normal(like).to(dtype))


@pytest.mark.parametrize("seed", [-1, 0, 2**63, 2**64 + 5, 10**30])
def test_any_integer_is_a_seed(seed):
    assert Noise.for_images(IDS, seed).uniform(LIKE).isfinite().all()


def test_double_precision_gets_finer_numbers():
    values = Noise.for_images(torch.arange(8)).uniform(torch.zeros(8, 1, 8, 8, dtype=torch.float64))
    assert not torch.equal(values, values.float().double())


def test_nothing_is_drawn_from_the_global_generator():
    before = torch.get_rng_state()
    Noise.for_images(IDS).normal(LIKE)
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("draw", ["uniform", "signs", "normal"])
def test_the_order_in_memory_is_that_of_the_images_and_changes_no_number(draw):
    noise, like = Noise.for_images(torch.arange(4), 3), torch.zeros(4, 3, 5, 5)
    last = like.contiguous(memory_format=torch.channels_last)
    plain, turned = getattr(noise, draw)(like), getattr(noise, draw)(last)
    assert turned.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(plain, turned)
