"""Attack losses: one number per image, larger means closer to fooled, each with its exact slope.

Probabilities round to 0 and 1 once logits are large, and their gradients with them: in float32 the true
class's half of the margin's gradient is gone at a logit gap of 17 and all of it at 104. So slopes are never
differentiated through a softmax. They are written down in terms of how the wrong classes share among
themselves (`Split`), and carry their size as a logarithm (`Slope`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F

from gamagat.errors import ConfigError
from gamagat.pieces.types import Labels, PerExample, Schedule, Scores


class View(NamedTuple):
    """All that a loss may look at."""

    logits: Scores
    labels: Labels
    at: Callable[[Schedule], PerExample]  # a schedule's value at each image's own step
    target: Labels | None = None
    reference: Scores | None = None  # logits of the guiding image


class Slope(NamedTuple):
    """A gradient with respect to the logits: direction * exp(log_size), so that a tiny one is never zero."""

    direction: Scores
    log_size: PerExample

    def plus(self, weight: PerExample, other: Slope) -> Slope:
        """self + weight * other."""
        larger = torch.maximum(self.log_size, other.log_size)
        ours = (self.log_size - larger).exp()[:, None]
        theirs = (weight * (other.log_size - larger).exp())[:, None]
        return Slope(ours * self.direction + theirs * other.direction, larger)

    def rescaled(self) -> Scores:
        """The direction with its largest entry at one: it survives any precision on its way back."""
        return self.direction / self._largest()[:, None]

    def log_scale(self) -> PerExample:
        """The logarithm of what `rescaled` divides by."""
        return self.log_size + self._largest().log()

    def _largest(self) -> PerExample:
        largest = self.direction.abs().amax(1)
        return torch.where(largest > 0, largest, 1.0)


@dataclass(frozen=True, slots=True)
class Loss:
    """A function of the logits and its gradient."""

    value: Callable[[View], PerExample]
    slope: Callable[[View], Slope]
    guided: bool = False  # whether it looks at the reference


class Split(NamedTuple):
    """Softmax taken apart so that nothing rounds to one: p_label = right, p_k = wrong * share_k."""

    share: Scores  # softmax over the wrong classes; zero at the label
    right: PerExample
    wrong: PerExample
    log_wrong: PerExample


def split(logits: Scores, labels: Labels) -> Split:
    """Take the probabilities of these logits apart."""
    others = without(logits, labels)
    gap = take(logits, labels) - others.logsumexp(1)
    return Split(others.softmax(1), gap.sigmoid(), (-gap).sigmoid(), F.logsigmoid(-gap))


def take(scores: Scores, classes: Labels) -> PerExample:
    """Each image's score for one class."""
    return scores.gather(1, classes[:, None]).squeeze(1)


def without(scores: Scores, classes: Labels) -> Scores:
    """Scores with one class of each image out of the running."""
    return scores.scatter(1, classes[:, None], float("-inf"))


def rival(view: View) -> Labels:
    """The target, or the best wrong class if there is none."""
    return without(view.logits, view.labels).argmax(1) if view.target is None else view.target


def _one_hot(classes: Labels, like: Scores) -> Scores:
    return torch.zeros_like(like).scatter(1, classes[:, None], 1.0)


def _pull(lead: Scores, parts: Split, labels: Labels) -> Slope:
    """The slope of a function of probabilities; `lead` is its derivative for each class less the label's."""
    mean = (parts.share * lead).sum(1)
    direction = parts.share * (lead - (parts.wrong * mean)[:, None])
    return Slope(direction.scatter(1, labels[:, None], (-parts.right * mean)[:, None]), parts.log_wrong)


def _cross_entropy(view: View) -> PerExample:
    return F.cross_entropy(view.logits, view.labels, reduction="none")


def _cross_entropy_slope(view: View) -> Slope:
    parts = split(view.logits, view.labels)
    return Slope(parts.share - _one_hot(view.labels, parts.share), parts.log_wrong)


def _log_odds(view: View) -> PerExample:
    return without(view.logits, view.labels).logsumexp(1) - take(view.logits, view.labels)


def _log_odds_slope(view: View) -> Slope:
    direction = _cross_entropy_slope(view).direction
    return Slope(direction, torch.zeros_like(direction[:, 0]))


def _logit_margin(view: View) -> PerExample:
    return take(view.logits, rival(view)) - take(view.logits, view.labels)


def _logit_margin_slope(view: View) -> Slope:
    logits = view.logits
    return Slope(
        _one_hot(rival(view), logits) - _one_hot(view.labels, logits), torch.zeros_like(logits[:, 0])
    )


