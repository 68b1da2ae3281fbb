"""Every gradient attack against a second, plain writing of it, with its settings spelled out once more."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gamagat.attacks.combine import entries
from gamagat.attacks.core import ATTACKS
from gamagat.pieces.noise import Noise
from gamagat.pieces.threat import LINF, ThreatModel
from helpers import images_like, seeded, tiny_network

EPS = 0.1
Loss = Callable[[Tensor, Tensor, Tensor | None], Tensor]


def cross_entropy(z: Tensor, y: Tensor, _: Tensor | None) -> Tensor:
    return F.cross_entropy(z, y, reduction="sum")


def towards(z: Tensor, y: Tensor, target: Tensor | None) -> Tensor:
    return -F.cross_entropy(z, target, reduction="sum")


def margin(scores: Tensor, y: Tensor, target: Tensor | None) -> Tensor:
    rows = torch.arange(len(y))
    rival = scores[rows, target]
    if target is None:
        others = scores.clone()
        others[rows, y] = -torch.inf
        rival = others.amax(1)
    return (rival - scores[rows, y]).sum()


def probability_margin(z: Tensor, y: Tensor, target: Tensor | None) -> Tensor:
    return margin(z.softmax(1), y, target)


def gradient(model: nn.Module, image: Tensor, loss: Callable[[Tensor], Tensor]) -> Tensor:
    image = image.clone().requires_grad_()
    return torch.autograd.grad(loss(model(image)), image)[0]


def box(x: Tensor, image: Tensor) -> Tensor:
    return torch.minimum(torch.maximum(image, x - EPS), x + EPS).clamp(0, 1)


def rewritten(
    model: nn.Module,
    x: Tensor,
    y: Tensor,
    start: Tensor,
    *,
    loss: Loss,
    steps: int,
    rate: float,
    drops: tuple[int, ...] = (),
    factor: float = 1.0,
    weight: float = 0.0,
    fade: int | None = None,
    kind: str = "sign",
    target: Tensor | None = None,
    guide: str = "start",
) -> Tensor:
    """The attack as one loop; rates in units of eps, moments in steps."""
    image, reference = start, model(x if guide == "clean" else start).softmax(1).detach()
    first = second = torch.zeros_like(x)
    for t in range(steps):
        if t in drops:
            rate *= factor
        lam = weight if fade is None else weight * max(0.0, 1 - t / fade)

        def total(z: Tensor, lam: float = lam) -> Tensor:
            return loss(z, y, target) + lam * (z.softmax(1) - reference).square().sum()

        g = gradient(model, image, total)
        if kind == "sign":
            image = box(x, image + rate * EPS * g.sign())
        elif kind == "wolfe":
            image = box(x, x + (1 - rate) * (image - x) + rate * EPS * g.sign())
        else:
            # Adam sees each image's gradient for a logit gradient whose largest entry is one.
            g = g / logit_scale(model, image, total)[:, None, None, None]
            first, second = 0.5 * first + 0.5 * g, 0.9 * second + 0.1 * g * g
            mean, spread = first / (1 - 0.5 ** (t + 1)), (second / (1 - 0.9 ** (t + 1))).sqrt()
            image = box(x, image + rate * EPS * torch.where(spread > 0, mean / spread, 0.0))
    return image


def logit_scale(model: nn.Module, image: Tensor, loss: Callable[[Tensor], Tensor]) -> Tensor:
    logits = model(image).detach().requires_grad_()
    return torch.autograd.grad(loss(logits), logits)[0].abs().amax(1)


GAMA = {"loss": probability_margin, "steps": 100, "weight": 50.0, "fade": 25, "drops": (60, 85)}
PGD = GAMA | {"rate": 2.0, "factor": 0.1}
WOLFE = GAMA | {"rate": 0.5, "factor": 0.2, "kind": "wolfe"}
MNIST = {"weight": 5.0, "fade": 50, "drops": (50, 75)}
MT = {"loss": margin, "steps": 100, "rate": 1.0, "drops": (50, 75), "factor": 0.1}

# name, preset, which single run of it, where it starts, settings
CASES: list[tuple[str, str | None, int, str, dict[str, Any]]] = [
    ("fgsm", None, 0, "image", {"loss": cross_entropy, "steps": 1, "rate": 1.0}),
    ("r-fgsm", None, 0, "half corner", {"loss": cross_entropy, "steps": 1, "rate": 0.5}),
    ("ifgsm", None, 0, "image", {"loss": cross_entropy, "steps": 7, "rate": 1 / 7}),
    ("ifgsm", "mnist", 0, "image", {"loss": cross_entropy, "steps": 40, "rate": 1 / 40}),
    ("pgd", None, 0, "uniform", {"loss": cross_entropy, "steps": 100, "rate": 0.25}),
    ("pgd", "mnist", 0, "uniform", {"loss": cross_entropy, "steps": 100, "rate": 0.01 / 0.3}),
    ("pgd-margin", None, 0, "uniform beyond", MT | {"rate": 2.0, "drops": (60, 85)}),
    ("pgd-targeted", None, 0, "uniform", {"loss": towards, "steps": 500, "rate": 0.25, "target": "least"}),
    ("multitargeted", None, 1, "uniform", MT | {"target": 2}),
    ("multitargeted", "mnist", 4, "uniform", MT | {"target": 5}),
    ("gama-pgd", None, 0, "corner", PGD),
    ("gama-pgd", "mnist", 0, "corner", PGD | MNIST | {"rate": 1.0}),
    ("gama-fw", None, 0, "corner", WOLFE),
    ("gama-fw", "mnist", 0, "corner", WOLFE | MNIST),
    ("gama-mt", None, 1, "corner", PGD | {"target": 2}),
    ("gama-mt", "mnist", 2, "corner", PGD | MNIST | {"rate": 1.0, "target": 3}),
    ("ga-ce", None, 0, "corner", PGD | {"loss": cross_entropy}),
    ("ga-ce", "mnist", 0, "corner", PGD | MNIST | {"loss": cross_entropy, "rate": 1.0}),
    ("gama-adam", None, 0, "corner", GAMA | {"rate": 1.0, "factor": 0.1, "kind": "adam"}),
    ("gama-adam", "mnist", 0, "corner", GAMA | MNIST | {"rate": 1.0, "factor": 0.1, "kind": "adam"}),
    ("gama-pgd-10", None, 0, "corner", PGD | {"steps": 10, "weight": 1.0, "fade": None, "drops": (6, 9)}),
    ("gama-fw-10", None, 0, "corner", WOLFE | {"steps": 10, "weight": 1.0, "fade": None, "drops": ()}),
]

GUIDED = ("gama-pgd", "gama-fw", "gama-mt", "ga-ce", "gama-adam")  # those whose guide can be chosen


def guides_of(name: str) -> list[dict[str, str]]:
    """The options to try: none, that is the default, and every guide where there is a choice."""
    return [{}, {"guide": "start"}, {"guide": "clean"}] if name in GUIDED else [{}]


@pytest.fixture(scope="module")
def problem() -> tuple[nn.Module, Tensor, Tensor]:
    """One class wins by so much that no image falls: the whole path is compared."""
    model, x = seeded(lambda: tiny_network(8)).double(), images_like(5).double()
    with torch.no_grad():
        model[3].bias[2] += 4.0
        return model, x, model(x).argmax(1)


def start_of(kind: str, x: Tensor, noise: Noise) -> Tensor:
    deltas = {
        "image": torch.zeros_like(x),
        "corner": EPS * noise.signs(x),
        "half corner": EPS / 2 * noise.signs(x),
        "uniform": EPS * (2 * noise.uniform(x) - 1),
    }
    start = x + deltas[kind.removesuffix(" beyond")]
    return start if kind.endswith("beyond") else start.clamp(0, 1)


def target_of(choice: Any, model: nn.Module, x: Tensor, y: Tensor) -> Tensor | None:
    if choice is None:
        return None
    order = model(x).argsort(1, descending=True)  # the label comes first
    return order[:, -1] if choice == "least" else order[:, choice]


def test_every_gradient_attack_is_here():
    elsewhere = {"apgd-ce", "apgd-dlr", "apgd-t", "fab", "fab-t", "square", "spsa", "cw", "ddn", "autoattack"}
    assert {case[0] for case in CASES} | elsewhere >= set(ATTACKS.names())


@pytest.mark.parametrize(
    ("name", "preset", "run", "start", "settings", "options"),
    [(*case, options) for case in CASES for options in guides_of(case[0])],
)
def test_the_attack_is_what_its_rewrite_says(name, preset, run, start, settings, options, problem):
    model, x, y = problem
    noise = Noise.for_images(torch.arange(len(x)), seed=9)
    _, attack = list(entries(name, ATTACKS.make(name, preset, **options)))[run]
    ours = attack(model, x, y, ThreatModel(LINF, EPS), noise)
    assert (ours.step == -1).all()  # the whole path was walked
    aimed = name in ("gama-mt", "multitargeted")
    begin = start_of(start, x, noise.fold(run + 1) if aimed else noise)
    target = target_of(settings.get("target"), model, x, y)
    theirs = rewritten(model, x, y, begin, **settings | options | {"target": target})
    assert (ours.images - theirs).abs().max() < 1e-6 * (100 if settings.get("kind") == "adam" else 1)


@pytest.mark.parametrize("fade", [None, 0.25])
def test_the_ablation_with_the_guide_is_gama_from_another_start(fade, problem):
    """Table S2: lambda fades as in GAMA-PGD, or stays."""
    model, x, y = problem
    noise = Noise.for_images(torch.arange(len(x)), seed=9)
    attack = ATTACKS.make("pgd-margin", space="probabilities", weight=50, fade=fade)
    ours = attack(model, x, y, ThreatModel(LINF, EPS), noise).images
    begin = start_of("uniform beyond", x, noise)
    theirs = {moment: rewritten(model, x, y, begin, **PGD | {"fade": moment}) for moment in (None, 25)}
    assert (theirs[None] - theirs[25]).abs().max() > 1e-3
    assert (ours - theirs[fade and 25]).abs().max() < 1e-6


@pytest.mark.parametrize(
    ("name", "preset", "run", "start", "settings"), [case for case in CASES if case[0] in GUIDED]
)
def test_the_guide_shows_in_the_first_steps(name, preset, run, start, settings, problem):
    """Paths may end at the same corner whatever guides them: a heavy weight and two steps tell them apart."""
    model, x, y = problem
    noise = Noise.for_images(torch.arange(len(x)), seed=9)
    begin = start_of(start, x, noise.fold(run + 1) if name == "gama-mt" else noise)
    target = target_of(settings.get("target"), model, x, y)
    heavy = {"steps": 2, "weight": 500.0, "fade": settings["fade"], "drops": settings["drops"]}
    theirs = {
        guide: rewritten(model, x, y, begin, **settings | heavy | {"target": target, "guide": guide})
        for guide in ("start", "clean")
    }
    assert (theirs["start"] - theirs["clean"]).abs().max() > 1e-3
    for options in guides_of(name):
        _, attack = list(entries(name, ATTACKS.make(name, preset, **heavy, **options)))[run]
        ours = attack(model, x, y, ThreatModel(LINF, EPS), noise).images
        assert (ours - theirs[options.get("guide", "start")]).abs().max() < 1e-6


@pytest.mark.parametrize("name", ["pgd", "pgd-targeted", "multitargeted", "gama-pgd", "ga-ce"])
def test_the_published_start_is_not_clipped(name, problem):
    model, x, y = problem
    noise = Noise.for_images(torch.arange(len(x)))
    seen = []

    def spy(images: Tensor) -> Tensor:
        seen.append(images.detach())
        return model(images)

    x = (x > 0.5).double()  # every pixel at an end of its range
    for as_published, outside in ((True, True), (False, False)):
        seen.clear()
        attack = ATTACKS.make(name, steps=2, as_published=as_published)
        attack(spy, x, y, ThreatModel(LINF, EPS), noise)
        assert any(bool(((images < 0) | (images > 1)).any()) for images in seen) == outside


@pytest.mark.parametrize("name", ATTACKS.names())
def test_nothing_leaves_the_pixel_range_by_a_rounding(name, problem):
    model, x, y = problem
    model, x = seeded(lambda: tiny_network(8)), (x > 0.5).float()
    outcome = ATTACKS.make(name)(model, x, y, ThreatModel(LINF, 0.3), Noise.for_images(torch.arange(5)))
    assert outcome.images.min() >= 0
    assert outcome.images.max() <= 1


class HalfLogits(nn.Module):
    """A network that answers in half precision and shrinks every gradient a millionfold on its way back."""

    def __init__(self) -> None:
        super().__init__()
        self.net = tiny_network(8)

    def forward(self, images: Tensor) -> Tensor:
        return Shrunk.apply(self.net(images)).half()


class Shrunk(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor) -> Tensor:
        return logits

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        # What fp16 would do to a gradient below its smallest number: nothing is left of it.
        return torch.where(grad.abs() < 6e-8, 0.0, grad)


@pytest.mark.parametrize("name", ["gama-pgd", "gama-fw", "ga-ce", "pgd"])
def test_a_network_in_half_precision_gets_a_whole_gradient(name):
    model, x = seeded(HalfLogits), images_like(12)
    inflate = nn.Sequential(model, Scale(30.0))
    y = model(x).float().argmax(1)
    outcome = ATTACKS.make(name)(inflate, x, y, ThreatModel(LINF, 0.3), Noise.for_images(torch.arange(12)))
    assert (model(outcome.images).float().argmax(1) != y).all()


class Scale(nn.Module):
    def __init__(self, by: float) -> None:
        super().__init__()
        self.by = by

    def forward(self, logits: Tensor) -> Tensor:
        return self.by * logits.float()
