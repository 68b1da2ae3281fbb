"""The words that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

MODEL = Annotated[
    str,
    typer.Argument(
        help="A name (gamagat list models), package.module:callable, torchvision:NAME, timm:NAME, "
        "a .pt2, TorchScript or .onnx file, or the folder of a training."
    ),
]
WEIGHTS = Annotated[Path | None, typer.Option(help="Weights: safetensors, or a torch file of tensors.")]
DATA = Annotated[
    str | None,
    typer.Option(help="A name (gamagat list data), folder:PATH, arrays:FILE.npz. (default: digits)"),
]
DATA_DIR = Annotated[Path | None, typer.Option(help="Where data lies; else GAMAGAT_DATA.")]
COUNT = Annotated[
    int | None,
    typer.Option(
        "--n",
        "--images",
        help="Only the first N images, of a folder each class in turn (under torchrun: --images).",
    ),
]
SPLIT = Annotated[str, typer.Option(help="Which part of the data.")]
PRECISION = Annotated[
    str, typer.Option(help="What attacks compute in: auto (fp16 on a GPU), fp32, tf32 or fp16.")
]
NORM = Annotated[str, typer.Option(help="linf or l2.")]
OWN_NORM = Annotated[
    str | None,
    typer.Option(help="linf or l2; else the one that the network was trained for. (default: linf)"),
]
EPS = Annotated[str | None, typer.Option(help="Radius, 8/255 or 0.3; else the data's usual one.")]
ATTACK = Annotated[
    list[str] | None,
    typer.Option(help="gama-pgd, or gama-pgd:steps=50,fade=10; repeat it for more. (default: gama-pgd)"),
]
SEED = Annotated[int, typer.Option(help="Seed of all random starts.")]
BATCH = Annotated[int | None, typer.Option(help="Images at a time; no result depends on it.")]
DEVICE = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, ...")]
OUT = Annotated[
    Path | None, typer.Option(help="Keep the run in this folder; the same command goes on with it.")
]
JSON = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]


def attacks_of(given: list[str] | None) -> tuple[str, ...]:
    """The attacks that were asked for, or the usual one."""
    return tuple(given or ["gama-pgd"])
