"""The settings of a training run: those of its recipe and those that any recipe can take."""

from __future__ import annotations

import typing
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

from gamagat.attacks.core import HUGE, check_options
from gamagat.defenses.core import DEFENSES, Recipe
from gamagat.errors import ConfigError, unknown
from gamagat.pieces.schedules import triangle
from gamagat.registry import format_spec, idle_by, parse_spec, read_value, write_value

LIMITS = {  # least and most
    "epochs": (1, 1e6), "batch": (1, 1e6), "rate": (1e-12, HUGE), "factor": (1e-12, 1.0),
    "peak": (0.0, 0.999), "warmup": (0.0, 1.0), "momentum": (0.0, 0.9999), "weight_decay": (0.0, HUGE),
    "replays": (1, 1000), "ema": (0.0, 0.999999), "smoothing": (0.0, 0.99), "awp": (0.0, 1.0),
    "probe": (1, HUGE), "drops": (0.0, 1.0),
}  # fmt: skip
IDLE: dict[str, list[dict[str, Any]]] = {  # what changes nothing, by what
    "drops": [{"cycle": "triangle"}, {"factor": 1.0}], "factor": [{"cycle": "triangle"}, {"drops": ()}],
    "warmup": [{"cycle": "triangle"}], "peak": [{"cycle": "stepped"}],
}  # fmt: skip
LITTLE = 0.01  # of the random start in averaged weights


