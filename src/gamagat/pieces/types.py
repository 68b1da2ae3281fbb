"""Tensor names shared by every module; the only place that spells shapes."""

from collections.abc import Callable
from typing import Annotated

from torch import Tensor

Images = Annotated[Tensor, "batch channel height width"]  # pixels in [0, 1]; perturbations share the shape
Scores = Annotated[Tensor, "batch classes"]  # logits, probabilities, or a gradient with respect to logits
Labels = Annotated[Tensor, "batch"]  # int64 class numbers
PerExample = Annotated[Tensor, "batch"]  # one real number per image
Counts = Annotated[Tensor, "batch"]  # one int64 per image
Mask = Annotated[Tensor, "batch"]  # one bool per image

Model = Callable[[Images], Scores]  # images in [0, 1] to logits
Schedule = Callable[[int], float]  # a step or an epoch to a number
