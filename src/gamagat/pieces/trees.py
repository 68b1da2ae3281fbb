"""Trees of tensors whose first dimension is the image: what lets any image leave any loop at any step."""

from typing import Any, TypeVar

import torch
from torch import Tensor

from gamagat.pieces.types import Images, PerExample

Tree = TypeVar("Tree")


def pick(tree: Tree, index: Tensor) -> Tree:
    """The same tree for the chosen images only: `index` is a mask or a list of positions."""
    # A GPU's host waits for the positions of a mask: once here, not once for every tensor of the tree.
    places = index.nonzero().flatten() if index.dtype == torch.bool else index
    return _pick(tree, places)  # type: ignore[no-any-return]


def _pick(tree: Any, index: Tensor) -> Any:
    if tree is None:
        return None
    if isinstance(tree, Tensor):
        return tree[index]
    branches = [_pick(branch, index) for branch in tree]
    return type(tree)(*branches) if hasattr(tree, "_fields") else tuple(branches)


def join(first: Tree, second: Tree) -> Tree:
    """The images of two trees of the same form in one."""
    return _join(first, second)  # type: ignore[no-any-return]


def _join(first: Any, second: Any) -> Any:
    if first is None:
        return None
    if isinstance(first, Tensor):
        return torch.cat([first, second])
    branches = [_join(*pair) for pair in zip(first, second, strict=True)]
    return type(first)(*branches) if hasattr(first, "_fields") else tuple(branches)


def lift(values: PerExample, like: Images) -> Tensor:
    """One number per image, shaped to be multiplied with images."""
    return values.view(-1, *[1] * (like.ndim - 1))


def rows(images: Images) -> Tensor:
    """The pixels of each image in a row, in the order in which they lie in memory: nothing is moved."""
    if images.ndim == 4 and images.is_contiguous(memory_format=torch.channels_last):
        images = images.permute(0, 2, 3, 1)
    return images.flatten(1)