def _probability_margin(view: View) -> PerExample:
    probs = view.logits.softmax(1)
    return take(probs, rival(view)) - take(probs, view.labels)


def _probability_margin_slope(view: View) -> Slope:
    parts = split(view.logits, view.labels)
    return _pull(1 + _one_hot(rival(view), parts.share), parts, view.labels)


def _target_likelihood(view: View) -> PerExample:
    return -F.cross_entropy(view.logits, _given(view.target, "a target class"), reduction="none")


def _target_likelihood_slope(view: View) -> Slope:
    target = _given(view.target, "a target class")
    return Slope(_one_hot(target, view.logits) - view.logits.softmax(1), torch.zeros_like(view.logits[:, 0]))


def _drift(view: View) -> PerExample:
    reference = _given(view.reference, "a reference")
    return (view.logits.softmax(1) - reference.softmax(1)).square().sum(1)


def _drift_slope(view: View) -> Slope:
    now, then = (split(z, view.labels) for z in (view.logits, _given(view.reference, "a reference")))
    moved = now.wrong[:, None] * now.share - then.wrong[:, None] * then.share
    lead = 2 * (moved - (then.wrong - now.wrong)[:, None])
    return _pull(lead, now, view.labels)


def _divergence(view: View) -> PerExample:
    then = _given(view.reference, "a reference").log_softmax(1)
    return (then.exp() * (then - view.logits.log_softmax(1))).sum(1)


def _divergence_slope(view: View) -> Slope:
    then = _given(view.reference, "a reference").softmax(1)
    return Slope(view.logits.softmax(1) - then, torch.zeros_like(then[:, 0]))


def _dlr(view: View) -> PerExample:
    if view.logits.shape[1] < 3:
        return _logit_margin(view)
    top = view.logits.topk(3, dim=1).values
    return _logit_margin(view) / (top[:, 0] - top[:, 2] + 1e-12)


def _dlr_targeted(view: View) -> PerExample:
    if view.logits.shape[1] < 4:
        return _dlr(view)
    top = view.logits.topk(4, dim=1).values
    return _logit_margin(view) / (top[:, 0] - (top[:, 2] + top[:, 3]) / 2 + 1e-12)


cross_entropy = Loss(_cross_entropy, _cross_entropy_slope)
log_odds = Loss(
    _log_odds, _log_odds_slope
)  # rises and falls with the cross-entropy, but never rounds to zero
logit_margin = Loss(_logit_margin, _logit_margin_slope)
probability_margin = Loss(_probability_margin, _probability_margin_slope)
target_likelihood = Loss(_target_likelihood, _target_likelihood_slope)  # minus the target's cross-entropy
drift = Loss(_drift, _drift_slope, guided=True)  # squared distance of the probabilities from the reference's

divergence = Loss(_divergence, _divergence_slope, guided=True)  # of the probabilities from the reference's


def guided(base: Loss, weight: Schedule) -> Loss:
    """base + lambda_t * ||p(x + delta) - p(reference)||^2, the paper's equation 1."""

    def value(view: View) -> PerExample:
        return base.value(view) + view.at(weight) * drift.value(view)

    def slope(view: View) -> Slope:
        now, plain = view.at(weight), base.slope(view)
        if now.device.type == "cpu" and not now.any():  # a GPU would have to be waited for
            return plain
        return plain.plus(now, drift.slope(view))

    return Loss(value, slope, guided=True)


def by_autograd(loss: Loss) -> Loss:
    """The same loss, differentiated through the softmax: its slope saturates as published ones do."""

    def slope(view: View) -> Slope:
        logits = view.logits.detach().requires_grad_()
        with torch.enable_grad():
            (direction,) = torch.autograd.grad(loss.value(view._replace(logits=logits)).sum(), logits)
        return Slope(direction, torch.zeros_like(direction[:, 0]))

    return Loss(loss.value, slope, loss.guided)


# The difference of logits ratio (Croce and Hein, 2020): the logit margin, free of the scale of the logits.
# The second one has a target in view and looks at four classes; with fewer it is the first, and with two
# classes, where there is no third logit to compare with, both are the plain margin.
dlr = by_autograd(Loss(_dlr, _logit_margin_slope))
dlr_targeted = by_autograd(Loss(_dlr_targeted, _logit_margin_slope))


def _given(value: Scores | Labels | None, what: str) -> Scores:
    if value is None:
        raise ConfigError(f"this loss needs {what}; aim the attack with each_target or give it a guide")
    return value
