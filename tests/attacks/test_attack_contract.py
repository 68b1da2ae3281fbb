"""What every registered attack promises; a new attack is tested by being registered."""

import typing
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gamagat.attacks.combine import standing
from gamagat.attacks.core import ATTACKS, L2_ONLY, MINIMUM_NORM, Attack
from gamagat.attacks.network import Network
from gamagat.pieces.noise import Noise
from gamagat.pieces.threat import L2, LINF, ThreatModel
from helpers import images_like, seeded, tiny_network

THREATS = {"linf": ThreatModel(LINF, 0.05), "l2": ThreatModel(L2, 0.5)}


def norms_of(name: str) -> list[str]:
    """The norms an attack is made for, the usual one first."""
    return ["l2"] if L2_ONLY in ATTACKS[name].tags else list(THREATS)


def usual(name: str) -> ThreatModel:
    return THREATS[norms_of(name)[0]]


every_attack = pytest.mark.parametrize("name", ATTACKS.names())
every_attack_and_norm = pytest.mark.parametrize(
    ("name", "threat"),
    [
        pytest.param(name, THREATS[norm], id=f"{name}-{norm}")
        for name in ATTACKS.names()
        for norm in norms_of(name)
    ],
)


def short(name: str, **options: Any) -> Attack:
    """The attack with few steps, where it has steps."""
    defaults = ATTACKS[name].defaults()
    few = {"steps": 6} if defaults.get("steps", 0) > 6 else {}
    few |= {"queries": 300} if "queries" in defaults else {}
    few |= {"samples": 8, "rate": 0.2} if "samples" in defaults else {}
    # Every search of C&W's begins at the image, and six steps at its own rate do not lead far from there.
    few |= {"rate": 0.1} if "searches" in defaults else {}
    return ATTACKS.make(name, **few | {key: value for key, value in options.items() if key in defaults})


def allowed(name: str, model: nn.Module, images: Tensor, x: Tensor, y: Tensor, threat: ThreatModel) -> Tensor:
    """Which images an attack may return: inside the threat model, or adversarial further out."""
    inside = threat.contains(images, x)
    if MINIMUM_NORM not in ATTACKS[name].tags:
        return inside
    return inside | (ThreatModel(threat.norm, 1e6).contains(images, x) & ~standing(model, images, y))


def noise_for(images: Tensor, seed: int = 0) -> Noise:
    return Noise.for_images(torch.arange(len(images)), seed)


@every_attack_and_norm
@pytest.mark.parametrize("as_published", [False, True])
def test_stays_inside_the_threat_model(name, threat, as_published, small_model, batch):
    x, y = batch
    outcome = short(name, as_published=as_published)(small_model, x, y, threat, noise_for(x))
    assert outcome.images.shape == x.shape
    assert outcome.images.dtype == x.dtype
    assert allowed(name, small_model, outcome.images, x, y, threat).all()


@every_attack_and_norm
def test_finds_what_there_is_to_find(name, threat, small_model, batch):
    x, y = batch
    wide = ThreatModel(threat.norm, 20 * threat.eps)
    outcome = short(name)(small_model, x, y, wide, noise_for(x))
    assert not standing(small_model, outcome.images, y).any()


@every_attack_and_norm
def test_finds_it_on_logits_of_any_size(name, threat, small_model, batch):
    """Squares of such gradients are infinite in single precision."""
    x, y = batch
    wide = ThreatModel(threat.norm, 20 * threat.eps)
    outcome = short(name)(lambda images: 1e30 * small_model(images), x, y, wide, noise_for(x))
    assert not standing(small_model, outcome.images, y).any()


def others(value: Any, hint: Any) -> list[Any]:
    """Further values that a setting may have."""
    if typing.get_origin(hint) is typing.Literal:
        return [word for word in typing.get_args(hint) if word != value]
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, tuple):
        return [(), (0.3,)]
    return [value + 3] if isinstance(value, int) else [0.5, 1.0]


