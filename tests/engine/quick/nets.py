"""Networks that stand-ins are tried on: the usual kind, and what somebody might bring along."""

import random
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from model_helpers import scramble
from torch import Tensor, nn

from gamagat.pieces.gradients import logits_of

Front = Callable[[nn.Module, Tensor], Tensor]


def block(incoming: int, outgoing: int, relu: nn.Module | None = None, **options: Any) -> list[nn.Module]:
    """A convolution, its batch norm and its ReLU."""
    return [nn.Conv2d(incoming, outgoing, 3, **options), nn.BatchNorm2d(outgoing), relu or nn.ReLU()]


def usual() -> nn.Sequential:
    """Two such blocks and a linear layer, for 8 x 8 images in three colours."""
    layers = [*block(3, 8, padding=1), *block(8, 12, stride=2, bias=False)]
    return scramble(nn.Sequential(*layers, nn.Flatten(), nn.Linear(12 * 9, 5)))  # type: ignore[return-value]


class Around(nn.Module):
    """The usual network, and what somebody does with it."""

    def __init__(self, front: Front, net: nn.Module | None = None) -> None:
        super().__init__()
        self.net, self.front = net or usual(), front

    def forward(self, images: Tensor) -> Tensor:
        return self.front(self.net, images)


class Shared(nn.Module):
    """One convolution behind the ends that `how` makes of its outputs."""

    def __init__(self, how: Callable[["Shared", Tensor], Tensor], **options: Any) -> None:
        super().__init__()
        options = {"kernel_size": 3, "padding": 1, "bias": False} | options
        self.how, self.conv, self.relu = how, nn.Conv2d(4, 4, **options), nn.ReLU(inplace=True)
        self.norm, self.other = nn.BatchNorm2d(4), nn.BatchNorm2d(4, affine=False)
        self.bare = nn.BatchNorm2d(4, track_running_stats=False)
        self.last = nn.Linear(4 * 9, 5)
        scramble(self.eval())

    def forward(self, images: Tensor) -> Tensor:
        images = torch.cat([images, images.mean(1, keepdim=True)], 1)
        return self.last(F.adaptive_avg_pool2d(self.how(self, images), 3).flatten(1))


class Straight(torch.autograd.Function):
    """Coarse pixels whose gradient passes straight through."""

    @staticmethod
    def forward(ctx: Any, images: Tensor) -> Tensor:
        return (images * 8).round() / 8

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return grads[0]


class Viewing(nn.Module):
    """Views what others flatten, and returns something else for those who ask."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.last = usual()[:6], nn.Linear(108, 5)

    def forward(self, images: Tensor, features: bool = False, mask: Tensor | None = None) -> Tensor:
        if mask is not None:
            images = images * mask
        seen = self.body(images).view(-1, 108)
        return seen if features else self.last(seen)


class Remembering(nn.Module):
    """Uses the number of the images that it saw last."""

    def __init__(self) -> None:
        super().__init__()
        self.net, self.count = usual(), 0

    def forward(self, images: Tensor) -> Tensor:
        if isinstance(images, Tensor):
            self.count = len(images)
        return self.net(images.reshape(self.count, 3, 8, 8))


class OneOf(nn.Module):
    """Lets chance decide which of its members answers."""

    def __init__(self, choose: Callable[[], int]) -> None:
        super().__init__()
        self.members, self.choose = nn.ModuleList([usual(), usual()]), choose
        with torch.no_grad():
            self.members[1][7].bias.add_(1.0)

    def forward(self, images: Tensor) -> Tensor:
        return self.members[self.choose()](images)


def own_dice() -> Callable[[], int]:
    dice = random.Random(0)
    return lambda: dice.randrange(2)


def noisy(net: nn.Module, images: Tensor) -> Tensor:
    return net(images + 0.1 * torch.rand(images.shape[1:]))


def controlled(net: nn.Module, images: Tensor) -> Tensor:
    return net(images) if images.sum() > 0 else net(-images)


def written_over(net: nn.Module, images: Tensor) -> Tensor:
    return net(images.sub_(0.4).div_(0.2))


def weighted(wrap: Callable[[nn.Module], object]) -> nn.Module:
    """The usual network with weights that are computed from others."""
    net = usual()
    for place in (0, 3, 7):
        wrap(net[place])
    return net.eval()


def both(model: Any, images: Tensor) -> tuple[Tensor, Tensor]:
    """Logits, and the gradient of something that depends on all of them."""
    images = images.detach().clone().requires_grad_()
    logits = logits_of(model, images)
    weights = torch.linspace(-1, 1, logits.shape[1], dtype=logits.dtype)
    (grad,) = torch.autograd.grad((logits * weights).sum(), images)
    return logits.detach(), grad


def alike(model: Any, other: Any, images: Tensor, off: float = 1e-4, share: float = 1.0) -> None:
    """Both say the same of these images, in values and, for a share of the images, in gradients."""
    (logits, grad), (others, slope) = both(model, images), both(other, images)
    assert float((logits - others).abs().max() / logits.abs().max()) < off
    gap = (grad - slope).flatten(1).norm(dim=1)
    same = gap <= 3 * off * grad.flatten(1).norm(dim=1)
    assert float(same.float().mean()) >= share
    assert float(grad.abs().max()) > 0


def nearly(model: Any, other: Any, images: Tensor) -> None:
    """The same as well as half precision can; next to the bend of a ReLU it may be on the other side."""
    alike(model, other, images, off=0.05, share=0.7)
