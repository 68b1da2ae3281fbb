"""Networks and callers that do the unexpected: numbers are right, and everything comes back as it was."""

import threading
import warnings

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import gamagat
from gamagat.data.core import from_tensors
from gamagat.engine.watch import Onlooker
from gamagat.errors import ConfigError, DataError, ModelError, RunError
from helpers import images_like, seeded, tiny_network

DIGITS = "digits-cnn"


@pytest.fixture(scope="module")
def digits():
    """A trained network and images that it gets right."""
    model = gamagat.load_model(DIGITS).eval()
    data = gamagat.load_data("digits").head(40)
    return model, *data.batch(torch.arange(40))


class Adapted(nn.Linear):
    """As adapters do it: in evaluation mode their share lies in the weights, in training mode beside them."""

    def __init__(self) -> None:
        super().__init__(192, 5)
        self.share = nn.Parameter(torch.full((5, 192), 0.01))

    def train(self, mode: bool = True) -> "Adapted":
        if mode != self.training:
            self.weight.data += -self.share.data if mode else self.share.data
        return super().train(mode)

    def forward(self, images: Tensor) -> Tensor:
        weight = self.weight + self.share if self.training else self.weight
        return nn.functional.linear(images.flatten(1), weight, self.bias)


def test_a_network_whose_modes_do_something_comes_back_as_it_was():
    model = nn.Sequential(seeded(Adapted).train(), nn.Dropout().eval()).train()
    model[1].eval()
    images = images_like(6)
    before, labels = model[0].weight.clone(), model(images).argmax(1)
    gamagat.attack("pgd", model, eps=0.05, steps=2)(images, labels)
    assert torch.allclose(model[0].weight, before)
    assert [part.training for part in model.modules()] == [True, True, False]


@pytest.mark.parametrize("name", ["fab-t:steps=10", "apgd-ce:steps=10"])
def test_an_attack_under_autocast_is_the_same(digits, name):
    model, x, y = digits
    attack = gamagat.attack(name, model, eps=0.15)
    alone = attack(x, y)
    with torch.autocast("cpu", torch.bfloat16):
        cast = attack(x, y)
    assert torch.equal(alone, cast)


def test_ctrl_c_in_an_evaluation_is_not_taken_for_its_end(digits, tmp_path):
    model, x, y = digits
    looks = [0]

    def interrupted(images: Tensor) -> Tensor:
        looks[0] += 1
        if looks[0] == 25:
            raise KeyboardInterrupt
        return model(images)

    with pytest.raises(KeyboardInterrupt):
        gamagat.evaluate(interrupted, (x, y), "pgd:steps=40", eps=0.15, out=tmp_path)
    again = gamagat.evaluate(interrupted, (x, y), "pgd:steps=40", eps=0.15, out=tmp_path)
    whole = gamagat.evaluate(model, (x, y), "pgd:steps=40", eps=0.15)
    assert looks[0] > 50
    assert (again.clean, again.standing) == (whole.clean, whole.standing)


def test_a_folder_goes_on_with_the_same_function_alone(digits, tmp_path):
    model, x, y = digits

    def evaluated(of):
        return gamagat.evaluate(of, (x, y), "fgsm", eps=0.15, out=tmp_path)

    first = evaluated(lambda images: model(images) + 0)
    assert evaluated(lambda images: model(images) * 1.0001).clean == first.clean
    with pytest.raises(RunError, match="answers otherwise to the same images"):
        evaluated(lambda images: model(images.flip(3)))


class Scaled(nn.Module):
    def __init__(self, net: nn.Module, by: float) -> None:
        super().__init__()
        self.net, self.by = net, by

    def forward(self, images: Tensor) -> Tensor:
        return self.net(images * self.by)


def test_a_folder_goes_on_with_the_same_settings_of_a_module_alone(digits, tmp_path):
    """They are no weights, and no hash of weights tells them."""
    model, x, y = digits
    gamagat.evaluate(Scaled(model, 1.0).eval(), (x, y), "fgsm", eps=0.15, out=tmp_path)
    with pytest.raises(RunError, match="give another --out"):
        gamagat.evaluate(Scaled(model, 0.5).eval(), (x, y), "fgsm", eps=0.15, out=tmp_path)