@pytest.mark.parametrize(
    ("name", "setting", "cause"),
    [
        (name, setting, cause)
        for name in ATTACKS.names()
        for setting in ATTACKS[name].defaults().keys() & ATTACKS[name].idle.keys()
        for cause in ATTACKS[name].idle[setting]
    ],
    ids=str,
)
def test_a_setting_that_is_said_to_be_idle_is(name, setting, cause, small_model, batch):
    x, y = batch
    hint = typing.get_type_hints(ATTACKS[name].factory)[setting]
    usual_value = ATTACKS[name].defaults()[setting]
    made, *more = [
        short(name, **cause | {setting: value})(small_model, x, y, usual(name), noise_for(x)).images
        for value in (usual_value, *others(usual_value, hint))
    ]
    assert more
    assert all(torch.equal(made, images) for images in more)


@every_attack
def test_leaves_no_trace_on_the_caller(name, small_model, batch):
    x, y = batch
    x_before, weights = x.clone(), {key: value.clone() for key, value in small_model.state_dict().items()}
    small_model[0].train()  # a mode of its own that nobody may reset
    modes = [module.training for module in small_model.modules()]
    wanted = [parameter.requires_grad for parameter in small_model.parameters()]
    random_state = torch.get_rng_state()
    short(name)(small_model, x, y, usual(name), noise_for(x))
    assert torch.equal(x, x_before)
    assert not x.requires_grad
    assert all(torch.equal(value, weights[key]) for key, value in small_model.state_dict().items())
    assert [module.training for module in small_model.modules()] == modes
    assert [parameter.requires_grad for parameter in small_model.parameters()] == wanted
    assert all(parameter.grad is None for parameter in small_model.parameters())
    assert torch.equal(random_state, torch.get_rng_state())
    assert torch.is_grad_enabled()


@every_attack
def test_works_where_gradients_are_switched_off(name, small_model, batch):
    x, y = batch
    attack = short(name)
    with torch.no_grad():
        silent = attack(small_model, x, y, usual(name), noise_for(x))
    assert torch.equal(silent.images, attack(small_model, x, y, usual(name), noise_for(x)).images)


@every_attack_and_norm
def test_the_same_noise_gives_the_same_images_in_any_order_and_any_batch(name, threat, batch, small_model):
    x, y = batch
    model = small_model.double()  # in double precision the size of a batch does not change the sums visibly
    x = x.double()
    attack, noise = short(name), noise_for(x)
    whole = attack(model, x, y, threat, noise)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(3))
    shuffled = attack(model, x[order], y[order], threat, noise[order])
    ones = [attack(model, x[[i]], y[[i]], threat, noise[torch.tensor([i])]) for i in range(len(x))]
    for field in ("images", "step", "forwards", "backwards"):
        expected = getattr(whole, field)
        assert torch.allclose(getattr(shuffled, field), expected[order], atol=1e-9)
        assert torch.allclose(torch.cat([getattr(one, field) for one in ones]), expected, atol=1e-9)


@every_attack
@pytest.mark.parametrize(("classes", "channels"), [(2, 1), (3, 3), (11, 1)])
def test_any_number_of_classes_and_channels(name, classes, channels):
    model, x = seeded(lambda: tiny_network(classes, channels)), images_like(3, channels)
    y = model(x).argmax(1).detach()
    outcome = short(name)(model, x, y, usual(name), noise_for(x))
    assert allowed(name, model, outcome.images, x, y, usual(name)).all()


@every_attack
def test_counts_every_pass_through_the_network(name, small_model, batch):
    x, y = batch
    seen = {"forwards": 0, "backwards": 0}

    def spy(images: Tensor) -> Tensor:
        seen["forwards"] += len(images)
        logits = small_model(images)
        if logits.requires_grad and images.requires_grad:
            images.register_hook(lambda grad: seen.update(backwards=seen["backwards"] + len(grad)))
        return logits

    outcome = short(name)(spy, x, y, usual(name), noise_for(x))
    assert int(outcome.forwards.sum()) == seen["forwards"]
    assert int(outcome.backwards.sum()) == seen["backwards"]


