"""Networks that gamagat does not define: made by a callable of the user's, torchvision or timm."""

import importlib
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import nn

from gamagat.errors import ConfigError, ModelError, unknown
from gamagat.models.normalize import normalized
from gamagat.registry import Options, parse_spec


def is_callable(spec: str) -> bool:
    """Whether the spec has the form `package.module:callable`."""
    module, colon, name = spec.partition(":")
    return bool(colon) and all(part.isidentifier() for part in [*module.split("."), *name.split(".")])


def from_callable(spec: str, known: Sequence[str]) -> nn.Module:
    """What `package.module:callable` makes; a module instance is taken as it is."""
    name, _, attribute = spec.partition(":")
    with _current_folder_importable():
        made = _made(spec, _attribute(_imported(spec, name, known), attribute))
    if not isinstance(made, nn.Module):
        raise ModelError(f"{spec!r} must give a torch.nn.Module, got {type(made).__name__}")
    return made


@contextmanager
def _current_folder_importable() -> Iterator[None]:
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        yield
    finally:
        if here in sys.path:  # the code that was imported may have put its own order there
            sys.path.remove(here)


def _imported(spec: str, name: str, known: Sequence[str]) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise ModelError(f"importing {name!r} for model {spec!r} failed: {error}") from error
        near = get_close_matches(name, known, n=1, cutoff=0.5)
        hint = f"; did you mean the registered model {near[0]!r}?" if near else ""
        raise ModelError(
            f"model {spec!r}: no module {name!r} in {Path.cwd()} or among the installed packages{hint}"
        ) from None
    except (Exception, SystemExit) as error:
        raise ModelError(f"importing {name!r} for model {spec!r} failed: {error!r}") from error


def _attribute(module: ModuleType, attribute: str) -> Any:
    try:
        return attrgetter(attribute)(module)
    except AttributeError:
        public = [name for name, value in vars(module).items() if callable(value) and name[0] != "_"]
        raise unknown(f"callable of {module.__name__!r}", attribute, public) from None
    except (Exception, SystemExit) as error:  # a module may compute its attributes
        raise ModelError(f"reading {attribute!r} of {module.__name__!r} failed: {error!r}") from error


def _made(spec: str, target: Any) -> Any:
    if isinstance(target, nn.Module):
        return target
    try:
        inspect.signature(target).bind()
    except Exception as error:
        raise ModelError(
            f"{spec!r} must be callable without arguments, or an nn.Module ({str(error)[:200]}); name a "
            "function of yours that returns the network"
        ) from None
    try:
        return target()
    except (Exception, SystemExit) as error:
        raise ModelError(f"calling {spec!r} failed: {error!r}") from error


def _torchvision(name: str, sizes: Options) -> Any:
    models = importlib.import_module("torchvision.models")
    if sizes.get("channels", 3) != 3:
        raise ModelError(f"torchvision:{name} takes images of 3 channels, the data has {sizes['channels']}")
    given = {"num_classes": sizes["classes"]} if "classes" in sizes else {}
    return models.get_model(name, weights=None, **given)


def _timm(name: str, sizes: Options) -> Any:
    words = {"classes": "num_classes", "channels": "in_chans"}
    given = {words[key]: value for key, value in sizes.items()}
    return importlib.import_module("timm").create_model(name, pretrained=False, **given)


LIBRARIES: dict[str, Callable[[str, Options], Any]] = {"torchvision": _torchvision, "timm": _timm}


def from_library(library: str, rest: str, classes: int | None, channels: int | None) -> nn.Module:
    """`torchvision:NAME` or `timm:NAME`, of so many classes and channels; nothing is downloaded."""
    name, options = parse_spec(rest)
    front = options.pop("normalize", "none")
    if options or not name.replace(".", "_").isidentifier():
        raise ConfigError(
            f"cannot read '{library}:{rest}'; write {library}:NAME or {library}:NAME:normalize=imagenet"
        )
    sizes = {key: size for key, size in (("classes", classes), ("channels", channels)) if size is not None}
    try:
        net = LIBRARIES[library](name, sizes)
    except ImportError as error:
        raise ModelError(
            f"{library}:{name} needs {library}: {error}; run: pip install gamagat[{library}]"
        ) from None
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(f"{library} cannot make {name!r}: {error}") from error
    return normalized(net, front, channels or 3)
