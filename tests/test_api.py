import numpy as np
import pytest
import torch
from torch import nn

import gamagat
from gamagat.data.core import from_tensors
from gamagat.engine.watch import Onlooker
from gamagat.errors import ConfigError, DataError, ModelError, RunError
from helpers import images_like, seeded, tiny_network


def test_six_lines_of_python_attack_a_module(small_model, batch):
    images, labels = batch
    adversarial = gamagat.attack("gama-pgd", small_model, eps="8/255")(images, labels)
    assert adversarial.shape == images.shape
    assert (adversarial - images).abs().max() <= 8 / 255 + 1e-6
    assert adversarial.min() >= 0
    assert adversarial.max() <= 1


@pytest.mark.parametrize(
    ("spec", "norm"),
    [
        ("fab:steps=20", "linf"),
        ("fab-t:steps=20", "linf"),
        ("fab:steps=20", "l2"),
        ("ddn:steps=20", "l2"),
        ("cw:steps=30,searches=3", "l2"),
    ],
)
def test_what_comes_back_is_within_eps_though_the_attack_looks_further(small_model, batch, spec, norm):
    images, labels = batch
    attack = gamagat.attack(spec, small_model, eps=0.01, norm=norm)
    raw, given = attack.run(images, labels).images, attack(images, labels)
    inside = attack.threat.contains(raw, images)
    assert not inside.all()
    assert torch.equal(given[inside], raw[inside])
    assert attack.threat.contains(given, images).all()
    found = gamagat.evaluate(small_model, batch, spec, eps=0.01, norm=norm)
    assert int((small_model(given).argmax(1) == labels).sum()) <= found.standing.count


def test_the_images_depend_on_the_seed_and_not_on_the_batch_size(small_model, batch):
    images, labels = batch
    double = small_model.double()
    tries = [
        gamagat.attack("pgd", double, eps=0.05, steps=5, seed=seed, batch_size=size)(images.double(), labels)
        for seed, size in ((1, 12), (1, 5), (2, 12))
    ]
    assert torch.allclose(tries[0], tries[1], atol=1e-9)
    assert not torch.allclose(tries[0], tries[2])


def test_ids_carry_an_images_random_start_into_another_batch(small_model, batch):
    images, labels = batch
    attack = gamagat.attack("gama-pgd", small_model.double(), eps=0.02, steps=3)
    whole = attack(images.double(), labels)
    part = attack(images[5:].double(), labels[5:], ids=torch.arange(5, 12))
    assert torch.allclose(whole[5:], part, atol=1e-9)


def test_run_tells_what_it_cost(small_model, batch):
    images, labels = batch
    outcome = gamagat.attack("gama-pgd", small_model, eps=0.05, steps=5).run(images, labels)
    assert (outcome.forwards >= 2).all()
    assert (outcome.backwards <= 5).all()