def test_a_network_that_is_sure_of_the_data_is_known_by_what_it_says_of_noise(digits, tmp_path):
    """Where it sees black and white alone, grey in their place changes little, and attacks a lot."""
    model, x, y = digits
    sharp = (x > 0.5).float()

    def evaluated(of):
        return gamagat.evaluate(of, (sharp, y), "fgsm", eps=0.15, out=tmp_path)

    evaluated(lambda images: model(torch.sigmoid(30 * (images - 0.5))))
    with pytest.raises(RunError, match="answers otherwise to the same images"):
        evaluated(lambda images: model(torch.sigmoid(30 * (images - 0.7))))


def test_a_network_that_answers_by_chance_may_go_on(digits, tmp_path):
    model, x, y = digits

    def noisy(images: Tensor) -> Tensor:
        noise = np.random.default_rng().normal(size=images.shape)  # dice that nobody sets
        return model(images + 0.3 * torch.tensor(noise, dtype=images.dtype))

    for _ in range(2):
        with pytest.warns(UserWarning, match="non-determinism"):
            gamagat.evaluate(noisy, (x, y), "fgsm", eps=0.15, out=tmp_path, force=True)


def test_dice_of_a_network_are_its_own(digits):
    """Results do not hang on the caller's random state, and leave it as it was."""
    model, x, y = digits

    def noisy(images: Tensor) -> Tensor:
        return model(images + 0.1 * torch.randn_like(images))

    def made(seed: int) -> list[Tensor]:
        torch.manual_seed(seed)
        before = torch.get_rng_state()
        attack = gamagat.attack("pgd", noisy, eps=0.15, steps=3)(x, y)
        suite = gamagat.AutoAttack(
            noisy, eps=0.15, version="custom", attacks_to_run=["square"], verbose=False
        )
        judged = suite.run_standard_evaluation(x[:4], y[:4])
        assert torch.equal(torch.get_rng_state(), before)
        return [attack, judged]

    with torch.random.fork_rng():
        for one, other in zip(made(1), made(2), strict=True):
            assert torch.equal(one, other)


@pytest.mark.parametrize("kind", ["network", "logits"])
def test_several_looks_at_a_network_of_double_precision(digits, kind):
    model, x, y = digits
    wide = gamagat.load_model(DIGITS).double().eval() if kind == "network" else None
    net = wide or (lambda images: model(images).double())
    once, often = (gamagat.attack("apgd-ce", net, eps=0.1, steps=3, eot=eot)(x, y) for eot in (1, 2))
    assert (once - often).abs().max() < 1e-5  # it always answers the same


def test_probabilities_are_let_through_by_force(digits):
    model, x, y = digits
    net = nn.Sequential(model, nn.Softmax(1)).eval()
    with pytest.raises(ModelError, match="probabilities"):
        gamagat.evaluate(net, (x, y), "fgsm", eps=0.1)
    with pytest.warns(UserWarning, match="probabilities"):
        assert gamagat.evaluate(net, (x, y), "fgsm", eps=0.1, force=True).clean.of == len(x)


def test_weights_of_inference_mode_are_named_and_left(digits):
    _, x, y = digits
    with torch.inference_mode():
        model = gamagat.load_model(DIGITS).double().float()
    model.train()
    for serve in (gamagat.attack("fgsm", model, eps=0.1), lambda x, y: gamagat.evaluate(model, (x, y))):
        with pytest.raises(ModelError, match="inference_mode"):
            serve(x, y)
    assert all(part.training for part in model.modules())


class Bright(nn.Module):
    """Fooled by whatever is darker than before by almost all that eps allows."""

    def __init__(self, limit: float) -> None:
        super().__init__()
        self.limit = limit

    def forward(self, images: Tensor) -> Tensor:
        lead = images.double().flatten(1).mean(1) - self.limit
        return torch.stack([lead, -lead], 1)


@pytest.mark.parametrize("name", ["fgsm", "gama-pgd:steps=5", "apgd-ce:steps=5"])
@pytest.mark.parametrize("side", [32, 224])
def test_an_l2_attack_on_a_large_image_of_one_colour_stays_inside(name, side):
    pixels = 3 * side * side
    model, x = Bright(1 - 0.99 / pixels**0.5), torch.ones(2, 3, side, side)
    y = torch.zeros(2, dtype=torch.int64)
    found = gamagat.attack(name, model, eps=1.0, norm="l2")(x, y)
    assert ((found.double() - x).flatten(1).norm(dim=1) <= 1.0).all()
    data = from_tensors(x, name="white", labels=y, classes=["bright", "dark"])
    result = gamagat.evaluate(model, data, name, eps=1.0, norm="l2", onlooker=Onlooker(), force=True)
    assert result.standing.percent == 0


