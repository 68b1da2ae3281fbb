"""What is checked at the door, before any attack: one clear sentence beats an hour of wrong numbers."""

from typing import Any

import torch
from torch import nn

from gamagat.attacks.network import Network, is_memory
from gamagat.data.core import Dataset, outside
from gamagat.errors import ConfigError, DataError, ModelError
from gamagat.pieces.types import Images, Labels, Model, Scores


def check_batch_size(size: int | None) -> None:
    """A batch has a number of images that a machine could hold."""
    if size is not None and not 1 <= size <= 1 << 24:
        raise ConfigError(f"the batch size must be at least 1 and at most {1 << 24}, got {size}")


def check_images(images: Any, labels: Any) -> None:
    """Images are a float batch in [0, 1], with as many labels as images."""
    if not isinstance(images, torch.Tensor) or not isinstance(labels, torch.Tensor):
        raise DataError(
            f"images and labels must be tensors, got {type(images).__name__}, {type(labels).__name__}"
        )
    if images.ndim != 4 or len(images) == 0:
        raise DataError(
            f"images must have the shape (batch, channel, height, width) with at least one image, "
            f"got {tuple(images.shape)}"
        )
    if not images.is_floating_point():
        raise DataError(f"images must be floats in [0, 1], got {images.dtype}; write images.float() / 255")
    if labels.shape != images.shape[:1] or labels.is_floating_point():
        raise DataError(
            f"labels must be {len(images)} whole numbers, one for each image, "
            f"got {tuple(labels.shape)} of {labels.dtype}"
        )
    if not bool(((images >= 0) & (images <= 1)).all()):
        raise DataError(f"pixels must lie in [0, 1], {outside(images)}")


def check_door(model: Model, data: Dataset, device: torch.device, force: bool = False) -> None:
    """Look at the first images, all labels and ids, and what the network makes of them."""
    images, labels = data.batch(torch.arange(min(16, len(data))), device)
    check_images(images, labels)
    check_labels(data.labels, check_model(model, images, force))
    if len(torch.unique(data.ids)) != len(data):
        raise DataError(f"ids of {data.name!r} must be unique: verdicts are kept under them")


def check_labels(labels: Labels, classes: int) -> None:
    """Labels are numbers of classes that the network knows."""
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= classes:
        raise DataError(
            f"labels run from {low} to {high}, but the network's {classes} outputs are numbered 0 to "
            f"{classes - 1}; use a network for these classes, or renumber the labels"
        )


@torch.no_grad()
def check_model(model: Model, images: Images, force: bool = False) -> int:
    """The network returns one row of finite logits for each image; the number of its classes."""
    model = model.model if isinstance(model, Network) else model  # which would say what is wrong in its way
    logits = _answer(model, images)
    if len(images) > 1:  # an attack ends with the one image that stands longest
        _answer(model, images[:1])
    if logits.shape[1] < 2:
        raise ModelError(
            f"the network must tell at least 2 classes apart, got {logits.shape[1]} output; of one logit z "
            "make two, torch.cat([torch.zeros_like(z), z], 1)"
        )
    if not logits.is_floating_point():
        raise ModelError(f"the network must return floating-point logits, got {logits.dtype}")
    if not bool(logits.isfinite().all()):
        raise ModelError(
            "the network returns NaN or infinite logits on clean images; check weights and inputs"
        )
    if not force and _are_probabilities(logits):
        raise ModelError(
            "the network returns probabilities, not logits: every row is in [0, 1] and sums to 1; "
            "take off its last softmax, or attacks see gradients that saturation has killed (--force goes on)"
        )
    return int(logits.shape[1])


def _answer(model: Model, images: Images) -> Scores:
    """What the network makes of images: one row for each."""
    try:
        logits = model(images.clone())
    except Exception as error:
        if is_memory(error) or isinstance(error, ModelError):  # of a program, which has said what is wrong
            raise
        raise ModelError(
            f"the network cannot take images of shape {tuple(images.shape)} (batch, channel, height, width): "
            f"{_misfit(model, images) or said(error)}; give it images of the kind that it was made for"
        ) from error
    if not isinstance(logits, torch.Tensor) or logits.ndim != 2 or len(logits) != len(images):
        what = tuple(logits.shape) if isinstance(logits, torch.Tensor) else type(logits).__name__
        raise ModelError(
            f"the network must return logits of shape ({len(images)}, classes) for {len(images)} images, "
            f"got {what}; wrap it so that it returns them alone, as one tensor"
        )
    return logits


def said(error: Exception) -> str:
    """What an error says, on one line."""
    return " ".join(cause(error).split()).removesuffix(".")[:300] or type(error).__name__


def cause(error: Exception) -> str:
    """What an error says; TorchScript says it in the last line, behind two tracebacks."""
    lines = str(error).strip().splitlines()
    scripted = len(lines) > 1 and "in the TorchScript interpreter" in lines[0]
    return lines[-1].removeprefix("RuntimeError: ") if scripted else str(error)


def _misfit(model: Model, images: Images) -> str:
    """Why images do not fit, where it is their channels: torch tells it by the shape of a weight."""
    parts = model.modules() if isinstance(model, nn.Module) else ()
    first = next((part for part in parts if isinstance(part, nn.Conv2d)), None)
    if first is None or first.in_channels == images.shape[1]:
        return ""
    return f"they have {images.shape[1]} channels, and its first convolution takes {first.in_channels}"


def _are_probabilities(logits: Scores) -> bool:
    in_range = bool(((logits >= 0) & (logits <= 1)).all())
    return in_range and bool(((logits.float().sum(1) - 1).abs() < 1e-3).all())
