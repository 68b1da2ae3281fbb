"""The fused operation against the two that it stands for."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from gamagat.engine.quick.convolution import conv_back, conv_relu, turned

SHAPES = [([1, 1], [0, 0]), ([1, 1], [1, 1]), ([2, 2], [1, 1]), ([2, 1], [0, 2]), ([3, 3], [2, 2])]


def parts(dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
    """Images, weights and a bias."""
    dice = torch.Generator().manual_seed(3)
    shapes = ((2, 3, 7, 6), (4, 3, 3, 3), (4,))
    x, weight, bias = (torch.randn(shape, generator=dice, dtype=dtype) for shape in shapes)
    return x, weight, bias


@pytest.mark.parametrize(("stride", "padding"), SHAPES)
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_it_is_the_convolution_and_the_relu(stride, padding, layout):
    x, weight, bias = parts()
    x = x.contiguous(memory_format=layout).requires_grad_()
    got, expected = (
        conv_relu(x, weight, turned(weight), bias, stride, padding),
        F.conv2d(x, weight, bias, stride, padding).relu(),
    )
    torch.testing.assert_close(got, expected)
    pull = torch.randn(expected.shape, generator=torch.Generator().manual_seed(4))
    slopes = [torch.autograd.grad(out, x, pull)[0] for out in (got, expected)]
    torch.testing.assert_close(*slopes)
    assert slopes[0].abs().sum() > 0


@pytest.mark.parametrize(("stride", "padding"), SHAPES)
def test_its_gradient_is_the_slope_of_its_values(stride, padding):
    x, weight, bias = parts(torch.float64)
    assert torch.autograd.gradcheck(
        lambda images: conv_relu(images, weight, turned(weight), bias, stride, padding), x.requires_grad_()
    )


def test_the_gradient_goes_to_the_images_alone():
    x, weight, bias = parts()
    weight.requires_grad_()
    out = conv_relu(x.requires_grad_(), weight, turned(weight), bias, [1, 1], [1, 1])
    to_x, to_weight = torch.autograd.grad(out.sum(), (x, weight), allow_unused=True)
    assert to_x.shape == x.shape
    assert to_weight is None


@pytest.mark.parametrize(("stride", "padding"), SHAPES)
def test_something_may_be_added_before_the_relu(stride, padding):
    x, weight, bias = parts(torch.float64)
    other = torch.randn(F.conv2d(x, weight, bias, stride, padding).shape, dtype=torch.float64)
    got = conv_relu(x, weight, turned(weight), bias, stride, padding, other)
    torch.testing.assert_close(got, (F.conv2d(x, weight, bias, stride, padding) + other).relu())
    assert torch.autograd.gradcheck(
        lambda images, more: conv_relu(images, weight, turned(weight), bias, stride, padding, more),
        (x.requires_grad_(), other.requires_grad_()),
    )


def test_a_value_of_zero_has_no_slope_as_with_relu():
    x = torch.zeros(1, 1, 2, 2, requires_grad=True)
    out = conv_relu(x, *[torch.ones(1, 1, 1, 1)] * 2, torch.zeros(1), [1, 1], [0, 0])
    assert torch.autograd.grad(out.sum(), x)[0].abs().sum() == 0


def test_the_compiler_is_told_the_truth_about_it():
    x, weight, bias = parts()
    for other in (None, torch.randn(2, 4, 4, 4)):
        torch.library.opcheck(
            conv_relu, (x.requires_grad_(), weight, turned(weight), bias, [2, 1], [1, 0], other)
        )
    grad = F.conv2d(x.detach(), weight, bias, [2, 1], [1, 0])
    torch.library.opcheck(conv_back, (grad, x.detach(), weight, turned(weight), [2, 1], [1, 0]))
