"""What every registered recipe promises; a new recipe is tested by being registered."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gamagat.defenses.core import DEFENSES, Recipe, Stage, Tick
from gamagat.defenses.step import gradients
from gamagat.engine.training.optimizers import Sgd
from gamagat.engine.training.settings import Settings, make_plan
from gamagat.errors import ConfigError
from gamagat.pieces.noise import Noise
from gamagat.pieces.threat import L2, LINF, ThreatModel
from helpers import images_like, seeded, tiny_network

USUAL = ThreatModel(LINF, 0.1)
THREATS = {
    "linf": USUAL,
    "linf, wide": ThreatModel(LINF, 0.6),
    "l2": ThreatModel(L2, 0.5),
    "l2, wide": ThreatModel(L2, 6.0),
}
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, {}) for name in DEFENSES.names()},
    **{f"gat-{which}": ("gat", {"ablation": which}) for which in ("A1", "A2", "A3", "A4", "A5")},
    "gat-as-published": ("gat", {"as_published": True}),
}
WITHOUT_ADVERSARY = {"standard"}
FIRST_NORM = ("1.running_mean", "1.running_var", "1.num_batches_tracked")

every_name = pytest.mark.parametrize("name", DEFENSES.names())
every_variant = pytest.mark.parametrize("variant", VARIANTS)
every_extra = pytest.mark.parametrize(("awp", "smoothing"), [(0.0, 0.0), (0.05, 0.0), (0.0, 0.2)])


def normed_network(classes: int = 5) -> nn.Module:
    """Two batch norms, for 8 x 8 images."""
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.Conv2d(6, 4, 3, padding=1),
        nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(256, classes),
    )  # fmt: skip


def short(variant: str) -> Recipe:
    """The recipe with few steps, where its attack has steps."""
    name, options = VARIANTS[variant]
    few = {"steps": 3} if "steps" in DEFENSES[name].defaults() else {}
    return DEFENSES.make(name, **few | options)


def stage_for(
    model: nn.Module,
    recipe: Recipe,
    x: Tensor,
    y: Tensor,
    threat: ThreatModel = USUAL,
    turn: int = 0,
    **more: Any,
) -> Stage:
    more = {"noise": Noise.for_images(torch.arange(len(x))), "memory": {"delta": torch.zeros_like(x)}} | more
    return Stage(model, x, y, threat, tick=Tick(turn, recipe.weight(0.0)), **more)


def hard_images(count: int = 12) -> tuple[Tensor, Tensor]:
    """Images of which many pixels lie at the ends of their range, and labels."""
    x = (2 * images_like(count) - 0.5).clamp(0, 1)
    return x, torch.arange(count) % 5


def views_of(
    model: nn.Module, recipe: Recipe, x: Tensor, y: Tensor, threat: ThreatModel = USUAL, **more: Any
) -> list[Tensor]:
    """The adversarial images of each turn, twice: a carried perturbation moves between."""
    memory = more.pop("memory", {"delta": torch.zeros_like(x)})
    views = []
    for turn in [*range(recipe.turns)] * 2:
        stage = stage_for(model, recipe, x, y, threat, turn, memory=memory, **more)
        gradients(recipe, stage, list(model.parameters()))
        views += stage.views
    return views


@every_variant
@every_extra
def test_a_few_steps_lower_what_the_recipe_minimises(variant, awp, smoothing):
    recipe, model, (x, y) = short(variant), seeded(normed_network).train(), hard_images(20)
    threat, weights = ThreatModel(LINF, 0.02), list(model.parameters())
    sgd, memory = Sgd(weights, 0.9, 0.0), {"delta": torch.zeros_like(x)}
    course: list[list[float]] = [[] for _ in range(recipe.turns)]
    for number in range(20):
        turn = number % recipe.turns
        stage = stage_for(model, recipe, x, y, threat, turn, memory=memory, smoothing=smoothing)
        terms, grads = gradients(recipe, stage, weights, awp)
        course[turn].append(float(terms.loss.detach()))
        assert course[turn][-1] == pytest.approx(float(sum(terms.terms.values()).detach()), rel=1e-5)
        sgd.step(grads, torch.tensor(0.02))
    for losses in course:
        assert losses[-1] < losses[0] - 0.1


@every_variant
@pytest.mark.parametrize("threat", THREATS.values(), ids=list(THREATS))
def test_every_adversarial_image_stays_in_the_ball_and_the_pixel_range(variant, threat):
    model, (x, y) = seeded(normed_network).train(), hard_images()
    # What another batch has left behind fits these images no better than any other noise.
    memory = {"delta": threat.eps * (2 * images_like(len(x), seed=7) - 1)}
    views = views_of(model, short(variant), x, y, threat, memory=memory)
    assert bool(views) == (VARIANTS[variant][0] not in WITHOUT_ADVERSARY)
    for view in views:
        assert threat.contains(view, x).all()
        assert (view != x).any()
        assert view.dtype == x.dtype
        assert not view.requires_grad


@every_variant
@every_extra
def test_gradients_change_nothing_but_the_statistics_of_batch_norm(variant, awp, smoothing):
    recipe, model, (x, y) = short(variant), seeded(normed_network).train(), hard_images()
    model[4].eval()  # frozen by the user: neither its mode nor its statistics may change
    model[4].weight.requires_grad_(False)
    weights = [parameter for parameter in model.parameters() if parameter.requires_grad]
    before = {key: value.clone() for key, value in model.state_dict().items()}
    modes = [module.training for module in model.modules()]
    wanted = [parameter.requires_grad for parameter in model.parameters()]
    images, labels, random_state = x.clone(), y.clone(), torch.get_rng_state()

    for turn in range(recipe.turns):
        stage = stage_for(model, recipe, x, y, turn=turn, smoothing=smoothing)
        _, grads = gradients(recipe, stage, weights, awp)

    after = model.state_dict()
    # To the last bit, the weights that were perturbed in between as well.
    assert [key for key in before if not torch.equal(before[key], after[key])] == list(FIRST_NORM)
    assert [module.training for module in model.modules()] == modes
    assert [parameter.requires_grad for parameter in model.parameters()] == wanted
    assert all(parameter.grad is None for parameter in model.parameters())
    assert [grad.shape for grad in grads] == [weight.shape for weight in weights]
    assert all(bool(grad.isfinite().all()) and not grad.requires_grad for grad in grads)
    assert torch.equal(x, images)
    assert torch.equal(y, labels)
    assert not x.requires_grad
    assert x.grad is None
    assert torch.equal(random_state, torch.get_rng_state())
    assert torch.is_grad_enabled()


@every_variant
def test_the_weights_come_back_when_a_step_breaks_off(variant):
    recipe, (x, y) = short(variant), hard_images()
    model = seeded(normed_network).train()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    stage = stage_for(model, recipe, x, y)

    def breaks_when_weights_have_moved(module: nn.Module, *_: Any) -> None:
        if not torch.equal(module.weight, before["0.weight"]):
            raise MemoryError("no room")

    model[0].register_forward_hook(breaks_when_weights_have_moved)
    with pytest.raises(MemoryError):
        gradients(recipe, stage, list(model.parameters()), awp=0.05)
    after = model.state_dict()
    assert {key for key in before if not torch.equal(before[key], after[key])} <= set(FIRST_NORM) | {
        key.replace("1.", "4.") for key in FIRST_NORM
    }
    assert model.training


class Spare(nn.Module):
    """A network with a layer that it does not use."""

    def __init__(self) -> None:
        super().__init__()
        self.used, self.spare = tiny_network(), nn.Linear(3, 3)

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.used(images)
        return logits


@every_name
@pytest.mark.parametrize("awp", [0.0, 0.05])
def test_a_layer_that_the_network_does_not_use_has_no_gradient(name, awp):
    recipe, model, (x, y) = short(name), seeded(Spare).train(), hard_images()
    _, grads = gradients(recipe, stage_for(model, recipe, x, y), list(model.parameters()), awp)
    assert all(bool((grad != 0).any()) for grad in grads[:-2])
    assert all(bool((grad == 0).all()) for grad in grads[-2:])


@every_variant
@pytest.mark.parametrize("threat", [USUAL, ThreatModel(L2, 0.5)], ids=["linf", "l2"])
def test_an_image_has_the_same_views_wherever_it_lies_in_a_batch(variant, threat):
    recipe, model = short(variant), seeded(tiny_network).double().train()
    x, y = hard_images()
    x, noise = x.double(), Noise.for_images(torch.arange(len(x)))
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(3))
    whole = views_of(model, recipe, x, y, threat, noise=noise)
    shuffled = views_of(model, recipe, x[order], y[order], threat, noise=noise[order])
    few = views_of(model, recipe, x[:3], y[:3], threat, noise=noise[torch.arange(3)])
    for expected, other, part in zip(whole, shuffled, few, strict=True):
        assert torch.allclose(other, expected[order], atol=1e-9)
        assert torch.allclose(part, expected[:3], atol=1e-9)


@every_variant
def test_the_turns_of_a_recipe_differ_in_their_views_and_only_they_do(variant):
    recipe, (x, y) = short(variant), hard_images()

    def views(turn: int) -> list[Tensor]:
        fresh = seeded(normed_network).train()  # the same statistics each time
        stage = stage_for(fresh, recipe, x, y, turn=turn)
        gradients(recipe, stage, list(fresh.parameters()))
        return stage.views

    assert recipe.turns in (1, 2)
    for ours, again in zip(views(0), views(0), strict=True):
        assert torch.equal(ours, again)
    for first, second in zip(views(0), views(1), strict=True):
        assert torch.equal(first, second) == (recipe.turns == 1)


def test_gat_alternates_and_its_ablations_without_guidance_or_alternation_do_not():
    turns = {which: DEFENSES.make("gat", ablation=which).turns for which in ("none", "A1", "A2", "A4", "A5")}
    assert turns == {"none": 2, "A1": 1, "A2": 1, "A4": 1, "A5": 1}
    assert DEFENSES.make("gat", alternate=False).turns == 1
    assert DEFENSES.make("tr-gat").turns == 2


def test_a_smaller_last_batch_leaves_the_rest_of_a_carried_perturbation_alone():
    recipe, model, (x, y) = short("free"), seeded(tiny_network), hard_images()
    memory = {"delta": torch.full_like(x, 0.01)}
    stage = stage_for(model, recipe, x[:5], y[:5], memory=memory)
    gradients(recipe, stage, list(model.parameters()))
    assert (memory["delta"][5:] == 0.01).all()
    assert (memory["delta"][:5] != 0.01).any()


@pytest.mark.parametrize(
    ("spec", "family", "model", "course"),
    [
        ("gat", "cifar10", "resnet18", {0.0: 10, 0.5: 10, 0.8599: 10, 0.86: 40, 1.0: 40}),
        ("gat", "cifar10", "wrn-34-10", {0.0: 3, 0.6999: 3, 0.7: 60, 1.0: 60}),
        ("gat", "cifar10", "wrn-34-10-gat", {0.0: 3, 0.7: 60}),
        ("gat", "mnist", "m-lenet", {0.0: 15, 0.2499: 15, 0.25: 45, 0.5: 135, 0.75: 405, 1.0: 405}),
        ("gat", "imagenet", "resnet18-imagenet", {0.0: 20, 0.7499: 20, 0.75: 140}),
        ("gat:weight=7,up=2,step_up=0.1", "cifar10", None, {0.0: 7, 0.1: 14}),
        ("trades", "cifar10", "wrn-34-10", {0.0: 6, 1.0: 6}),
        ("trades", "mnist", "small-cnn", {0.0: 1, 1.0: 1}),
        ("tr-gat", "cifar10", "resnet18", {0.0: 5, 1.0: 5}),
        ("tr-gat", "cifar10", "wrn-34-10", {0.0: 6, 1.0: 6}),
    ],
)
def test_the_weight_goes_as_the_papers_say(spec, family, model, course):
    recipe = make_plan(spec, family, model).recipe
    assert {share: recipe.weight(share) for share in course} == pytest.approx(course)


@every_name
@pytest.mark.parametrize(("family", "model"), [("mnist", "m-lenet"), ("cifar10", "resnet18"), (None, None)])
def test_every_recipe_has_sensible_settings_for_the_usual_data(name, family, model):
    plan = make_plan(name, family, model)
    settings, rate = plan.settings, plan.settings.rate_at()
    rates = [rate(epoch / settings.epochs) for epoch in range(settings.epochs)]
    assert max(rates) == pytest.approx(settings.rate)
    assert rates[-1] <= settings.rate
    assert all(0 <= value <= 0.2 for value in rates)
    assert 10 <= settings.epochs * settings.replays <= 200
    assert 50 <= settings.batch <= 128
    assert settings.weight_decay in (0.0, 2e-4, 5e-4)
    # The networks for digits have no batch norm: SGD at a rate of 0.1 leaves them guessing.
    gentle = settings.optimizer == "adam" or family == "mnist"
    assert 0 < settings.rate <= (0.01 if gentle else 0.2)
    assert (settings.awp, settings.ema, settings.smoothing) == (0.0, 0.0, 0.0)
    assert plan.recipe.weight(0.0) >= 0
    assert plan.recipe.weight(1.0) >= plan.recipe.weight(0.0)
    assert plan.recipe.selected_by == ("clean" if name in WITHOUT_ADVERSARY else "selection")


@every_name
@pytest.mark.parametrize("family", ["mnist", "cifar10", "imagenet", "digits", None])
def test_the_words_of_a_plan_make_it_again(name, family):
    plan = make_plan(name, family, "wrn-34-10")
    again = make_plan(plan.spec)
    assert (again.own, again.settings) == (plan.own, plan.settings)


PUBLISHED: list[tuple[str, str, dict[str, Any]]] = [
    ("gat", "cifar10", {"epochs": 100, "rate": 0.1, "drops": (0.71, 0.86), "factor": 0.1}),
    ("gat", "mnist", {"epochs": 50, "batch": 64, "rate": 0.01, "drops": (0.25, 0.5, 0.75), "factor": 0.2}),
    ("gat", "imagenet", {"epochs": 120, "batch": 64, "rate": 0.1, "drops": (0.5, 0.75), "factor": 0.1}),
    ("trades", "cifar10", {"epochs": 76, "batch": 128, "rate": 0.1, "weight_decay": 2e-4}),
    ("trades", "mnist", {"epochs": 100, "rate": 0.01, "weight_decay": 0.0, "drops": (0.54, 0.74, 0.89)}),
    ("tr-gat", "cifar10", {"epochs": 76, "batch": 128, "rate": 0.1, "weight_decay": 2e-4}),
    ("fbf", "cifar10", {"batch": 128, "cycle": "triangle", "rate": 0.2, "peak": 0.5, "weight_decay": 5e-4}),
    ("fbf", "mnist", {"epochs": 10, "batch": 100, "optimizer": "adam", "rate": 5e-3, "peak": 0.4}),
    ("free", "cifar10", {"epochs": 10, "replays": 8, "cycle": "triangle", "rate": 0.04, "batch": 128}),
    ("pgd-at", "cifar10", {"epochs": 110, "drops": (100 / 110, 105 / 110), "weight_decay": 5e-4}),
    ("pgd-at", "mnist", {"optimizer": "adam", "rate": 1e-4, "batch": 50}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "family", "published"), PUBLISHED)
def test_the_settings_are_the_published_ones(name, family, published):
    settings = make_plan(name, family).settings
    assert {key: getattr(settings, key) for key in published} == published
    assert settings.momentum == 0.9


def test_the_gap_may_count_more_and_more():
    recipe = make_plan("rmgm:weight=10,ramp=0.5").recipe
    grows = [recipe.weight(done) for done in (0.0, 0.25, 0.5, 1.0)]
    assert grows == pytest.approx([0, 5, 10, 10])
    assert make_plan("rmgm:weight=10").recipe.weight(0.0) == 10


def test_trades_stops_right_after_its_first_drop():
    plan = make_plan("trades", "cifar10").settings
    rates = [plan.rate_at()(epoch / plan.epochs) for epoch in range(plan.epochs)]
    assert rates == pytest.approx([0.1] * 74 + [0.01] * 2)


def test_what_is_said_wins_over_the_preset_of_the_network_and_that_over_the_one_of_the_data():
    assert make_plan("tr-gat", "cifar10", "resnet18").own["beta"] == 5
    assert make_plan("tr-gat", "cifar10", "wrn-34-10").own["beta"] == 6
    plan = make_plan("tr-gat:beta=3", "cifar10", "wrn-34-10", epochs=2)
    assert plan.own["beta"] == 3
    assert (plan.settings.epochs, plan.settings.weight_decay) == (2, 2e-4)


WRONG = [
    "gta", "gat:lamda=10", "gat:weight=-1", "gat:weight=much", "gat:alpha=1.5", "gat:ablation=A6",
    "gat:alternate=sometimes", "gat:step_up=85", "gat:step_up=-0.1", "gat:up=-1", "fbf:alpha=0",
    "fbf:alpha=11", "rfgsm-at:alpha=1", "rfgsm-at:alpha=-0.1", "rmgm:weight=-1", "rmgm:alpha=1",
    "rfgsm-at:full=half",
    "rmgm:ramp=2", "pgd-at:steps=0", "pgd-at:steps=2.5", "pgd-at:step=0", "trades:beta=-1", "trades:steps=0",
    "trades:step=0", "tr-gat:beta=-6", "tr-gat:steps=0", "free:replays=0", "gat:epochs=0", "gat:batch=0",
    "gat:rate=0", "gat:drops=0.5+70", "gat:factor=0", "gat:cycle=cosine", "gat:peak=1",
    "gat:optimizer=lion", "gat:momentum=1", "gat:weight_decay=-1", "gat:ema=1", "gat:smoothing=1",
    "gat:awp=-0.1", "gat:augment=mixup", "gat:probe=0", "gat:epochs", "gat:epochs=1,epochs=2",
]  # fmt: skip


@pytest.mark.parametrize("spec", WRONG)
def test_a_wrong_option_is_refused_in_one_sentence(spec):
    with pytest.raises(ConfigError) as caught:
        make_plan(spec, "cifar10", "resnet18")
    words = str(caught.value)
    assert "\n" not in words
    assert len(words) < 600
    name, _, option = spec.partition(":")
    key, _, value = option.partition("=")
    assert any(part in words for part in ([*value.split("+"), repr(key)] if option else [repr(name)]))


def test_the_noise_of_r_fgsm_may_be_as_large_as_a_full_step_but_no_larger():
    assert make_plan("rfgsm-at:alpha=1,full=true", "cifar10", "resnet18").own["alpha"] == 1
    with pytest.raises(ConfigError, match=r"alpha .*1\.1"):
        make_plan("rfgsm-at:alpha=1.1,full=true", "cifar10", "resnet18")


@every_name
def test_the_summary_of_a_recipe_is_one_sentence(name):
    assert DEFENSES[name].summary.endswith(".")
    assert isinstance(DEFENSES.make(name), Recipe)


def test_settings_without_a_recipe_are_those_of_the_paper():
    assert Settings().rate_at()(0.0) == pytest.approx(0.1)
    assert Settings().rate_at()(0.71) == pytest.approx(0.01)
    assert Settings().rate_at()(0.86) == pytest.approx(0.001)
    assert Settings(warmup=0.1).rate_at()(0.05) == pytest.approx(0.05)
