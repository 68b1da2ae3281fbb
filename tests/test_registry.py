import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gamagat.errors import ConfigError
from gamagat.registry import Registry, format_spec, parse_spec, read_number, read_value, write_value


@pytest.fixture
def shelf() -> Registry[dict]:
    registry: Registry[dict] = Registry("thing", "gamagat.pieces")

    @registry.register("box", presets={"small": {"size": 1}})
    def box(
        size: int = 3, depth: float | None = None, lids: tuple[int, ...] = (), open_: bool = False
    ) -> dict:
        """A box.

        With more to say.
        """
        return {"size": size, "depth": depth, "lids": lids, "open_": open_}

    @registry.register("needy")
    def needy(what: str) -> dict:
        return {"what": what}

    return registry


def test_text_is_read_by_the_annotations_of_the_factory(shelf):
    made = shelf.make("box", size="7", depth="1/4", lids="1+2", open_="yes")
    assert made == {"size": 7, "depth": 0.25, "lids": (1, 2), "open_": True}


def test_given_options_come_before_the_preset_and_the_preset_before_the_defaults(shelf):
    assert shelf.make("box")["size"] == 3
    assert shelf.make("box", "small")["size"] == 1
    assert shelf.make("box", "small", size=9)["size"] == 9
    assert shelf.make("box", "no such family")["size"] == 3


def test_the_first_line_of_the_docstring_is_the_summary(shelf):
    assert shelf["box"].summary == "A box."


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("bax", {}, "unknown thing 'bax'; did you mean 'box'?"),
        ("box,size=2", {}, "unknown thing 'box,size=2'; settings follow a colon: box:size=2"),
        ("crate,size=2", {}, "unknown thing 'crate,size=2'; known: box, needy"),
        ("box", {"sise": 1}, "unknown option of thing 'box' 'sise'; did you mean 'size'?"),
        ("box", {"size": "many"}, "box:size must be a whole number such as 10, got 'many'"),
        ("box", {"size": "1.5"}, "box:size must be a whole number"),
        ("box", {"open_": "perhaps"}, "box:open_ must be true or false"),
        ("needy", {}, "needs what"),
    ],
)
def test_mistakes_are_named(shelf, name, options, message):
    with pytest.raises(ConfigError) as caught:
        shelf.make(name, **options)
    assert message in str(caught.value)


def test_a_name_is_registered_once(shelf):
    with pytest.raises(ConfigError, match="registered twice"):
        shelf.register("box")(dict)


@pytest.mark.parametrize("spec", ["a:b", "a:=1", "a:b=", "a:b=1,c", "a:b=1,b=2"])
def test_a_spec_that_cannot_be_read_is_quoted(spec):
    with pytest.raises(ConfigError, match=r"cannot read|given twice"):
        parse_spec(spec)


VALUES = {
    int: st.integers(-(10**6), 10**6),
    bool: st.booleans(),
    float | None: st.one_of(st.none(), st.integers(-1000, 1000).map(lambda n: n / 8)),
    tuple[int, ...]: st.lists(st.integers(0, 99)).map(tuple),
}


@given(st.sampled_from(list(VALUES)).flatmap(lambda hint: st.tuples(st.just(hint), VALUES[hint])))
def test_what_is_written_can_be_read_again(case):
    hint, value = case
    name, options = parse_spec(format_spec("attack", {"key": value}))
    assert name == "attack"
    assert read_value(options["key"], hint, "key") == value


@pytest.mark.parametrize(
    ("text", "number"), [("8/255", 8 / 255), ("0.3", 0.3), ("1e-2", 0.01), (" 2 / 4 ", 0.5)]
)
def test_numbers_may_be_fractions(text, number):
    assert read_number(text, "eps") == number


@pytest.mark.parametrize("text", ["", "eight", "8/0", "8//255", "nan", "inf", "0x10", "1,5"])
def test_any_other_text_is_refused_in_one_sentence(text):
    with pytest.raises(ConfigError, match="eps must be a number"):
        read_number(text, "eps")


def test_literals_are_checked():
    assert read_value("on", Literal["on", "off"], "switch") == "on"
    with pytest.raises(ConfigError, match="unknown value of switch"):
        read_value("un", Literal["on", "off"], "switch")


def test_values_are_written_as_the_command_line_takes_them():
    assert [write_value(v) for v in (None, True, 0.25, (60, 85), "x")] == [
        "none",
        "true",
        "0.25",
        "60+85",
        "x",
    ]


def test_threads_that_come_first_together_all_see_every_name(tmp_path, monkeypatch):
    """The imports of a module take their time, and may ask for names themselves."""
    package = tmp_path / "slow_shelf"
    package.mkdir()
    (package / "__init__.py").write_text(
        "from gamagat.registry import Registry\nTHINGS = Registry('thing', 'slow_shelf')\n"
    )
    (package / "late.py").write_text(
        "import time\nfrom slow_shelf import THINGS\ntime.sleep(0.3)\nTHINGS.names()\n"
        "THINGS.register('late')(lambda: None)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    things = import_module("slow_shelf").THINGS
    try:
        with ThreadPoolExecutor(4) as pool:
            assert [*pool.map(lambda _: things.names(), range(4))] == [["late"]] * 4
    finally:
        for name in ("slow_shelf", "slow_shelf.late"):
            sys.modules.pop(name, None)
