"""Are the tensors of a file plain, finite numbers?"""

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from gamagat.errors import CheckpointError

_INFLATED = 2**30  # bytes: what a view may claim beyond the numbers behind it
_FLOATS = frozenset(
    {torch.float64, torch.float32, torch.float16, torch.bfloat16}
    | {torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz}
)
_WHOLE = frozenset({torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64})


def check_plain(state: Mapping[str, Tensor], file: Path) -> None:
    """Only numbers that lie in the file one by one can be put into a network."""
    for key, value in state.items():
        if odd := _oddity(value):
            raise CheckpointError(
                f"{file} holds {key!r} as {odd}, but weights must be plain tensors of numbers; "
                "make them dense and float32, and save them again"
            )


def _oddity(value: Tensor) -> str | None:
    """What keeps a tensor from being plain numbers."""
    if value.is_meta:
        return "a tensor without values (on the device meta)"
    if value.is_quantized or value.is_nested:
        return f"a {'quantized' if value.is_quantized else 'nested'} tensor"
    if value.layout != torch.strided:
        return f"a sparse tensor ({value.layout})"
    if value.dtype not in _FLOATS | _WHOLE:
        return f"a tensor of {value.dtype}"
    size = value.numel() * value.element_size()
    return f"a view of {size:,} bytes" if size > value.untyped_storage().nbytes() + _INFLATED else None


def check_finite(state: Mapping[str, Tensor], file: Path) -> None:
    """Refuse numbers that are none once they are float32."""
    # As float32, which is what the network will compute with, and what 8-bit floats can be asked as.
    bad = [
        key
        for key, value in state.items()
        if value.is_floating_point() and not bool(value.float().isfinite().all())
    ]
    if bad:
        raise CheckpointError(
            f"{file} holds NaN or infinite numbers in {', '.join(bad[:3])}: training diverged"
        )
