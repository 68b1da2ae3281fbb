"""Names for things that can be plugged in, and the little language that configures them.

A factory's signature is its configuration: `gama-pgd:steps=50,fade=10` on the command line is
`ATTACKS.make("gama-pgd", steps=50, fade=10)` in Python.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from importlib.metadata import entry_points
from threading import RLock
from typing import Any, Generic, TypeVar

from gamagat.errors import ConfigError, unknown

T = TypeVar("T")
Options = dict[str, Any]
Idle = Mapping[str, Sequence[Options]]  # a setting -> others, by each of which it changes nothing


@dataclass(frozen=True, slots=True)
class Entry(Generic[T]):
    """One registered factory, the settings it prefers for some families of data, and what it is."""

    factory: Callable[..., T]
    presets: Mapping[str, Options] = field(default_factory=dict)
    tags: frozenset[str] = frozenset()
    idle: Idle = field(default_factory=dict)

    @property
    def summary(self) -> str:
        """The first line of the factory's docstring."""
        return (inspect.getdoc(self.factory) or "").split("\n")[0]

    def defaults(self, preset: str | None = None) -> Options:
        """Every option with the value it has when nobody sets it."""
        signature = inspect.signature(self.factory).parameters
        plain = {name: option.default for name, option in signature.items()}
        return plain | dict(self.presets.get(preset or "", {}))


class Registry(Generic[T]):
    """Maps a name to a factory; a module joins by decorating one function."""

    def __init__(self, kind: str, package: str) -> None:
        self.kind = kind
        self._package = package
        self._entries: dict[str, Entry[T]] = {}
        self._loaded = self._loading = False
        self._lock = RLock()

    def register(
        self,
        name: str,
        presets: Mapping[str, Options] | None = None,
        tags: Iterable[str] = (),
        idle: Idle | None = None,
    ) -> Callable[[Callable[..., T]], Callable[..., T]]:
        """Add the decorated factory under `name`; `presets` holds its settings for families of data.

        `idle` says which settings change nothing where others have such values.
        """

        def add(factory: Callable[..., T]) -> Callable[..., T]:
            if name in self._entries:
                raise ConfigError(f"{self.kind} {name!r} is registered twice")
            self._entries[name] = Entry(factory, presets or {}, frozenset(tags), idle or {})
            return factory

        return add

    def names(self) -> list[str]:
        """All known names, sorted."""
        self._load()
        return sorted(self._entries)

    def families(self) -> list[str]:
        """All families of data that some entry has settings for, sorted."""
        self._load()
        return sorted({family for entry in self._entries.values() for family in entry.presets})

    def __contains__(self, name: str) -> bool:
        self._load()
        return name in self._entries

    def __getitem__(self, name: str) -> Entry[T]:
        self._load()
        if name not in self._entries:
            raise self._unknown(name)
        return self._entries[name]

    def _unknown(self, name: str) -> ConfigError:
        first, _, settings = name.partition(",")
        if first in self._entries and "=" in settings:
            return ConfigError(
                f"unknown {self.kind} {name!r}; settings follow a colon: {first}:{settings.strip()}"
            )
        return unknown(self.kind, name, self._entries)

    def settings(self, name: str, preset: str | None = None, **options: Any) -> Options:
        """All options of `name`: the factory's own, then the preset's, then those given."""
        entry = self[name]
        settings = entry.defaults(preset)
        hints = typing.get_type_hints(entry.factory)
        for key, value in options.items():
            if key not in settings:
                raise unknown(f"option of {self.kind} {name!r}", key, settings)
            # Python's values take the same way as words: what is refused there is refused here.
            text = value if isinstance(value, str) else write_value(value)
            settings[key] = read_value(text, hints[key], f"{name}:{key}")
        for key, value in settings.items():
            if value is inspect.Parameter.empty:
                raise ConfigError(f"{self.kind} {name!r} needs {key}; write {name}:{key}=...")
        return settings

    def make(self, name: str, preset: str | None = None, **options: Any) -> T:
        """Build the entry called `name`; text values are read by the factory's annotations."""
        return self[name].factory(**self.settings(name, preset, **options))

    def _load(self) -> None:
        """Import every module of the package, and outside plug-ins, so that entries register themselves."""
        if self._loaded:
            return
        with self._lock:  # other threads wait until all names are there
            if self._loading or self._loaded:  # this one may ask from a module that is being imported
                return
            self._loading = True
            try:
                self._import_all()
            finally:
                self._loaded, self._loading = True, False

    def _import_all(self) -> None:
        for module in pkgutil.iter_modules(importlib.import_module(self._package).__path__):
            importlib.import_module(f"{self._package}.{module.name}")
        for plugin in entry_points(group="gamagat.plugins"):
            plugin.load()


