"""Linear networks, whose nearest adversarial images are known: planes between classes."""

import torch
from torch import Tensor, nn

from helpers import images_like


class Linear(nn.Module):
    """Planes between classes, so near to images of about middle grey that no pixel meets its end."""

    def __init__(self, classes: int, scale: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(classes, 48, generator=torch.Generator().manual_seed(0)))
        self.scale = scale

    def forward(self, images: Tensor) -> Tensor:
        return self.scale * (images - 0.5).flatten(1) @ self.weight.T

    def distances(self, x: Tensor, y: Tensor) -> Tensor:
        """How far the boundary with each class is; infinite for the label."""
        logits, weight = self(x).detach() / self.scale, self.weight.detach()
        gaps = logits.gather(1, y[:, None]) - logits
        return (gaps / (weight[y][:, None] - weight).norm(dim=2)).scatter(1, y[:, None], float("inf"))


def grey_images(model: Linear, nearest: float, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Images with their labels and distances, none of them nearer to a plane than this; so many at least."""
    x = 0.5 + 0.5 * (images_like(24)[..., :4, :4] - 0.5)
    y = model(x).argmax(1)
    distances = model.distances(x, y)
    far = distances.amin(1) > nearest
    assert far.sum() >= count
    return x[far], y[far], distances[far]
