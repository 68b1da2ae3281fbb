"""Whole networks in one file: torch.export programs, TorchScript, ONNX.

Such a file is a program. What would run Python or native code while it is read is refused, but a program from
a stranger still computes whatever its author wrote.
"""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram

from gamagat.errors import ModelError
from gamagat.models.loading.onnx_graph import load_onnx
from gamagat.models.loading.paths import is_there
from gamagat.models.loading.pt2_archive import checked_archive
from gamagat.pieces.types import Images, Scores

_SUFFIXES = (".pt2", ".onnx", ".pt", ".pth", ".ts", ".safetensors")


def is_program(spec: str) -> bool:
    """Whether the spec is the path of a file rather than a name; options stand behind a colon."""
    named = "=" in spec.partition(":")[2]
    return spec.lower().endswith(_SUFFIXES) and (not named or is_there(spec))


def load_program(file: Path) -> nn.Module:
    """The network in the file, in eval mode on the CPU."""
    if not file.is_file():
        raise ModelError(
            f"{file} is a folder, not a model" if file.is_dir() else f"model file {file} does not exist"
        )
    loaders = {".pt2": load_exported, ".onnx": load_onnx}
    return loaders.get(file.suffix.lower(), load_torchscript)(file).eval()


def load_torchscript(file: Path) -> nn.Module:
    """A network saved with torch.jit.save."""
    try:
        with warnings.catch_warnings():
            # torch asks to move to torch.export; the files that exist are no less readable for it.
            warnings.simplefilter("ignore", DeprecationWarning)
            with file.open("rb") as stream:  # torch cannot open a name that is not valid Unicode
                net: nn.Module = torch.jit.load(stream, map_location="cpu")  # type: ignore[no-untyped-call]
    except Exception:
        raise ModelError(
            f"{file} is no TorchScript program; if it holds weights, name the network as the model "
            f"and give the file with --weights {file}"
        ) from None
    return net


def load_exported(file: Path) -> nn.Module:
    """A network saved with torch.export.save."""
    archive = checked_archive(file)
    try:
        with _silent_torch():
            program = torch.export.load(archive)
    except Exception as error:
        first = str(error).split(". ")[0]
        raise ModelError(
            f"{file} cannot be loaded as a torch.export program ({first}); "
            "save it again with torch.export.save, or, if it holds weights, give it with --weights"
        ) from error
    signature = program.graph_signature
    if len(signature.user_inputs) != 1 or len(signature.user_outputs) != 1:
        raise ModelError(f"{file} must take one batch of images and return logits, nothing else")
    if _is_training(program):
        raise ModelError(f"{file} was exported in training mode; call .eval() before torch.export.export")
    return ExportedNet(program, file)


@contextmanager
def _silent_torch() -> Iterator[None]:
    """torch logs a traceback before it raises an error that says less."""
    log = logging.getLogger("torch.export")
    before, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = before


def _is_training(program: ExportedProgram) -> bool:
    """Whether any dropout or batch normalisation was frozen in training mode."""
    return any(_flag(node) for node in program.graph.nodes if node.op == "call_function")


def _flag(node: torch.fx.Node) -> bool:
    """The value of an operator's argument `train` or `training`."""
    schema = getattr(node.target, "_schema", None)
    names = [argument.name for argument in schema.arguments] if schema else []
    given = dict(zip(names, node.args, strict=False)) | node.kwargs
    return given.get("train") is True or given.get("training") is True


class ExportedNet(nn.Module):
    """A torch.export program; differentiable, and always in eval mode because its mode is frozen."""

    def __init__(self, program: ExportedProgram, file: Path) -> None:
        super().__init__()
        self.program = program.module()
        self.training = False
        self._file = file

    def train(self, mode: bool = True) -> Self:
        if mode:
            raise ModelError(f"{self._file} is an exported program and cannot be trained")
        return self

    def forward(self, x: Images) -> Scores:
        try:
            scores: Any = self.program(x)
        except AssertionError as error:
            raise ModelError(
                f"{self._file} was not exported for images of shape {tuple(x.shape)} ({error}); if the batch "
                'size is fixed, export it again with dynamic_shapes={"x": {0: torch.export.Dim("batch")}}'
            ) from None
        if not isinstance(scores, Tensor):
            raise ModelError(f"{self._file} must return logits, got {type(scores).__name__}")
        return scores
