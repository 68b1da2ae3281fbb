"""The model contract: a spec becomes a network that maps images in [0, 1] to logits, with weights inside.

A spec is one of
- a registered name with options: `resnet18`, `wrn:depth=16,width=4`, `resnet18:normalize=cifar10`
- a callable of yours that makes an `nn.Module`: `package.module:callable`
- `torchvision:NAME` or `timm:NAME`, also with `:normalize=imagenet` behind it
- a file that holds a whole network: `net.pt2`, `net.onnx`, or TorchScript in `net.pt`, `net.pth`, `net.ts`
- the folder of a training, which has a model card in it
- `zoo:NAME`, a trained network that comes with the repository
"""

from pathlib import Path

import torch
from torch import nn

from gamagat.errors import CheckpointError, ConfigError, GamagatError, ModelError, unknown
from gamagat.models.loading.card import read_card
from gamagat.models.loading.checkpoint import read_state
from gamagat.models.loading.nearest import nearest
from gamagat.models.loading.origin import Origin, origin_of, same_parts
from gamagat.models.loading.outside import LIBRARIES, from_callable, from_library, is_callable
from gamagat.models.loading.paths import is_folder, located
from gamagat.models.loading.programs import is_program, load_program
from gamagat.models.loading.weights import load_weights, sizes_told
from gamagat.models.loading.zoo import is_zoo
from gamagat.models.normalize import Normalize, Normalized, normalized
from gamagat.registry import Options, Registry, format_spec, parse_spec

__all__ = ["MODELS", "Normalize", "Normalized", "build_model", "check_weights", "load_model"]

MODELS: Registry[nn.Module] = Registry("model", "gamagat.models")
OTHERS = (
    "or write package.module:callable, zoo:NAME, torchvision:NAME, timm:NAME, the folder of a training or "
    "the file of a whole network"
)
MOST = {"classes": 100_000, "channels": 1_000}  # more is a slip of the pen, and would fill the memory
BUNDLED = Path(__file__).with_name("bundled")  # weights that come with the package, as <name>.safetensors


def load_model(
    spec: str, weights: str | Path | None = None, *, classes: int | None = None, channels: int | None = None
) -> nn.Module:
    """The network that `spec` names, with its weights, in eval mode on the CPU.

    It is in fp32, but a program and what a callable of yours makes are in the precision they were made in.
    `classes` and `channels` fill what neither the spec nor the file of weights says.
    """
    if (card := read_card(spec)) is not None:
        return load_model(card.model, weights or card.weights, classes=classes, channels=channels)
    if is_program(spec):
        if weights is not None:
            raise ModelError(f"{spec} holds its own weights; give either the program or a name with weights")
        return load_program(located(spec))
    with torch.random.fork_rng(devices=[]):
        # The random weights are about to be replaced: drawing them is nobody's business.
        net = build_model(spec, classes, channels)
        file = located(weights) if weights is not None else _bundled(spec)
        if file is not None:
            net = _filled(net, spec, file)
    return _on_the_cpu(net, spec)


def _on_the_cpu(net: nn.Module, spec: str) -> nn.Module:
    """In eval mode and fp32; code of the user's may cast images to the precision that it has made."""
    try:
        return (net.cpu() if _is_own(spec) else net.cpu().float()).eval()
    except Exception as error:  # a network without values, or with tensors that are no plain numbers
        raise ModelError(f"model {spec!r} cannot be used on the CPU: {_first(error)}") from error


def _is_own(spec: str) -> bool:
    """Whether the network is made by code of the user's."""
    name = spec.partition(":")[0]
    return name not in MODELS and name not in LIBRARIES and is_callable(spec)


def _first(error: BaseException) -> str:
    """What happened, without the pages that torch may add."""
    return f"{type(error).__name__}: {error}".splitlines()[0][:200]


def _filled(net: nn.Module, spec: str, file: Path) -> nn.Module:
    """The network with the weights of the file, built anew where they are for other classes or channels."""
    state = read_state(file)
    try:
        told, own = (sizes_told(tensors, net) for tensors in (state, net.state_dict()))
        if told != own:
            net = build_model(spec, told.get("classes"), told.get("channels"))
        _check_origin(net, spec, file)
        load_weights(net, state, file, spec, hint=lambda tensors: nearest(MODELS, tensors))
    except GamagatError:
        raise
    except Exception as error:  # networks from outside hold and load their weights as they like
        raise CheckpointError(f"{file} cannot be put into model {spec!r}: {_first(error)}") from error
    return net