def test_presets_restarts_and_options_reach_the_attack(small_model, batch):
    images, labels = batch
    attack = gamagat.attack("gama-pgd", small_model, eps=0.001, preset="mnist", restarts=3, steps=2)
    assert (attack.run(images, labels).backwards <= 6).all()
    assert (attack.run(images, labels).backwards == 6).any()


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"eps": 0}, ConfigError, "eps must be positive"),
        ({"eps": "-1/255"}, ConfigError, "eps must be positive"),
        ({"name": "gamma-pgd"}, ConfigError, "did you mean 'gama-pgd'?"),
        ({"norm": "l1"}, ConfigError, "unknown norm 'l1'"),
        ({"stepz": 3}, ConfigError, "did you mean 'steps'?"),
        ({"restarts": 0}, ConfigError, "restarts must be at least 1"),
        ({"model": "resnet18"}, ConfigError, "must be a torch module"),
    ],
)
def test_wrong_settings_are_named(small_model, change, error, message):
    settings = {"name": "gama-pgd", "model": small_model, "eps": 0.1} | change
    with pytest.raises(error) as caught:
        gamagat.attack(settings.pop("name"), settings.pop("model"), **settings)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": "resnet18"}, "must be a torch module or a function of images, got str"),
        ({"attacks": gamagat.attack("fgsm", len, eps=0.1)}, "takes attacks by name"),
        ({"attacks": ["fgsm", None]}, "such as 'gama-pgd:steps=50', got NoneType"),
        ({"norm": 2}, "unknown norm '2'"),
        ({"eps": [0.1, 0.2]}, "eps must be one number such as 0.3 or '8/255', got list [0.1, 0.2]"),
        ({"eps": torch.tensor([0.1, 0.2])}, "eps must be one number"),
    ],
)
def test_settings_of_another_kind_are_named(small_model, batch, change, message):
    settings = {"model": small_model, "attacks": "fgsm", "eps": 0.1} | change
    with pytest.raises(ConfigError) as caught:
        gamagat.evaluate(settings.pop("model"), batch, **settings)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("wrap", "message"),
    [
        (lambda z: {"logits": z}, "for 12 images, got dict; wrap it"),
        (lambda z: (z, z), "for 12 images, got tuple; wrap it"),
        (lambda z: z[:, :1], "got 1 output; of one logit z make two"),
    ],
)
def test_what_an_attack_is_not_made_for_is_told_with_what_to_do(small_model, batch, wrap, message):
    with pytest.raises(ModelError) as caught:
        gamagat.attack("fgsm", lambda x: wrap(small_model(x)), eps=0.1)(*batch)
    assert message in str(caught.value)


def test_two_logits_made_of_one_are_attacked(batch):
    net, images = seeded(lambda: tiny_network(1)), batch[0]

    def model(x: torch.Tensor) -> torch.Tensor:
        z = net(x)
        return torch.cat([torch.zeros_like(z), z], 1)

    result = gamagat.evaluate(model, (images, model(images).argmax(1)), "pgd", eps=0.2)
    assert result.standing.percent < result.clean.percent == 100


def test_channels_that_do_not_fit_are_told_once(small_model, batch):
    with pytest.raises(ModelError) as caught:
        gamagat.attack("fgsm", small_model, eps=0.1)(batch[0][:, :1], batch[1])
    assert "width): they have 1 channels, and its first convolution takes 3; give it" in str(caught.value)


def test_wrong_tensors_are_named(small_model, batch):
    images, labels = batch
    attack = gamagat.attack("fgsm", small_model, eps=0.1)
    with pytest.raises(DataError, match="values from"):
        attack(images * 255, labels)
    with pytest.raises(DataError, match="must be tensors"):
        attack(np.zeros((1, 3, 8, 8)), labels)
    with pytest.raises(DataError, match="outputs are numbered 0 to 4"):
        attack(images, labels + 5)
    with pytest.raises(ModelError, match="cannot take images"):
        attack(images[:, :1], labels)


