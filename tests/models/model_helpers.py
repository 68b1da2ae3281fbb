"""Files, networks and graphs that several tests of networks make."""

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from gamagat.models.core import build_model

Arrays = dict[str, np.ndarray[Any, Any]]

RNG = np.random.default_rng(0)


def saved(folder: Path, content: Any, **options: Any) -> Path:
    """A file of torch.save."""
    file = folder / "weights.pth"
    torch.save(content, file, **options)
    return file


def empty(spec: str, classes: int | None = None) -> nn.Module:
    """A network that takes no memory."""
    with torch.device("meta"):
        return build_model(spec, classes)


def scramble(net: nn.Module) -> nn.Module:
    """Give every parameter and statistic a value of its own, so that no layer is accidentally neutral."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, value in net.state_dict().items():
            if value.is_floating_point():
                noise = torch.rand(value.shape, generator=generator)
                value.copy_(noise + 0.5 if _is_scale(name, value) else _centred(noise))
    return net.eval()


def _is_scale(name: str, value: Tensor) -> bool:
    return name.endswith("running_var") or (name.endswith("weight") and value.dim() == 1)


def _centred(noise: Tensor) -> Tensor:
    fan_in = max(1, noise[0].numel()) if noise.dim() > 1 else 4
    return (2 * noise - 1) * math.sqrt(3 / fan_in)


class Payload:
    """Makes a folder when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = str(mark)

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.mark,)


def floats(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.standard_normal(shape).astype(np.float32)


def ints(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, dtype=np.int64)


def node(op: str, *inputs: str, into: str | Sequence[str] = "y", **options: Any) -> Any:
    """A step of an ONNX graph; it writes `y` unless told otherwise."""
    from onnx import helper  # noqa: PLC0415 - an optional package

    return helper.make_node(op, list(inputs), [into] if isinstance(into, str) else list(into), **options)


def save_graph(
    file: Path,
    nodes: Sequence[Any],
    known: Arrays,
    shape: Sequence[int | str],
    opset: int = 17,
    outputs: Sequence[str] = ("y",),
) -> Any:
    """Write an ONNX file whose input is `x`."""
    import onnx  # noqa: PLC0415 - an optional package
    from onnx import TensorProto, helper, numpy_helper  # noqa: PLC0415

    graph = helper.make_graph(
        list(nodes),
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(value, name) for name, value in known.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.save(model, file)
    return model
