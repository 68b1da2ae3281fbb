"""What a training is asked to do, in words and back."""

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from gamagat.defenses.core import DEFENSES, Made, Terms
from gamagat.engine.training.settings import Settings, make_plan, parse_settings
from gamagat.errors import ConfigError
from gamagat.registry import Entry


def test_the_stepped_rate_of_a_hundred_epochs_falls_after_71_and_after_86():
    rate = Settings().rate_at()
    rates = [round(rate(epoch / 100), 12) for epoch in range(100)]
    assert rates == [0.1] * 71 + [0.01] * 15 + [0.001] * 14


@pytest.mark.parametrize("epochs", [7, 30, 76, 110, 200])
def test_a_drop_falls_on_the_epoch_it_names_whatever_the_rounding(epochs):
    for drop in range(epochs):
        rate = Settings(drops=(drop / epochs,), rate=1.0).rate_at()
        assert [rate(epoch / epochs) for epoch in range(epochs)] == [1.0] * drop + [0.1] * (epochs - drop)


def test_without_drops_the_rate_stays():
    rate = Settings(drops=()).rate_at()
    assert {rate(done) for done in (0.0, 0.5, 1.0)} == {0.1}


def test_the_triangle_rises_from_nothing_to_the_peak_and_falls_to_nothing():
    rate = Settings(cycle="triangle", rate=0.2, peak=0.4).rate_at()
    assert [rate(0.0), rate(0.4), rate(1.0)] == [0.0, 0.2, 0.0]
    assert rate(0.2) == pytest.approx(0.1)
    assert rate(0.7) == pytest.approx(0.1)
    assert rate(1.1) == 0.0


def test_a_triangle_without_a_rise_begins_at_its_peak():
    rate = Settings(cycle="triangle", rate=0.2, peak=0.0).rate_at()
    assert rate(0.0) == 0.2
    assert rate(0.5) == pytest.approx(0.1)


def test_warmup_rises_to_the_rate_and_no_further():
    rate = Settings(warmup=0.1).rate_at()
    assert rate(0.0) == 0.0
    assert rate(0.05) == pytest.approx(0.05)
    assert rate(0.1) == rate(0.5) == 0.1


def knobbed(first: int = 1, second: int = 1, as_published: bool = False):
    """A recipe for this test."""
    return Made(lambda stage: Terms({}))


@pytest.fixture
def recipe(monkeypatch):
    """A recipe with a preset of every kind."""
    presets = {
        "any": {"first": 2, "second": 2, "epochs": 2, "batch": 2, "rate": 2.0},
        "here": {"second": 3, "epochs": 3, "batch": 3, "rate": 3.0},
        "here/net": {"epochs": 4, "batch": 4, "rate": 4.0},
        "here/as_published": {"batch": 5},
        "here/net/as_published": {"rate": 6.0},
    }
    DEFENSES.names()
    monkeypatch.setitem(DEFENSES._entries, "knobbed", Entry(knobbed, presets))
    return "knobbed"


def told(plan):
    return (
        plan.own["first"],
        plan.own["second"],
        plan.settings.epochs,
        plan.settings.batch,
        plan.settings.rate,
    )


@pytest.mark.parametrize(
    ("family", "model", "words", "expected"),
    [
        (None, None, "", (2, 2, 2, 2, 2.0)),
        ("elsewhere", "net", "", (2, 2, 2, 2, 2.0)),
        ("here", "other", "", (2, 3, 3, 3, 3.0)),
        ("here", "net", "", (2, 3, 4, 4, 4.0)),
        ("here", "net:width=3", "", (2, 3, 4, 4, 4.0)),
        ("here", "net", ":second=9,epochs=9", (2, 9, 9, 4, 4.0)),
        ("here", "net", ":as_published=true", (2, 3, 4, 5, 6.0)),
        ("here", "other", ":as_published=yes", (2, 3, 3, 5, 3.0)),
        ("here", "net", ":as_published=true,batch=7", (2, 3, 4, 7, 6.0)),
        ("here", "net", ":as_published=false", (2, 3, 4, 4, 4.0)),
    ],
)
def test_what_is_given_wins_over_the_networks_preset_which_wins_over_the_datas(
    recipe, family, model, words, expected
):
    assert told(make_plan(recipe + words, family, model)) == expected


def test_an_option_beside_the_recipe_wins_over_one_in_it(recipe):
    plan = make_plan(f"{recipe}:epochs=9,first=8", "here", "net", **{"epochs": "10", "weight-decay": 0.5})
    assert (plan.settings.epochs, plan.own["first"], plan.settings.weight_decay) == (10, 8, 0.5)


