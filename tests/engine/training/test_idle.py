"""What is said to change nothing in a training changes nothing there, and does so elsewhere."""

from collections.abc import Iterator

import pytest
from training.small_training import same, trained, write_images

from gamagat.defenses.core import DEFENSES
from gamagat.engine.training.run import Listener
from gamagat.engine.training.settings import IDLE, make_plan, told_idle
from gamagat.registry import write_value

VALUES = {  # two that make a difference where the setting counts
    "drops": ("none", "0.5"), "factor": ("0.1", "0.5"), "warmup": ("0", "1"), "peak": ("0.2", "0.8"),
    "weight": ("1", "30"), "step_up": ("none", "0.5"), "up": ("2", "50"), "alternate": ("true", "false"),
    "smoothing": ("0", "0.3"), "as_published": ("false", "true"), "ramp": ("0", "1"),
    "full": ("false", "true"), "learns": ("fgsm", "both"),
}  # fmt: skip
COUNTS = {"drops": "0.5", "step_up": "0.5"}  # so that what goes with them does
LEAVES = {"cycle": {"stepped": "triangle", "triangle": "stepped"}}


def rules() -> Iterator[tuple[str, str, dict[str, str]]]:
    """Each recipe, setting and what makes it idle."""
    for name in DEFENSES.names():
        common = IDLE if name == "gat" else {}
        for key, causes in (DEFENSES[name].idle | common).items():
            for cause in causes:
                yield name, key, {other: write_value(value) for other, value in cause.items()}


def called(value: object) -> str:
    return ",".join(f"{k}={v}" for k, v in value.items()) if isinstance(value, dict) else str(value)


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> str:
    return write_images(tmp_path_factory.mktemp("images"), 64)


@pytest.fixture
def differs(data, tmp_path):
    """Whether the two values of a setting lead to different weights."""

    def look(name: str, key: str, others: dict[str, str]) -> bool:
        folders = []
        for value in VALUES[key]:
            folders.append(tmp_path / f"{len([*tmp_path.iterdir()])}")
            settings = COUNTS | {"epochs": "2"} | others | {key: value}
            known = {k: v for k, v in settings.items() if k in make_plan(name).written()}
            trained(data, folders[-1], name, "with_norm", **known)
        return not same(*folders)

    return look


@pytest.mark.parametrize(("name", "key", "cause"), [*rules()], ids=called)
def test_an_idle_setting_changes_nothing_and_a_busy_one_does(name, key, cause, differs):
    assert not differs(name, key, cause)
    busy = {"cycle": LEAVES["cycle"][cause["cycle"]]} if "cycle" in cause else {}
    assert differs(name, key, busy)


@pytest.mark.parametrize(
    ("spec", "family", "told"),
    [
        ("gat", "digits", []),  # what nobody said is nobody's mistake
        ("gat:drops=0.5", "cifar10", []),
        ("gat:drops=0.5", "digits", ["drops=0.5 changes nothing in gat with cycle=triangle"]),
        ("gat:drops=0.5,cycle=stepped", "digits", []),
        ("gat:cycle=stepped,peak=0.3", "digits", ["peak=0.3 changes nothing in gat with cycle=stepped"]),
        ("gat:drops=none,factor=0.5", None, ["factor=0.5 changes nothing in gat with drops=none"]),
        ("gat:ablation=A1,alternate=true", None, ["alternate=true changes nothing in gat with ablation=A1"]),
        ("gat:ablation=A4,weight=3,up=2", None, ["up=2 changes nothing", "weight=3 changes nothing"]),
        ("gat:ablation=A5,weight=3", None, []),
        ("gat:as_published=true", None, []),
        ("gat:as_published=true", "mnist", ["as_published=true changes nothing in gat with alternate=false"]),
        ("gat:as_published=true,ablation=A1", "cifar10", []),  # it brings the published batch
        ("rmgm:full=true,alpha=0", None, ["full=true changes nothing in rmgm with alpha=0"]),
        ("rmgm:alpha=0,weight=9,learns=both,ramp=0.5", None, []),  # behind dropout the two views differ
        ("standard:warmup=0.1,cycle=triangle", None, ["warmup=0.1 changes nothing in standard"]),
    ],
)
def test_what_is_said_in_vain_is_told(spec, family, told):
    words = told_idle(make_plan(spec, family))
    assert len(words) == len(told)
    for sentence, beginning in zip(words, told, strict=True):
        assert sentence.startswith(beginning)


def test_what_to_do_is_told():
    (words,) = told_idle(make_plan("gat", drops=(0.5,), cycle="triangle"))
    assert words.endswith("; leave drops out, or change cycle=triangle")
    (words,) = told_idle(make_plan("gat:as_published=true,alternate=false"))
    assert words.endswith("; leave as_published out, or change alternate=false or ablation=none")


def test_a_training_says_so_and_goes_on(data, tmp_path):
    said = []
    trained(
        data, tmp_path / "run", epochs=1, ablation="A1", alternate="true", listener=Listener(say=said.append)
    )
    assert [words.partition(" changes ")[0] for words in said] == ["alternate=true"]
    assert (tmp_path / "run" / "model.safetensors").is_file()
