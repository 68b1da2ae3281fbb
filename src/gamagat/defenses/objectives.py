"""What training minimises: one equation each, the mean over the batch."""

import torch.nn.functional as F
from torch import Tensor

from gamagat.pieces.losses import take, without
from gamagat.pieces.types import Labels, Scores


def cross_entropy(logits: Scores, y: Labels, smoothing: float = 0.0) -> Tensor:
    """CE(z, y)."""
    return F.cross_entropy(logits, y, label_smoothing=smoothing)


def drift(first: Scores, second: Scores) -> Tensor:
    """|| p - q ||^2 of the probabilities of two views; the gradient goes through both."""
    return (first.softmax(1) - second.softmax(1)).square().sum(1).mean()


def divergence(first: Scores, second: Scores) -> Tensor:
    """KL(p || q) of the probabilities of two views; the gradient goes through both."""
    return F.kl_div(second.log_softmax(1), first.log_softmax(1), reduction="batchmean", log_target=True)


def logit_gap(first: Scores, second: Scores) -> Tensor:
    """|| z - w ||^2 of the logits of two views."""
    return (first - second).square().sum(1).mean()


def margin(logits: Scores, y: Labels) -> Tensor:
    """How far the best wrong class is ahead of the true one, in probabilities."""
    probabilities = logits.softmax(1)
    return (without(probabilities, y).amax(1) - take(probabilities, y)).mean()
