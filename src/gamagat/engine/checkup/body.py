"""How the network behaves: what it carries with it, and whether it says the same thing twice."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from gamagat.engine.checkup.care import named_parts, parameters_of
from gamagat.engine.checkup.exam import Exam, listed, reason
from gamagat.engine.checkup.idle import idle_options
from gamagat.engine.findings import Finding
from gamagat.pieces.types import Scores
from gamagat.registry import parse_spec

SAME = 1e-4  # of the largest logit: what two passes over one batch may differ by on a GPU
ALIKE = 2e-2  # the same for batches of different sizes, also where a network computes in bf16 inside
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
MOVING = (nn.modules.dropout._DropoutNd, nn.modules.batchnorm._NormBase)

DICE = "Dropout and batch statistics make answers random, and numbers measured so are not those of gamagat"
MAYBE = "Containers do nothing by themselves, but layers of your own may answer otherwise than in gamagat"


def train_mode(model: Any, before: list[nn.Module]) -> Iterator[Finding]:
    """Modules that were in train mode when they came and are in eval mode now."""
    calmed = [part for part in before if not part.training]
    kinds = sorted({type(part).__name__ for part in calmed if isinstance(part, MOVING)})
    if calmed:
        yield Finding(
            "train-mode",
            "warn",
            f"{len(calmed)} of {len(named_parts(model))} modules are in train mode"
            + (f", {listed(kinds)} among them." if kinds else ", no dropout or batch norm among them."),
            f"{DICE if kinds else MAYBE}; it evaluates in eval mode regardless.",
            "Call model.eval() before you compare with numbers measured elsewhere.",
        )


def leftover_gradients(model: Any) -> Iterator[Finding]:
    """Gradients that training or another tool has left in the parameters."""
    left = [name for name, parameter in parameters_of(model) if parameter.grad is not None]
    if left:
        yield Finding(
            "leftover-gradients",
            "warn",
            f"{len(left)} of {len(parameters_of(model))} parameters hold gradients: {listed(left)}.",
            "They take as much memory as the weights, and the next optimiser step would use them; "
            "gamagat itself neither reads nor writes them.",
            "Call model.zero_grad(set_to_none=True).",
        )


def inference_weights(model: Any) -> Iterator[Finding]:
    """Weights that autograd will never touch."""
    if any(parameter.is_inference() for _, parameter in parameters_of(model)):
        yield Finding(
            "inference-weights",
            "stop",
            "the weights were made under torch.inference_mode().",
            "Autograd refuses such tensors, so no attack that follows gradients can run.",
            "Load the network outside of inference_mode.",
        )


def hooks(model: Any) -> Iterator[Finding]:
    """Hooks that are not torch's own."""
    hooked = [
        name or "the network itself"
        for name, part in named_parts(model)
        if any(_is_foreign(hook) for kind in HOOKS for hook in (getattr(part, kind, None) or {}).values())
    ]
    if hooked:
        yield Finding(
            "hooks",
            "warn",
            f"hooks are registered on {len(hooked)} modules: {listed(hooked)}.",
            "A hook can change outputs and gradients, and runs in every one of the many passes of an attack.",
            "Remove the hooks with the handles that registering them returned, unless they are the defence.",
        )


def low_precision(exam: Exam) -> Iterator[Finding]:
    """Weights or outputs of sixteen bits."""
    half = (torch.float16, torch.bfloat16)
    seen = {p.dtype for _, p in parameters_of(exam.case.model)} | {exam.outputs.dtype}
    names = sorted(str(dtype).removeprefix("torch.") for dtype in seen if dtype in half)
    if names:
        yield Finding(
            "low-precision",
            "warn",
            f"the network's weights or outputs are in {listed(names)}.",
            "Small gradients are rounded away, so attacks are weaker and the network looks more robust.",
            "Load the weights in float32: model.float().",
        )