def _check_origin(net: nn.Module, spec: str, file: Path) -> None:
    """Refuse weights that were trained as another network; code of the user's is trusted to know them."""
    origin = Origin(file.stem, "the package") if file.parent == BUNDLED else origin_of(file)
    if origin is None or origin.model == spec or _is_own(spec) or _is_made_like(net, origin.model):
        return
    raise CheckpointError(
        f"{file} holds the weights of {origin.model!r}, as {origin.teller} says, and model {spec!r} is "
        "another network, which would answer wrongly even where names and shapes fit; "
        f"give {origin.model} as the model"
    )


def _is_made_like(net: nn.Module, spec: str) -> bool:
    """Whether a registered spec means the same network: wrn-34-10 is wrn:depth=34."""
    if spec.partition(":")[0] not in MODELS:  # nobody asked for that code to be run
        return False
    sizes = sizes_told(net.state_dict(), net)  # other classes and channels have words of their own
    try:
        with torch.device("meta"):
            other = build_model(spec, sizes.get("classes"), sizes.get("channels"))
    except Exception:  # words of another version, or a plug-in that cannot be built without memory
        return False
    return same_parts(net, other)


def build_model(spec: str, classes: int | None = None, channels: int | None = None) -> nn.Module:
    """A fresh network without trained weights."""
    if is_zoo(spec):
        raise ModelError(f"{spec} is a trained network; to train one anew, give the name of its architecture")
    check_name(spec)
    name, _, rest = spec.partition(":")
    if is_program(spec):
        raise ModelError(f"{spec} is a finished program; only a network made from a name can be trained")
    if name in LIBRARIES:
        return from_library(name, rest, classes, channels)
    if name not in MODELS and is_callable(spec):
        return from_callable(spec, MODELS.names())
    name, options = parse_spec(spec)
    return _registered(name, options, {"classes": classes, "channels": channels})


def _registered(name: str, options: Options, wanted: Options) -> nn.Module:
    """Build a registered network; `normalize` is an option of every one of them."""
    known = MODELS[name].defaults()
    filled = {key: value for key, value in wanted.items() if value is not None and key in known}
    front = "none" if "normalize" in known else options.get("normalize", "none")
    own = {key: value for key, value in options.items() if key != "normalize" or key in known}
    settings = MODELS.settings(name, **(filled | own))
    _check_sizes(name, settings)
    return normalized(_made(name, settings), front, settings.get("channels", 3))


def _check_sizes(name: str, settings: Options) -> None:
    for key, value in settings.items():
        if not isinstance(value, int) or isinstance(value, bool):
            continue
        if value < 1:
            raise ConfigError(f"{key} of model {name!r} must be at least 1, got {value}")
        if value > MOST.get(key, value):
            raise ConfigError(f"{key} of model {name!r} must be at most {MOST[key]:,}, got {value:,}")


def _made(name: str, settings: Options) -> nn.Module:
    try:
        return MODELS.make(name, **settings)
    except GamagatError:
        raise
    except Exception as error:  # most often the memory does not suffice
        raise ModelError(f"model {format_spec(name, settings)!r} cannot be made: {_first(error)}") from error


def check_name(spec: str) -> None:
    """Refuse what names no network, before anything else is looked for."""
    name, _, rest = spec.partition(":")
    if name in MODELS or name in LIBRARIES or is_program(spec) or read_card(spec) is not None:
        return
    if name.endswith(".py"):
        raise ConfigError(f"cannot read {spec!r}; a callable in {name} is written {Path(name).stem}:callable")
    if is_callable(spec):
        return
    if is_callable(f"{name}:{rest.partition(':')[0]}"):
        raise ConfigError(
            f"cannot read {spec!r}: a callable takes no options; write {name}:callable with them inside"
        )
    if is_folder(spec):
        raise ConfigError(
            f"the folder {spec} holds no trained network: there is no card.json in it; give the folder of a "
            "training that is finished, or the name of a network and --weights FILE"
        )
    raise ConfigError(f"{unknown('model', name, MODELS.names())}; {OTHERS}")


def check_weights(spec: str, weights: Path | None = None) -> None:
    """Refuse a network without its file of weights, before anything else is looked for."""
    check_name(spec)
    if weights is not None:
        if not located(weights).exists():
            raise CheckpointError(f"weights file {weights} does not exist")
        return
    if read_card(spec) is None and not is_program(spec) and spec.partition(":")[0] in MODELS:
        _bundled(spec)


def _bundled(spec: str) -> Path | None:
    """The weights that come with the package, or None for a callable, which brings its own."""
    if _is_own(spec):
        return None
    file = BUNDLED / f"{spec.partition(':')[0]}.safetensors"
    if file.is_file():
        return file
    raise ModelError(
        f"model {spec!r} has no weights: a network with random weights is not worth evaluating; "
        "give a file of weights with --weights FILE"
    )