class Linear(nn.Module):
    """Two classes and a plane between them, too far away to reach."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(2, 48, generator=torch.Generator().manual_seed(0)))
        self.bias = nn.Parameter(torch.tensor([40.0, 0.0]))

    def forward(self, images: Tensor) -> Tensor:
        return images.flatten(1) @ self.weight.T + self.bias


SHORT_OF_OPTIMUM = {
    # Half of eps is spent on noise: a pixel that began on the wrong side ends where it was.
    ("r-fgsm", "linf"): 0.3,
    ("r-fgsm", "l2"): 0.3,
    # Adam scales every pixel by itself, so in L2 it walks along the sign, not along the gradient.
    ("gama-adam", "l2"): 0.75,
    ("spsa", "l2"): 0.75,
    # Windows of at least 3 x 3 are coarse on images of 4 x 4.
    ("square", "l2"): 0.5,
    ("autoattack", "l2"): 0.5,  # its last try is Square's
    # Where no boundary can be reached, the last try is a corner of the pixels drawn into the ball.
    ("fab", "l2"): 0.75,
    ("fab-t", "l2"): 0.75,
    ("cw", "l2"): 0.75,
    ("ddn", "l2"): 0.75,
}


@every_attack_and_norm
def test_reaches_the_closed_form_optimum_on_a_linear_model(name, threat):
    model, x = Linear(), torch.full((3, 3, 4, 4), 0.5)
    y = torch.zeros(3, dtype=torch.int64)
    outcome = ATTACKS.make(name)(model, x, y, threat, noise_for(x))
    across = (model.weight[1] - model.weight[0]).detach()
    best = threat.eps * float(across.abs().sum() if threat.norm is LINF else across.norm())
    reached = (outcome.images - x).flatten(1) @ across
    assert (reached >= SHORT_OF_OPTIMUM.get((name, threat.norm.name), 0.99) * best).all()
    assert (reached <= best * (1 + 1e-5)).all()


@every_attack
@pytest.mark.parametrize("width", [1, 3, 5])
def test_a_narrow_network_is_refilled_and_nothing_changes(name, width, small_model, batch):
    x, y = batch
    x, model = x.double(), small_model.double()
    sizes = []

    def narrow(images: Tensor) -> Tensor:
        sizes.append(len(images))
        return model(images)

    attack, noise = short(name), noise_for(x)
    wide = attack(Network(model, 12), x, y, usual(name), noise)
    slim = attack(Network(narrow, width), x, y, usual(name), noise)
    assert max(sizes) <= width
    for field in ("images", "step", "forwards", "backwards"):
        assert torch.allclose(getattr(slim, field), getattr(wide, field), atol=1e-9)


@every_attack
def test_the_order_of_pixels_in_memory_does_not_matter(name, small_model, batch):
    x, y = batch
    x, model = x.double(), small_model.double()
    attack, noise = short(name), noise_for(x)
    usually = attack(Network(model, 12), x, y, usual(name), noise)
    turned = attack(
        Network(model, 12), x.contiguous(memory_format=torch.channels_last), y, usual(name), noise
    )
    for field in ("images", "step", "forwards", "backwards"):
        assert torch.allclose(getattr(turned, field), getattr(usually, field), atol=1e-9)


@every_attack
@pytest.mark.parametrize("patience", [2, 5, 1000])
def test_looking_less_often_changes_nothing_but_when_images_leave(name, patience, small_model, batch):
    x, y = batch
    x, model = x.double(), small_model.double()
    attack, noise = short(name), noise_for(x)
    often = attack(Network(model, 5), x, y, usual(name), noise)
    seldom = attack(Network(model, 5, patience=patience), x, y, usual(name), noise)
    for field in ("images", "step", "forwards", "backwards"):
        assert torch.allclose(getattr(seldom, field), getattr(often, field), atol=1e-9)