def unsteady(exam: Exam) -> Iterator[Finding]:
    """Outputs or statistics that move although the network is in eval mode."""
    passes = [exam.ask(exam.probe)]
    moved = exam.case.kept.moved()
    passes += [exam.ask(exam.probe) for _ in range(1 if exam.case.quick else 3)]
    apart = max(_apart(again, passes[0]) for again in passes[1:])
    if moved:
        yield _moving(exam, moved)
    if apart > SAME:
        yield _random(exam, apart)
    if not moved and apart <= SAME:
        yield from _in_company(exam, passes[0])


def changed_input(exam: Exam) -> Iterator[Finding]:
    """A network that writes into the images it is handed."""
    exam.case.kept.rewind()
    given = exam.probe.clone()
    before = given._version
    with torch.no_grad():
        exam.case.model(given)
    # Writing what was there already is refused by autograd as well; `.data` is written to uncounted.
    if given._version != before or not torch.equal(given, exam.probe):
        yield Finding(
            "changed-input",
            "stop",
            "the network overwrites the images it is handed.",
            "The next pass sees other images, so an attack would start from the wrong place.",
            "Write x = x - mean in place of x -= mean or x.sub_(mean).",
        )


def _in_company(exam: Exam, together: Scores) -> Iterator[Finding]:
    """Whether an image's logits depend on the images beside it."""
    some = exam.probe[:8]
    try:
        alone = exam.ask(some[:1])
    except Exception as error:
        yield _batch_finding(f"the network fails on a single image: {reason(error)}.")
        return
    mixed = exam.ask(torch.cat([some, 1 - some]))[: len(some)]
    apart = max(_apart(alone, together[:1]), _apart(mixed, together[: len(some)]))
    if apart > ALIKE:
        yield _batch_finding(
            f"an image's logits change by {100 * apart:.2g} % with the images beside it{_culprits(exam)}."
        )


def _batch_finding(seen: str) -> Finding:
    return Finding(
        "batch-dependence",
        "stop",
        seen,
        "Attacks regroup images as some fall, so a verdict would depend on the company an image keeps.",
        "Use batch normalisation with running statistics (track_running_stats=True) in eval mode.",
    )


def _moving(exam: Exam, moved: list[str]) -> Finding:
    return Finding(
        "moving-statistics",
        "stop",
        f"{len(moved)} buffers change with every pass in eval mode: {listed(moved)}{_culprits(exam)}.",
        "The network that is attacked last is not the one attacked first, and clean accuracy drifts.",
        "Let eval() reach every module: do not override train() or pass training=True to batch_norm.",
    )


def _random(exam: Exam, apart: float) -> Finding:
    averaged = exam.case.attacks and all(_averages(spec) for spec in exam.case.attacks)
    return Finding(
        "non-determinism",
        "warn" if averaged else "stop",
        f"two passes over the same images differ by {100 * apart:.2g} % of the largest logit"
        f"{_culprits(exam)}.",
        "A lucky draw counts as a fooled image and single gradients are noise: the accuracy means little.",
        "Switch the randomness off (dropout with training=self.training); if it is the defence, attack the "
        "average over many draws, as autoattack:version=rand and apgd-ce:eot=20 do.",
    )


def _averages(spec: str) -> bool:
    """Whether an attack looks at the network several times for each gradient."""
    name, options = parse_spec(spec)
    averages = options.get("version") == "rand" or options.get("eot", "1") != "1"
    return averages and "eot" not in idle_options(name, options)


def _culprits(exam: Exam) -> str:
    """The layers that eval mode did not calm, in words."""
    wild = [name for name, part in named_parts(exam.case.model) if _is_wild(part)]
    return f"; look at {listed(wild)}" if wild else ""


def _is_wild(part: nn.Module) -> bool:
    batch_norm = isinstance(part, nn.modules.batchnorm._BatchNorm)
    return isinstance(part, MOVING) and (part.training or (batch_norm and part.running_mean is None))


def _apart(left: Scores, right: Scores) -> float:
    """The largest difference in units of the largest logit."""
    apart = (left - right).abs().max() / right.abs().max().clamp_min(1e-30)
    return float(apart.nan_to_num(nan=float("inf")))


def _is_foreign(hook: Any) -> bool:
    origin = getattr(getattr(hook, "func", hook), "__module__", None) or ""
    return not origin.startswith("torch.")
