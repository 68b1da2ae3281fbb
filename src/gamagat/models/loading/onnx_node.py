"""One step of an ONNX graph, and how an operator reads its settings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from gamagat.errors import ModelError


@dataclass(frozen=True, slots=True)
class Node:
    """An operator with the names of the values it reads and writes."""

    op: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    options: Mapping[str, Any]
    opset: int

    def option(self, key: str, default: Any = None) -> Any:
        """A setting of the operator."""
        return self.options.get(key, default)

    def integers(self, key: str, value: Tensor | None = None) -> list[int] | None:
        """Integers that old versions of the standard keep as a setting and new ones as an input."""
        if value is not None:
            return [int(number) for number in value.flatten().tolist()]
        return self.options.get(key)

    def refuse(self, why: str) -> ModelError:
        """The error for a form of the operator that is not supported."""
        return ModelError(f"ONNX operator {self.op} ({self.name or self.outputs[0]}): {why}")


def each(values: Sequence[int] | None, rank: int, default: int = 1) -> list[int]:
    """One integer for each dimension of the image."""
    return list(values) if values else [default] * rank
