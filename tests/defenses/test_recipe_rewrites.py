"""Two training steps of every recipe against a second, plain writing of the paper it comes from."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gamagat.data.core import from_tensors
from gamagat.defenses.core import DEFENSES
from gamagat.engine.training import step as training_step
from gamagat.engine.training.feed import Part, Resident
from gamagat.engine.training.settings import Settings
from gamagat.engine.training.step import Trainer
from gamagat.pieces.augment import untouched
from gamagat.pieces.noise import Noise
from gamagat.pieces.threat import LINF, ThreatModel
from helpers import seeded

EPS, SIZE, CLASSES, RATE = 0.1, 6, 5, 0.125
Rewrite = Callable[..., tuple[Tensor, list[Tensor]]]  # -> what is minimised, the adversarial images


def normed_network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.Flatten(), nn.Linear(384, CLASSES)
    )


# The words of the rewrites.


def ce(z: Tensor, y: Tensor, smoothing: float = 0.0) -> Tensor:
    wanted = torch.full_like(z, smoothing / z.shape[1])
    wanted[torch.arange(len(y)), y] += 1 - smoothing
    return -(wanted * (z - z.exp().sum(1, keepdim=True).log())).sum(1).mean()


def softmax(z: Tensor) -> Tensor:
    return z.exp() / z.exp().sum(1, keepdim=True)


def squared(a: Tensor, b: Tensor) -> Tensor:
    return ((a - b) ** 2).sum(1).mean()


def kl(p: Tensor, q: Tensor) -> Tensor:
    return (p * (p.log() - q.log())).sum(1).mean()


def margin(p: Tensor, y: Tensor) -> Tensor:
    rows = torch.arange(len(y))
    others = p.clone()
    others[rows, y] = -1.0
    return (others.max(1).values - p[rows, y]).mean()


def slope(loss: Callable[[Tensor], Tensor], image: Tensor) -> Tensor:
    image = image.detach().clone().requires_grad_()
    return torch.autograd.grad(loss(image), image)[0]


def box(x: Tensor, image: Tensor) -> Tensor:
    return torch.minimum(torch.maximum(image, x - EPS), x + EPS).clamp(0, 1)


# One function for each paper. `views` are given where the step is made once more with the same images.


def standard(net: nn.Module, x: Tensor, y: Tensor, views: Any, s: float, **_: Any) -> Any:
    return ce(net(x), y, s), views


def fgsm_image(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return box(x, x + EPS * slope(lambda a: ce(net(a), y), x).sign())


def rfgsm_image(net: nn.Module, x: Tensor, y: Tensor, signs: Tensor, alpha: float, step: float) -> Tensor:
    noisy = (x + alpha * EPS * signs).clamp(0, 1)
    return box(x, noisy + step * EPS * slope(lambda a: ce(net(a), y), noisy).sign())


def fgsm_at(net: nn.Module, x: Tensor, y: Tensor, views: Any, s: float, **_: Any) -> Any:
    if views is None:
        net.eval()
        views = [fgsm_image(net, x, y)]
        net.train()
    return ce(net(views[0]), y, s), views


def rfgsm_at(step: float) -> Rewrite:
    def update(net: nn.Module, x: Tensor, y: Tensor, views: Any, s: float, noise: Noise, **_: Any) -> Any:
        if views is None:
            net.eval()
            views = [rfgsm_image(net, x, y, noise.fold(1).signs(x), 0.5, step)]
            net.train()
        z_adversarial, z = net(views[0]), net(x)
        return 0.5 * (ce(z, y, s) + ce(z_adversarial, y, s)), views

    return update


def rmgm(of_fgsm: float, of_rfgsm: float, step: float = 0.5) -> Rewrite:
    """With these shares of the two cross-entropies."""

    def update(
        net: nn.Module, x: Tensor, y: Tensor, views: Any, s: float, noise: Noise, lam: float, **_: Any
    ) -> Any:
        if views is None:
            net.eval()
            views = [fgsm_image(net, x, y), rfgsm_image(net, x, y, noise.fold(2).signs(x), 0.5, step)]
            net.train()
        z_fgsm, z_rfgsm = net(views[0]), net(views[1])
        learnt = of_fgsm * ce(z_fgsm, y, s) + of_rfgsm * ce(z_rfgsm, y, s)
        return learnt + lam * squared(z_fgsm, z_rfgsm), views

    return update


def fbf(net: nn.Module, x: Tensor, y: Tensor, views: Any, s: float, noise: Noise, **_: Any) -> Any:
    if views is None:
        begin = box(x, x + EPS * (2 * noise.fold(1).uniform(x) - 1))
        views = [box(x, begin + 1.25 * EPS * slope(lambda a: ce(net(a), y), begin).sign())]
    return ce(net(views[0]), y, s), views


def pgd_at(net: nn.Module, x: Tensor, y: Tensor, views: Any, s: float, noise: Noise, **_: Any) -> Any:
    if views is None:
        net.eval()
        image = box(x, x + EPS * (2 * noise.fold(1).uniform(x) - 1))
        for _step in range(10):
            image = box(x, image + EPS / 4 * slope(lambda a: ce(net(a), y), image).sign())
        views = [image]
        net.train()
    return ce(net(views[0]), y, s), views


def kl_pgd(net: nn.Module, x: Tensor, noise: Noise) -> Tensor:
    p = softmax(net(x)).detach()
    image = box(x, x + 0.001 * noise.fold(1).normal(x))
    for _step in range(10):
        image = box(x, image + 0.007 / 0.031 * EPS * slope(lambda a: kl(p, softmax(net(a))), image).sign())
    return image


def gama_fw(net: nn.Module, x: Tensor, y: Tensor, noise: Noise, lam: float) -> Tensor:
    p = softmax(net(x)).detach()
    image = (x + EPS * noise.fold(1).signs(x)).clamp(0, 1)

    def loss(a: Tensor) -> Tensor:
        q = softmax(net(a))
        return margin(q, y) + lam * squared(q, p)

    for _step in range(10):
        image = box(x, x + 0.5 * (image - x) + 0.5 * EPS * slope(loss, image).sign())
    return image


def trades(
    net: nn.Module, x: Tensor, y: Tensor, views: Any, s: float, noise: Noise, lam: float, **_: Any
) -> Any:
    if views is None:
        net.eval()
        views = [kl_pgd(net, x, noise)]
        net.train()
    z, z_adversarial = net(x), net(views[0])
    return ce(z, y, s) + lam * kl(softmax(z), softmax(z_adversarial)), views


def tr_gat(
    net: nn.Module, x: Tensor, y: Tensor, views: Any, s: float, noise: Noise, lam: float, batch: int
) -> Any:
    if views is None:
        net.eval()
        views = [kl_pgd(net, x, noise) if batch % 2 == 0 else gama_fw(net, x, y, noise, lam)]
        net.train()
    z, z_adversarial = net(x), net(views[0])
    return ce(z, y, s) + lam * kl(softmax(z), softmax(z_adversarial)), views


def gat(
    alpha: float = 0.5,
    guided: Callable[[int], bool] = lambda batch: batch % 2 == 1,
    attack: str = "ce",
    trained_on: str = "drift",
    third_pass: bool = False,
) -> Rewrite:
    """Algorithm S1; what the ablations change are its arguments."""

    def step(
        net: nn.Module, x: Tensor, y: Tensor, views: Any, s: float, noise: Noise, lam: float, batch: int
    ) -> Any:
        a = 1.0 if guided(batch) else 0.0
        p = softmax(net(x)).detach() if a or third_pass else 0.0  # in training mode
        if views is None:
            net.eval()

            def loss(image: Tensor) -> Tensor:
                w = net(image)
                base = ce(w, y) if attack == "ce" else margin(softmax(w), y)
                return base + lam * squared(softmax(w), p) if a else base

            noisy = (x + alpha * EPS * noise.fold(1).signs(x)).clamp(0, 1)
            delta = (noisy + EPS * slope(loss, noisy).sign() - x).clamp(-EPS, EPS)
            views = [(x + delta).clamp(0, 1)]
            net.train()
        z_adversarial, z = net(views[0]), net(x)
        if trained_on == "both":
            return ce(z, y, s) + ce(z_adversarial, y, s), views
        clean = ce(z, y, s) if trained_on == "drift" else margin(softmax(z), y)
        return clean + lam * squared(softmax(z), softmax(z_adversarial)), views

    return step


def never(batch: int) -> bool:
    return False


def always(batch: int) -> bool:
    return True


# Recipe, its options, its rewrite, and lambda in the first and in the second batch.
CASES: dict[str, tuple[str, dict[str, Any], Rewrite, tuple[float, float]]] = {
    "standard": ("standard", {}, standard, (1, 1)),
    "fgsm-at": ("fgsm-at", {}, fgsm_at, (1, 1)),
    "rfgsm-at": ("rfgsm-at", {}, rfgsm_at(0.5), (1, 1)),
    "rfgsm-at with a full step": ("rfgsm-at", {"full": True}, rfgsm_at(1.0), (1, 1)),
    "rmgm": ("rmgm", {"weight": 2.0}, rmgm(0.0, 1.0), (2, 2)),
    "rmgm on FGSM": ("rmgm", {"weight": 2.0, "learns": "fgsm"}, rmgm(1.0, 0.0), (2, 2)),
    "rmgm with a full step": ("rmgm", {"weight": 2.0, "full": True}, rmgm(0.0, 1.0, 1.0), (2, 2)),
    "rmgm on both": ("rmgm", {"weight": 2.0, "learns": "both"}, rmgm(0.5, 0.5), (2, 2)),
    "fbf": ("fbf", {}, fbf, (1, 1)),
    "pgd-at": ("pgd-at", {}, pgd_at, (1, 1)),
    "trades": ("trades", {}, trades, (6, 6)),
    "tr-gat": ("tr-gat", {}, tr_gat, (5, 5)),
    "gat": ("gat", {}, gat(), (10, 40)),
    "gat on mnist": (
        "gat", {"weight": 15, "up": 3, "step_up": (0.25, 0.5, 0.75), "alpha": 1, "alternate": False},
        gat(alpha=1.0, guided=always), (15, 405),
    ),
    "gat as published": ("gat", {"as_published": True}, gat(third_pass=True), (10, 40)),
    "gat A1": ("gat", {"ablation": "A1"}, gat(guided=always), (10, 40)),
    "gat A2": ("gat", {"ablation": "A2"}, gat(guided=always, attack="margin", trained_on="margin"), (10, 40)),
    "gat A3": ("gat", {"ablation": "A3"}, gat(trained_on="both"), (10, 40)),
    "gat A4": ("gat", {"ablation": "A4"}, gat(guided=never, trained_on="both"), (10, 40)),
    "gat A5": ("gat", {"ablation": "A5"}, gat(guided=never), (10, 40)),
}  # fmt: skip
EXTRAS: dict[str, dict[str, float]] = {
    "plain": {}, "awp": {"awp": 0.05}, "smoothing": {"smoothing": 0.2}, "ema": {"ema": 0.75},
}  # fmt: skip


class Problem:
    """Twelve 8-bit images in two batches, and a network; some pixels lie at the ends of their range."""

    def __init__(self) -> None:
        draws = torch.Generator().manual_seed(2)
        self.images = torch.randint(-60, 316, (2 * SIZE, 3, 8, 8), generator=draws).clamp(0, 255).byte()
        self.labels = torch.randint(CLASSES, (2 * SIZE,), generator=draws)
        self.order = torch.randperm(2 * SIZE, generator=draws)
        self.keys = Noise.for_images(torch.arange(2 * SIZE), seed=4).keys
        self.model = seeded(normed_network).train()

    def batches(self) -> list[tuple[Tensor, Tensor, Noise]]:
        return [
            (self.images[places] / 255, self.labels[places], Noise(self.keys[places]))
            for places in self.order.split(SIZE)
        ]


@pytest.fixture
def problem(monkeypatch: pytest.MonkeyPatch) -> Any:
    """All in double precision, which training itself does not offer: its images are made float32."""
    monkeypatch.setattr(training_step, "to_unit", lambda images: images.double() / 255)
    usual = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield Problem()
    torch.set_default_dtype(usual)


def trained(problem: Problem, name: str, options: dict[str, Any], **settings: Any) -> Trainer:
    """Our side."""
    data = from_tensors(problem.images, name="noise", labels=problem.labels)
    recipe = DEFENSES.make(name, **options)
    feed = Resident(data, SIZE, torch.device("cpu"))
    trainer = Trainer(
        deepcopy(problem.model), recipe, Settings(batch=SIZE, **settings), ThreatModel(LINF, EPS), feed, SIZE,
        untouched,
    )  # fmt: skip
    if name == "free":
        trainer.remember(data.shape)
    trainer.begin([RATE, RATE / 2], [recipe.weight(0.0), recipe.weight(0.9)])
    feed.begin(problem.order, problem.keys)
    for number in range(2):
        trainer.batch(number, Part(SIZE, 1.0))
    return trainer


class Sgd:
    """v = 0.9 v + gradient + 0.0005 w, w = w - rate v; and the average of the weights."""

    def __init__(self, net: nn.Module, ema: float) -> None:
        self.net, self.ema = net, ema
        self.velocity = [torch.zeros_like(weight) for weight in net.parameters()]
        self.average = {key: value.clone() for key, value in net.state_dict().items()}

    @torch.no_grad()
    def move(self, grads: Any, rate: float) -> None:
        for weight, velocity, grad in zip(self.net.parameters(), self.velocity, grads, strict=True):
            velocity.copy_(0.9 * velocity + grad + 0.0005 * weight)
            weight.sub_(rate * velocity)
        for key, value in self.net.state_dict().items():
            if value.is_floating_point():
                self.average[key] = self.ema * self.average[key] + (1 - self.ema) * value


def rewritten(
    problem: Problem, rewrite: Rewrite, lams: Any, awp: float = 0.0, smoothing: float = 0.0, ema: float = 0.0
) -> Sgd:
    """Their side."""
    sgd = Sgd(deepcopy(problem.model), ema)
    net, weights = sgd.net, list(sgd.net.parameters())
    for batch, (x, y, noise) in enumerate(problem.batches()):
        given = {"s": smoothing, "noise": noise, "lam": lams[batch], "batch": batch}
        loss, views = rewrite(net, x, y, None, **given)
        grads = torch.autograd.grad(loss, weights)
        if awp:
            before = [weight.detach().clone() for weight in weights]
            with torch.no_grad():
                for weight, grad in zip(weights, grads, strict=True):
                    if weight.ndim > 1:
                        weight.add_(awp * weight.norm() * grad / grad.norm())
            grads = torch.autograd.grad(rewrite(net, x, y, views, **given)[0], weights)
            with torch.no_grad():
                for weight, old in zip(weights, before, strict=True):
                    weight.copy_(old)
        sgd.move(grads, (RATE, RATE / 2)[batch])
    return sgd


def apart(ours: Any, theirs: Any) -> float:
    return max(float((value.double() - theirs[key].double()).abs().max()) for key, value in ours.items())


def test_every_recipe_is_here():
    assert {case[0] for case in CASES.values()} | {"free"} >= set(DEFENSES.names())


@pytest.mark.parametrize("extra", EXTRAS)
@pytest.mark.parametrize("case", CASES)
def test_two_steps_are_what_the_rewrite_says(case, extra, problem):
    name, options, rewrite, lams = CASES[case]
    ours = trained(problem, name, options, **EXTRAS[extra])
    theirs = rewritten(problem, rewrite, lams, **EXTRAS[extra])
    # Weights, and the statistics of batch norm with the number of their updates.
    assert apart(ours.model.state_dict(), theirs.net.state_dict()) < 1e-6
    assert apart(ours.model.state_dict(), problem.model.state_dict()) > 1e-2
    if ours.average is not None:
        means = {key: value for key, value in ours.average.state_dict().items() if value.is_floating_point()}
        assert apart(means, theirs.average) < 1e-6
        assert apart(means, theirs.net.state_dict()) > 1e-3


@pytest.mark.parametrize("replays", [1, 3])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_free_moves_its_perturbation_by_the_backward_pass_of_the_weights(replays, smoothing, problem):
    ours = trained(problem, "free", {}, replays=replays, smoothing=smoothing, ema=0.75)
    sgd, delta = Sgd(deepcopy(problem.model), 0.75), torch.zeros(SIZE, 3, 8, 8)
    for batch, (x, y, _) in enumerate(problem.batches()):
        for _replay in range(replays):
            # Carried over from other images, it may lead out of the pixel range.
            delta = (delta.clamp(-EPS, EPS) + x).clamp(0, 1) - x
            leaf = delta.clone().requires_grad_()
            loss = ce(sgd.net(x + leaf), y, smoothing)
            *grads, ascent = torch.autograd.grad(loss, [*sgd.net.parameters(), leaf])
            delta = ((delta + EPS * ascent.sign()).clamp(-EPS, EPS) + x).clamp(0, 1) - x
            sgd.move(grads, (RATE, RATE / 2)[batch])
    assert apart(ours.model.state_dict(), sgd.net.state_dict()) < 1e-6
    assert apart({"delta": ours.memory["delta"]}, {"delta": delta}) < 1e-6
    assert ours.average is not None
    means = {key: value for key, value in ours.average.state_dict().items() if value.is_floating_point()}
    assert apart(means, sgd.average) < 1e-6


def test_no_two_recipes_do_the_same(problem):
    """Else a rewrite could pass for another's."""
    ends = [trained(problem, name, options).model.state_dict() for name, options, _, _ in CASES.values()]
    distances = [apart(one, other) for at, one in enumerate(ends) for other in ends[:at]]
    assert min(distances) > 1e-4