def test_an_error_inside_the_network_leaves_it_as_it_was(batch):
    images, labels = batch

    class Fickle(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net, self.calls = tiny_network(), 0

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            if self.calls > 3:
                raise RuntimeError("tired")
            return self.net(images)

    model = seeded(Fickle).train()
    with pytest.raises(ModelError, match="tired"):
        gamagat.attack("gama-pgd", model, eps=1e-4)(images, labels)
    assert model.training
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_evaluate_takes_plain_tensors():
    model, images = seeded(tiny_network), images_like(9)
    labels = model(images).argmax(1)
    result = gamagat.evaluate(model, (images, labels), ["fgsm", "gama-pgd:steps=5"], eps="4/255")
    assert result.clean.percent == 100.0
    assert result.as_json()["n"] == 9


def test_the_doctor_looks_before_an_evaluation():
    model, images = seeded(lambda: nn.Sequential(tiny_network(), nn.Dropout(0.5))), images_like(40)
    labels = model(images).argmax(1)
    model[1].forward = lambda logits: nn.functional.dropout(logits, 0.5, training=True)
    with pytest.raises(ModelError, match="non-determinism"):
        gamagat.evaluate(model, (images, labels), ["fgsm"], eps="4/255")
    forced = gamagat.evaluate(model, (images, labels), ["fgsm"], eps="4/255", force=True, onlooker=Onlooker())
    assert forced.n == 40


class Root(nn.Module):
    """A network with an infinite gradient at black pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.net = tiny_network()

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.net(images**0.9)


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_an_infinite_gradient_protects_nobody(norm):
    model, images = seeded(Root), images_like(12)
    images[:, :, ::2, ::2] = 0.0
    labels = model(images).argmax(1)
    adversarial = gamagat.attack("gama-pgd", model, eps=3.0 if norm == "l2" else 0.3, norm=norm)(
        images, labels
    )
    assert adversarial.isfinite().all()
    assert (model(adversarial).argmax(1) != labels).all()


class InPlace(nn.Module):
    """A network that writes over its input."""

    def __init__(self) -> None:
        super().__init__()
        self.net = tiny_network()

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.net(images.sub_(0.5))


def test_a_network_that_writes_over_its_input_is_attacked_and_the_images_are_left():
    model, images = seeded(InPlace), images_like(6)
    kept = images.clone()
    labels = model(images.clone()).argmax(1)
    adversarial = gamagat.attack("gama-pgd", model, eps=0.3)(images, labels)
    assert torch.equal(images, kept)
    assert (model(adversarial.clone()).argmax(1) != labels).all()


def test_an_attribute_called_width_means_nothing(small_model, batch):
    images, labels = batch
    expected = gamagat.attack("gama-pgd", small_model, eps=0.1)(images, labels)
    for width in (0, 0.5, nn.Identity()):
        small_model.width = width
        assert torch.equal(gamagat.attack("gama-pgd", small_model, eps=0.1)(images, labels), expected)
        del small_model.width


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_images_of_any_precision_stay_in_the_ball(small_model, batch, kind, norm):
    images, labels = batch[0].to(kind), batch[1]
    adversarial = gamagat.attack("pgd", small_model, eps=0.03, norm=norm, steps=5)(images, labels)
    threat = gamagat.ThreatModel({"linf": gamagat.LINF, "l2": gamagat.L2}[norm], 0.03)
    assert adversarial.dtype in (torch.float32, torch.float64)
    assert threat.contains(adversarial, images.to(adversarial.dtype)).all()


@pytest.mark.parametrize("kind", [torch.float64, torch.bfloat16])
def test_networks_of_any_precision_are_evaluated(small_model, batch, kind):
    images, _ = batch
    model = small_model.to(kind)
    labels = model(images.to(kind)).argmax(1)
    result = gamagat.evaluate(model, (images, labels), "fgsm", eps=0.05, onlooker=Onlooker())
    assert result.clean.percent == 100.0
    assert result.standing.percent < 100.0


def test_a_caller_in_inference_mode_is_served(small_model, batch):
    images, labels = batch
    with torch.inference_mode():
        adversarial = gamagat.attack("gama-pgd", small_model, eps=0.3)(images * 1, labels)
    assert (small_model(adversarial.clone()).argmax(1) != labels).all()


def test_ids_are_whole_numbers_one_for_each_image(small_model, batch):
    images, labels = batch
    attack = gamagat.attack("gama-pgd", small_model, eps=0.02, steps=2)
    short, long = (
        attack(images, labels, ids=torch.arange(12).to(kind)) for kind in (torch.int16, torch.int64)
    )
    assert torch.equal(short, long)
    for ids in (torch.arange(13), torch.rand(12)):
        with pytest.raises(DataError, match="ids must be 12 whole numbers"):
            attack(images, labels, ids=ids)


def test_a_network_that_cuts_the_gradient_is_named(small_model, batch):
    with pytest.raises(ModelError, match="cuts the gradient"):
        gamagat.attack("pgd", lambda images: small_model(images).detach(), eps=0.1)(*batch)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rate": -1.0}, "rate must lie between"),
        ({"rate": 0}, "rate must lie between"),
        ({"weight": 1e39}, "weight must lie between"),
        ({"factor": 2.0}, "factor must lie between"),
        ({"steps": 2.5}, "must be a whole number"),
        ({"rate": float("nan")}, "must be a number"),
        ({"restarts": 1.5}, "must be a whole number"),
        ({"batch_size": 0}, "batch size must be at least 1"),
    ],
)
def test_options_out_of_their_limits_are_named(small_model, options, message):
    with pytest.raises(ConfigError) as caught:
        gamagat.attack("gama-pgd", small_model, eps=0.1, **options)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("name", "options"),
    [("gama-adam", {"momentum": 1}), ("gama-adam", {"memory": 1}), ("r-fgsm", {"alpha": 5})],
)
def test_options_of_other_attacks_have_limits_too(small_model, name, options):
    with pytest.raises(ConfigError, match="must lie between"):
        gamagat.attack(name, small_model, eps=0.1, **options)


def test_evaluate_takes_names_and_batches(small_model, batch):
    images, labels = batch
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(images, labels), batch_size=5)
    assert gamagat.evaluate(small_model, loader, "fgsm", eps=0.01).n == 12
    digits = gamagat.load_model("digits-cnn")
    assert gamagat.evaluate(digits, "digits", "fgsm").clean.percent > 99
    with pytest.raises(DataError, match="data must be a data set or its name"):
        gamagat.evaluate(small_model, 5, "fgsm", eps=0.01)


def test_settings_may_be_part_of_the_name(small_model, batch):
    tries = [
        gamagat.attack("pgd:steps=3", small_model, eps=0.01)(*batch),
        gamagat.attack("pgd", small_model, eps=0.01, steps=3)(*batch),
    ]
    assert torch.equal(*tries)


def test_a_radius_beyond_the_pixels_is_refused(small_model):
    with pytest.raises(ConfigError, match="8 levels are 8/255"):
        gamagat.attack("pgd", small_model, eps=8)


def test_what_the_doctor_notes_is_a_warning():
    model, images = seeded(lambda: tiny_network(9)), images_like(40)
    labels = model(images).argmax(1)
    with pytest.warns(UserWarning, match="eps is 0.031"):
        gamagat.evaluate(model, (images, labels), "fgsm", eps="0.031")


def test_tensors_have_the_settings_of_their_data_by_name(small_model, batch):
    images, labels = batch
    data = from_tensors(images, name="mine", labels=labels, classes=map(str, range(5)), preset="mnist")
    by_name = gamagat.evaluate(small_model, batch, "pgd:steps=40", eps=0.02, preset="mnist")
    assert (
        by_name.attacks[0].spec
        == gamagat.evaluate(small_model, data, "pgd:steps=40", eps=0.02).attacks[0].spec
    )
    assert "rate=0.0333" in by_name.attacks[0].spec
    assert "rate=0.25" in gamagat.evaluate(small_model, batch, "pgd:steps=40", eps=0.02).attacks[0].spec
    with pytest.raises(ConfigError, match="unknown preset 'mnits'"):
        gamagat.evaluate(small_model, batch, "pgd", eps=0.02, preset="mnits")


def test_a_run_made_in_python_is_verified_in_python(small_model, batch, tmp_path):
    images, labels = batch
    result = gamagat.evaluate(small_model, batch, "fgsm", eps=0.05, out=tmp_path / "run")
    found = gamagat.verify(tmp_path / "run", model=small_model, data=batch)
    assert (found.problems, found.standing.percent) == ([], result.standing.percent)
    batches = [(images[:5], labels[:5]), (images[5:], labels[5:])]
    assert gamagat.verify(str(tmp_path / "run"), model=small_model, data=batches).sound
    other = gamagat.verify(tmp_path / "run", model=small_model, data=(images.flip(3), labels))
    assert any("the data is not that of the run" in problem for problem in other.problems)
    with pytest.raises(ConfigError, match="give model= as well"):
        gamagat.verify(tmp_path / "run", data=batch)
    with pytest.raises(ConfigError, match="must be a torch module or a function of images, got str"):
        gamagat.verify(tmp_path / "run", model="resnet18", data=batch)
    with pytest.raises(RunError, match=r"unknown data set 'tensors'.*model=\.\.\., data="):
        gamagat.verify(tmp_path / "run", model=small_model)
