"""Which registered network would a checkpoint fit? Networks are built without memory, so asking is cheap."""

import torch
from torch import nn

from gamagat.models.loading.checkpoint import State
from gamagat.models.loading.weights import aligned, classifier, split_statistics
from gamagat.models.normalize import Normalize
from gamagat.registry import Options, Registry

Shapes = set[tuple[str, tuple[int, ...]]]


def nearest(registry: Registry[nn.Module], state: State) -> str:
    """One sentence that names the networks that fit, or the one that comes closest."""
    scores = {name: _likeness(registry, name, state) for name in registry.names()}
    best = max(scores.values(), default=0.0)
    names = [name for name, score in scores.items() if score == best]
    if best == 1.0:
        return f"Names and shapes fit {' or '.join(names)}: give that as the model"
    if best >= 0.5:
        return f"The nearest registered model is {names[0]} ({best:.0%} of the tensors agree)"
    return "No registered model comes near; give the network's own code as package.module:callable"


def _likeness(registry: Registry[nn.Module], name: str, state: State) -> float:
    """The share of tensors, of both sides together, that agree in name and shape."""
    net = _empty(registry, name)
    wanted = net.state_dict()
    if any(isinstance(module, Normalize) for module in net.modules()):
        state = split_statistics(state, wanted)[0]
    found, head = aligned(state, wanted), classifier(wanted)
    if head in found and found[head].shape[:1] != wanted[head].shape[:1]:
        wanted = _empty(registry, name, found[head].shape[0]).state_dict()
    own, theirs = _shapes(wanted), _shapes(found)
    return len(own & theirs) / max(1, len(own | theirs))


def _empty(registry: Registry[nn.Module], name: str, classes: int | None = None) -> nn.Module:
    """A network that exists in name and shape only, or one without tensors where that cannot be made."""
    options: Options = {"classes": classes} if classes and "classes" in registry[name].defaults() else {}
    try:
        with torch.device("meta"):
            return registry.make(name, **options)
    except Exception:
        # A plug-in whose network cannot be made this way is no candidate, and no reason to fail here.
        return nn.Module()


def _shapes(state: State) -> Shapes:
    # Old checkpoints lack the counters of batch normalisation.
    return {
        (key, tuple(value.shape)) for key, value in state.items() if not key.endswith("num_batches_tracked")
    }