def test_the_published_networks_have_presets_of_their_own():
    wide, narrow = (make_plan("tr-gat", "cifar10", model) for model in ("wrn-34-10", "resnet18"))
    assert (wide.own["beta"], narrow.own["beta"]) == (6.0, 5.0)
    assert wide.settings.epochs == narrow.settings.epochs == 76


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("gta", "unknown recipe 'gta'; did you mean 'gat'?"),
        ("gat:epoch=3", "unknown option of recipe 'gat' 'epoch'; did you mean 'epochs'?"),
        ("gat:model=3", "unknown option of recipe 'gat' 'model'"),
        ("free:as_published=true", "unknown option of recipe 'free' 'as_published'"),
        ("gat:as_published=perhaps", "as_published must be true or false, got 'perhaps'"),
        ("gat:epochs=0", "epochs must lie between 1 and 1e+06, got 0"),
        ("gat:epochs=2.5", "gat:epochs must be a whole number from 1 to 1,000,000, got '2.5'"),
        ("gat:epochs=many", "gat:epochs must be a whole number from 1 to 1,000,000, got 'many'"),
        ("gat:batch=0", "batch must lie between 1"),
        ("gat:rate=0", "rate must lie between"),
        ("gat:rate=-1", "rate must lie between"),
        ("gat:rate=nan", "gat:rate must be a number"),
        ("gat:cycle=square", "unknown value of gat:cycle 'square'"),
        ("gat:optimizer=sdg", "did you mean 'sgd'?"),
        ("gat:drops=0.5+1.5", "drops must lie between 0 and 1, got 1.5"),
        ("gat:peak=1", "peak must lie between 0 and 0.999"),
        ("gat:ema=1", "ema must lie between"),
        ("gat:smoothing=1", "smoothing must lie between"),
        ("gat:awp=2", "awp must lie between 0 and 1"),
        ("gat:replays=0", "replays must lie between 1"),
        ("gat:momentum=1", "momentum must lie between"),
        ("gat:probe=0", "probe must lie between 1"),
        ("gat:weight=-1", "weight must lie between"),
        ("pgd-at:steps=0", "at least one step"),
        ("gat:epochs", "cannot read 'epochs'"),
        ("gat:epochs=1,epochs=2", "given twice"),
    ],
)
def test_a_wrong_value_is_one_clear_sentence(spec, message):
    with pytest.raises(ConfigError) as caught:
        make_plan(spec)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("key", ["model", "family", "spec", "self"])
def test_a_setting_called_like_an_argument_is_unknown_like_any_other(key):
    with pytest.raises(ConfigError, match=f"unknown option of recipe 'gat' '{key}'"):
        make_plan("gat", None, None, **{key: "x"})


def test_settings_are_read_from_words():
    assert parse_settings(None) == {}
    assert parse_settings(["epochs=30", " weight-decay = 1e-4 ", "drops=0.5+0.75"]) == {
        "epochs": "30",
        "weight_decay": "1e-4",
        "drops": "0.5+0.75",
    }


@pytest.mark.parametrize("word", ["epochs", "=3", "epochs=", " = ", ""])
def test_a_word_without_key_or_value_is_one_sentence(word):
    with pytest.raises(ConfigError, match="--set takes key=value, got"):
        parse_settings(["batch=3", word])


def shares(least: float, most: float) -> st.SearchStrategy[float]:
    return st.floats(least, most, allow_nan=False)


SETTINGS = st.builds(
    Settings,
    epochs=st.integers(1, 10**6),
    batch=st.integers(1, 10**6),
    rate=shares(1e-12, 1e12),
    cycle=st.sampled_from(["stepped", "triangle"]),
    drops=st.lists(shares(0, 1), max_size=4).map(tuple),
    factor=shares(1e-12, 1),
    peak=shares(0, 0.999),
    warmup=shares(0, 1),
    optimizer=st.sampled_from(["sgd", "adam"]),
    momentum=shares(0, 0.9999),
    weight_decay=shares(0, 1e12),
    replays=st.integers(1, 1000),
    ema=shares(0, 0.999999),
    smoothing=shares(0, 0.99),
    awp=shares(0, 1),
    augment=st.sampled_from(["auto", "none", "crop-flip", "resized-crop-flip"]),
    probe=st.integers(1, 10**12),
)


@hypothesis_settings(deadline=None)
@given(SETTINGS, st.sampled_from(DEFENSES.names()), st.sampled_from(["cifar10", "mnist", "digits", None]))
def test_a_plan_is_made_again_by_its_words(settings, name, family):
    values = {field.name: getattr(settings, field.name) for field in fields(Settings)}
    plan = make_plan(name, family, "wrn-34-10", **values)
    again = make_plan(plan.spec)
    assert plan.settings == settings
    assert (again.name, again.own, again.settings) == (plan.name, plan.own, plan.settings)
    assert again.spec == plan.spec
    assert make_plan(plan.spec, "mnist", "m-lenet").settings == settings  # nothing is left to a preset


@hypothesis_settings(deadline=None)
@given(shares(0, 1e12), st.lists(shares(0, 1), max_size=3).map(tuple), st.booleans())
def test_the_recipes_own_settings_come_back_as_well(weight, step_up, alternate):
    plan = make_plan("gat", weight=weight, step_up=step_up, alternate=alternate)
    assert make_plan(plan.spec).own == plan.own
    assert plan.own["weight"] == weight
    assert plan.own["step_up"] == step_up
    assert plan.own["alternate"] is alternate