@dataclass(frozen=True, slots=True)
class Settings:
    """What any recipe can take. Moments (`drops`, `peak`, `warmup`) are shares of the training."""

    epochs: int = 100
    batch: int = 128
    rate: float = 0.1
    cycle: Literal["stepped", "triangle"] = "stepped"  # how the rate goes: down in steps, or up and down
    drops: tuple[float, ...] = (0.71, 0.86)
    factor: float = 0.1
    peak: float = 0.5
    warmup: float = 0.0
    optimizer: Literal["sgd", "adam"] = "sgd"
    momentum: float = 0.9
    weight_decay: float = 5e-4
    replays: int = 1  # how often each batch is used in a row
    ema: float = 0.0  # how much of the average of the weights each step keeps; 0: no average
    smoothing: float = 0.0  # of labels
    awp: float = 0.0  # relative size of the adversarial weight perturbation
    augment: Literal["auto", "none", "crop-flip", "resized-crop-flip"] = "auto"
    probe: int = 1000  # validation images that every epoch is measured on

    def __post_init__(self) -> None:
        for name, limits in LIMITS.items():
            given = getattr(self, name)
            for value in given if isinstance(given, tuple) else (given,):
                check_options(**{name: (value, *limits)})

    def rate_at(self) -> Callable[[float], float]:
        """The rate as a function of the share of the training that is done."""
        if self.cycle == "triangle":
            return triangle(self.rate, self.peak, 1.0)
        return lambda done: (
            self.rate
            * self.factor ** sum(done >= drop - 1e-9 for drop in self.drops)
            * (min(1.0, done / self.warmup) if self.warmup else 1.0)
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """A recipe with all that it needs, and the words that make it again."""

    name: str
    recipe: Recipe
    own: dict[str, Any]
    settings: Settings
    family: str | None = None  # of data
    idle: Mapping[str, str] = field(default_factory=dict)  # what was said and changes nothing, and why

    @property
    def spec(self) -> str:
        """The recipe with every setting spelled out."""
        return format_spec(self.name, self.own | asdict(self.settings))

    def written(self) -> dict[str, str]:
        """Every setting in words."""
        return {key: write_value(value) for key, value in (self.own | asdict(self.settings)).items()}


def make_plan(spec: str, family: str | None = None, model: str | None = None, /, **options: Any) -> Plan:
    """Read a recipe such as `gat:epochs=30,weight=10`; presets are those of the data and of the network.

    What is given wins over the preset for this network on these data, which wins over the one for these data;
    `as_published` brings the published batch and the like along where they are known.
    """
    name, said = parse_spec(spec)
    given = said | {key.replace("-", "_"): value for key, value in options.items()}
    entry = DEFENSES[name]
    usual: dict[str, Any] = {}
    published = read_value(_text(given.get("as_published", False)), bool, "as_published")
    families = _families(family, model, published)
    for key in families:
        usual |= entry.presets.get(key, {})
    own_names, common = set(entry.defaults()), {setting.name for setting in fields(Settings)}
    for key in given:
        if key not in own_names | common:
            raise unknown(f"option of recipe {name!r}", key, own_names | common)
    chosen = usual | given
    own_chosen = {key: value for key, value in chosen.items() if key in own_names}
    own = DEFENSES.settings(name, None, **_read(own_chosen, name, entry.factory, entry.defaults()))
    rest = {key: value for key, value in chosen.items() if key in common}
    settings = Settings(**_read(rest, name, Settings, asdict(Settings())))
    brought = {"as_published"} if any(f"{key}/as_published" in entry.presets for key in families) else set()
    idle = idle_by({**IDLE, **entry.idle}, own | asdict(settings), given.keys() - brought)
    return Plan(name, entry.factory(**own), own, settings, family, idle)


def _families(family: str | None, model: str | None, published: bool) -> list[str]:
    known = ["any"] if family is None else ["any", family, f"{family}/{(model or '').partition(':')[0]}"]
    return known + [f"{key}/as_published" for key in known if published]


def _read(
    values: Mapping[str, Any], name: str, factory: Callable[..., Any], usual: Mapping[str, Any]
) -> dict[str, Any]:
    """The values by the factory's annotations; what cannot be read is told with what is allowed."""
    hints, read = typing.get_type_hints(factory), {}
    for key, value in values.items():
        try:
            read[key] = read_value(_text(value), hints[key], f"{name}:{key}")
        except ConfigError:
            if typing.get_origin(hints[key]) is Literal:
                raise  # it lists the words that there are
            raise ConfigError(
                f"{name}:{key} must be {_allowed(key, hints[key])}, got {_text(value)!r}; such as "
                f"--set {key}={write_value(usual[key])}"
            ) from None
    return read


def _allowed(key: str, hint: Any) -> str:
    """The values that a setting may have, in words."""
    arguments = typing.get_args(hint)
    if typing.get_origin(hint) is tuple:
        return f"none, or one or more joined by +, each {_allowed(key, arguments[0])}"
    if type(None) in arguments:
        return f"none or {_allowed(key, arguments[0])}"
    kind = {bool: "true or false", int: "a whole number", float: "a number"}.get(hint, "a word")
    if key not in LIMITS:
        return kind
    least, most = LIMITS[key]
    return f"{kind} from {least:g} to {most:,.10g}" if most < HUGE else f"{kind}, at least {least:g}"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else write_value(value)


def parse_settings(words: list[str] | None) -> dict[str, str]:
    """Read `key=value` words, as `--set` takes them."""
    found: dict[str, str] = {}
    for word in words or []:
        key, equals, value = word.partition("=")
        if not equals or not key.strip() or not value.strip():
            raise ConfigError(f"--set takes key=value, got {word!r}; such as --set epochs=30")
        name = key.strip().replace("-", "_")
        if name in found:
            raise ConfigError(f"--set {name} is given twice; give it once")
        found[name] = value.strip()
    return found


def told_idle(plan: Plan) -> list[str]:
    """A word on each setting that was said and changes nothing."""
    given = plan.written()
    return [
        f"{key}={given[key]} changes nothing in {plan.name} with {cause}; leave {key} out, or change "
        f"{cause.replace(' and ', ' or ')}"
        for key, cause in sorted(plan.idle.items())
    ]


def of_the_start(plan: Plan, images: int) -> str | None:
    """A word where the average of the weights, which is what is kept, would hold much of the random start."""
    ema, steps = plan.settings.ema, plan.settings.epochs * max(1, images // plan.settings.batch)
    share = ema**steps if ema else 0.0
    if share < LITTLE:
        return None
    return (
        f"{100 * share:.0f} % of the averaged weights will be those of the random start: ema={ema} is for "
        f"longer trainings than {steps:,} steps; try --set ema={max(0.0, 1 - 20 / steps):.3g}"
    )
