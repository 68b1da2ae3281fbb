"""The class with AutoAttack's calling convention."""

import warnings

import pytest
import torch
from torch import Tensor, nn

import gamagat
from gamagat.errors import ConfigError, DataError, ModelError
from helpers import images_like, seeded, tiny_network

EPS = 0.03


@pytest.fixture(scope="module")
def case():
    model, x = seeded(tiny_network), images_like(30)
    with torch.no_grad():
        y = model(x).argmax(1)
    y[:3] = (y[:3] + 1) % 5
    return model, x, y


def quick(model, **options):
    chosen = {"version": "custom", "attacks_to_run": ["apgd-ce", "square"], "verbose": False} | options
    return gamagat.AutoAttack(model, norm="Linf", eps=EPS, **chosen)


def test_the_images_are_what_people_expect(case):
    model, x, y = case
    images, labels = quick(model).run_standard_evaluation(x, y, bs=7, return_labels=True)
    assert images.shape == x.shape
    assert float((images - x).abs().max()) <= EPS + 1e-6
    assert torch.equal(labels, model(images).argmax(1))
    fooled = labels != y
    assert fooled[:3].all()  # wrong untouched
    assert 3 < int(fooled.sum()) < 30
    assert torch.equal(images[~fooled], x[~fooled])
    assert torch.equal(images[:3], x[:3])


def test_no_result_depends_on_the_batch_or_on_the_callers_random_state(case):
    model, x, y = case
    state = torch.get_rng_state()
    first = quick(model).run_standard_evaluation(x, y, bs=30)
    assert torch.equal(state, torch.get_rng_state())
    torch.rand(3)
    second = quick(model).run_standard_evaluation(x, y, bs=4)
    assert torch.equal(model(first).argmax(1) == y, model(second).argmax(1) == y)


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float64])
def test_images_of_any_precision_fall_alike(case, kind):
    model, x, y = case
    rounded = x.to(kind)
    images, labels = quick(model).run_standard_evaluation(rounded, y, return_labels=True)
    single = quick(model).run_standard_evaluation(rounded.float(), y)
    assert images.dtype == (torch.float64 if kind is torch.float64 else torch.float32)
    assert torch.equal(labels != y, model(single).argmax(1) != y)
    assert float((images.double() - rounded.double()).abs().max()) <= EPS + 1e-6
    assert all(
        not torch.equal(found, rounded.to(found))
        for found in quick(model).run_standard_evaluation_individual(rounded, y).values()
    )


def test_labels_of_any_whole_kind_will_do(case):
    model, x, y = case
    wide, narrow = (quick(model).run_standard_evaluation(x, labels) for labels in (y, y.int()))
    assert torch.equal(wide, narrow)


@pytest.mark.parametrize(
    "way", ["run_standard_evaluation", "run_standard_evaluation_individual", "clean_accuracy"]
)
def test_what_cannot_be_judged_is_refused_at_the_door(case, way):
    model, x, y = case
    for wrong in (y + 5, y - 1):  # else they would count as fooled
        with pytest.raises(DataError, match="numbered 0 to 4"):
            getattr(quick(model), way)(x, wrong)
    with pytest.raises(DataError, match="tensors"):
        getattr(quick(model), way)(x.numpy(), y)
    with pytest.raises(ModelError, match="probabilities"):
        getattr(quick(lambda images: model(images).softmax(1)), way)(x, y)
    with pytest.raises(ModelError, match="NaN"):
        getattr(quick(lambda images: model(images) * float("nan")), way)(x, y)
    with pytest.raises(ModelError, match="tuple"):
        getattr(quick(lambda images: (model(images),)), way)(x, y, bs=4)


def test_it_says_what_each_attack_left(case, capsys):
    model, x, y = case
    quick(model, verbose=True).run_standard_evaluation(x, y)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "initial accuracy: 90.00 %"
    assert lines[1].startswith("robust accuracy after apgd-ce: ")
    assert lines[2].startswith("robust accuracy after square: ")


def test_the_words_of_the_original_are_understood(case, tmp_path):
    model, x, y = case
    log = tmp_path / "log.txt"
    quick(model, device="cuda", log_path=log).run_standard_evaluation(x, y)
    assert log.read_text().startswith("initial accuracy: 90.00 %\nrobust accuracy after apgd-ce")