def parse_spec(spec: str) -> tuple[str, Options]:
    """Read `name:key=value,key=value`; values stay text until a factory says what they are."""
    name, _, rest = spec.partition(":")
    options: Options = {}
    for part in filter(None, rest.split(",")):
        key, equals, value = part.partition("=")
        if not equals or not key.strip() or not value.strip():
            raise ConfigError(f"cannot read {part!r} in {spec!r}; write name:key=value,key=value")
        key = key.strip().replace("-", "_")
        if key in options:
            raise ConfigError(f"{key!r} is given twice in {spec!r}")
        options[key] = value.strip()
    return name.strip(), options


def idle_by(rules: Idle, settings: Options, said: Iterable[str]) -> dict[str, str]:
    """Which of the settings that somebody said change nothing, each with the others that make it so.

    Two that each switch the same thing off, such as `drops=none,factor=1`, are no mistake.
    """

    def holds(others: Options) -> bool:
        return all(settings[other] == value for other, value in others.items())

    found: dict[str, str] = {}
    for key in said:
        for others in rules.get(key, ()):
            agrees = any(key in cause and holds(cause) for other in others for cause in rules.get(other, ()))
            if holds(others) and not agrees and key not in found:
                found[key] = " and ".join(f"{other}={write_value(value)}" for other, value in others.items())
    return found


def format_spec(name: str, options: Mapping[str, Any]) -> str:
    """The inverse of `parse_spec`."""
    words = ",".join(f"{key}={write_value(value)}" for key, value in options.items())
    return f"{name}:{words}" if words else name


def write_value(value: Any) -> str:
    """A value in the form `read_value` takes: tuples are joined by `+`."""
    if isinstance(value, tuple):
        return "+".join(map(write_value, value)) or "none"
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    if value is inspect.Parameter.empty:
        return "..."
    short = f"{value:g}" if isinstance(value, float) else str(value)
    return short if not isinstance(value, float) or float(short) == value else repr(float(value))


def read_number(text: str, what: str) -> float:
    """A decimal or a fraction such as `8/255`."""
    try:
        return float(Fraction(text.replace(" ", "")))
    except (ValueError, ZeroDivisionError, OverflowError):
        raise ConfigError(f"{what} must be a number such as 0.3 or 8/255, got {text!r}") from None


def read_value(text: str, hint: Any, what: str) -> Any:
    """Read `text` as the annotated type: int, float, bool, str, Literal, tuples of one, or one | None."""
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        if text.lower() == "none":
            return None
        hint = next(kind for kind in typing.get_args(hint) if kind is not type(None))
    if typing.get_origin(hint) is tuple:
        parts = [] if text.lower() == "none" else text.split("+")
        return tuple(read_value(part, typing.get_args(hint)[0], what) for part in parts)
    if typing.get_origin(hint) is typing.Literal:
        if text not in typing.get_args(hint):
            raise unknown(f"value of {what}", text, typing.get_args(hint))
        return text
    if hint is bool:
        words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
        if text.lower() not in words:
            raise ConfigError(f"{what} must be true or false, got {text!r}")
        return words[text.lower()]
    if hint is int:
        with suppress(ConfigError):
            number = read_number(text, what)
            if number == int(number):
                return int(number)
        raise ConfigError(f"{what} must be a whole number such as 10, got {text!r}")
    return read_number(text, what) if hint is float else text