def test_a_family_that_nobody_knows_is_refused(small_model):
    for preset in ("mnist", "cifar10", "digits", "imagenet", None):
        gamagat.attack("pgd", small_model, eps=0.3, preset=preset)
    for preset in ("MNIST", "folder", "imagenet100"):
        with pytest.raises(
            ConfigError, match=f"unknown preset '{preset}'.*known: cifar10, digits, imagenet, mnist"
        ):
            gamagat.attack("pgd", small_model, eps=0.3, preset=preset)


def test_numbers_of_numpy_are_numbers(small_model, batch):
    images, labels = batch
    plain = gamagat.attack("ga-ce", small_model, eps=0.05, steps=3, seed=3, batch_size=8, weight=1 / 3)
    numpy = gamagat.attack(
        "ga-ce", small_model, eps=np.float64(0.05), steps=np.int64(3), seed=np.int64(3),
        batch_size=np.int64(8), weight=np.float64(1 / 3),
    )  # fmt: skip
    assert torch.equal(plain(images, labels), numpy(images, labels))
    settings = {"restarts": np.int64(2), "seed": np.int64(3), "batch_size": np.int32(8)}
    assert gamagat.evaluate(small_model, (images, labels.to(torch.uint16)), "fgsm", eps=0.01, **settings)
    with pytest.raises(ConfigError, match="restarts must be a whole number"):
        gamagat.evaluate(small_model, (images, labels), "fgsm", eps=0.01, restarts=1.5)


def test_what_is_wrong_with_batches_is_told(small_model):
    def batches():
        yield images_like(2), torch.zeros(2).long()
        raise ValueError("no such file: cat.png")

    with pytest.raises(DataError, match=r"no such file: cat\.png") as caught:
        gamagat.evaluate(small_model, batches(), "fgsm", eps=0.01)
    assert isinstance(caught.value.__cause__, ValueError)


class Squeezed(nn.Sequential):
    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images).squeeze()


def test_a_network_that_loses_the_last_image_is_named(batch):
    images, labels = batch
    model = Squeezed(*seeded(tiny_network).children()).eval()
    with pytest.raises(ModelError, match=r"must return logits of shape \(1, classes\) for 1 images, got"):
        gamagat.attack("fgsm", model, eps=0.01)(images, labels)


def test_evaluations_side_by_side_in_threads(digits):
    _, x, y = digits
    alone = gamagat.evaluate(gamagat.load_model(DIGITS), (x, y), "pgd:steps=20", eps=0.15).standing
    found: list[object] = []

    def work() -> None:
        try:
            found.append(
                gamagat.evaluate(gamagat.load_model(DIGITS), (x, y), "pgd:steps=20", eps=0.15).standing
            )
        except Exception as error:
            found.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [alone] * 4


def test_an_evaluation_of_a_network_with_dice_repeats(digits):
    model, x, y = digits

    def dicey(images: Tensor) -> Tensor:
        logits = model(images)
        return logits + 5 * torch.randn_like(logits)

    def judged() -> tuple[int, int]:
        torch.rand(1)  # the caller's dice roll on
        result = gamagat.evaluate(dicey, (x, y), "pgd:steps=5", eps=0.05, force=True)
        return result.clean.count, result.standing.count

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the doctor, who sees the dice
        found = {judged() for _ in range(4)}
    assert len(found) == 1
    assert found != {(40, 40)}


def test_attacks_without_gradients_are_let_through_where_there_are_none(digits):
    model, x, y = digits

    def stepped(images: Tensor) -> Tensor:
        return model((images * 8).round() / 8)

    with pytest.warns(UserWarning, match="input-gradients"):
        result = gamagat.evaluate(stepped, (x, y), "square:queries=20", eps=0.15)
    assert result.clean.percent > 50
    with pytest.raises(ModelError, match="input-gradients"):
        gamagat.evaluate(stepped, (x, y), ["square:queries=20", "fgsm"], eps=0.15)


def test_one_image_many_times_is_no_sign_of_a_dead_network(digits):
    model, x, y = digits
    same, labels = x[:1].expand(10, -1, -1, -1).clone(), y[:1].expand(10).clone()
    data = from_tensors(same, name="ten", labels=labels, classes=map(str, range(10)))
    assert gamagat.evaluate(model, data, "fgsm", eps=0.1).clean.percent == 100