def test_the_attacks_may_be_chosen_afterwards(case):
    model, x, y = case
    attack = gamagat.AutoAttack(model, eps=EPS, verbose=False)
    assert attack.attacks_to_run == ["apgd-ce", "apgd-t", "fab-t", "square"]
    attack.attacks_to_run = ["apgd-ce"]
    assert list(attack.run_standard_evaluation_individual(x, y)) == ["apgd-ce"]
    with pytest.raises(ConfigError, match="apgd-ce"):
        attack.attacks_to_run = ["pgd"]


def test_each_attack_by_itself(case):
    model, x, y = case
    found = quick(model).run_standard_evaluation_individual(x, y)
    together = quick(model).run_standard_evaluation(x, y)
    assert list(found) == ["apgd-ce", "square"]
    left = [int((model(images).argmax(1) == y).sum()) for images in (*found.values(), together)]
    assert left[2] <= min(left[:2])
    assert quick(model).clean_accuracy(x, y) == pytest.approx(0.9)


@pytest.mark.parametrize("name", ["fab", "fab-t"])
def test_no_image_lies_outside_the_ball(case, name):
    model, x, y = case
    found = quick(model, attacks_to_run=[name]).run_standard_evaluation_individual(x, y)[name]
    assert float((found - x).abs().max()) <= EPS + 1e-6
    together = quick(model, attacks_to_run=[name]).run_standard_evaluation(x, y)
    assert torch.equal(model(found).argmax(1) == y, model(together).argmax(1) == y)


@pytest.mark.parametrize(
    ("version", "names"),
    [("standard", ["apgd-ce", "apgd-t", "fab-t", "square"]), ("rand", ["apgd-ce", "apgd-dlr"])],
)
def test_versions(case, version, names):
    model, *_ = case
    assert [name for name, _ in gamagat.AutoAttack(model, version=version).members] == names


def test_few_classes_are_warned_of():
    model, x = seeded(lambda: tiny_network(classes=3)), images_like(4)
    y = model(x).argmax(1)
    attack = quick(model, attacks_to_run=["apgd-dlr"])
    with pytest.warns(UserWarning, match="3 classes.*falls back"):
        attack.run_standard_evaluation(x, y)
    with pytest.warns(UserWarning, match="falls back"):
        gamagat.attack("apgd-t:steps=2", model, eps=0.1)(x, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gamagat.attack("apgd-ce:steps=2", model, eps=0.1)(x, y)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"version": "custom", "attacks_to_run": []}, "apgd-ce"),
        ({"version": "custom", "attacks_to_run": ["apgd"]}, "apgd-ce"),
        ({"version": "plus"}, "standard"),
        ({"attacks_to_run": ["apgd-ce"]}, "custom"),
        ({"seed": 1.5}, "seed"),
        ({"norm": "L1"}, "linf"),
        ({"eps": -1}, "eps"),
    ],
)
def test_bad_options_are_one_sentence(case, options, words):
    with pytest.raises(ConfigError, match=words):
        gamagat.AutoAttack(case[0], **options)


class Coarse(nn.Module):
    """Like a GPU's products: where TF32 is allowed, the class of most images seems a little behind."""

    def __init__(self) -> None:
        super().__init__()
        self.exact = tiny_network()

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.exact(images)
        exact = torch.backends.cudnn.conv.fp32_precision == "ieee"
        return logits if exact else logits - torch.tensor([0.0, 0.0, 0.0, 0.0, 0.05])


@pytest.mark.usefixtures("tf32")
@pytest.mark.parametrize("name", ["apgd-ce", "apgd-t", "square"])
def test_what_seems_to_fall_walks_on_until_the_judge_agrees(name):
    """Every image can be fooled here; one that left too early would count as standing."""
    model, x = seeded(Coarse), images_like(30)
    y = model.exact(x).argmax(1)
    attack = gamagat.AutoAttack(model, eps=0.2, version="custom", attacks_to_run=[name], verbose=False)
    images = attack.run_standard_evaluation(x, y)
    assert int((model.exact(images).argmax(1) == y).sum()) == 0
