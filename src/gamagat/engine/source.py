"""The data of a run, found again from its manifest."""

from pathlib import Path

from gamagat.data.core import Dataset
from gamagat.engine.manifest import Manifest
from gamagat.engine.training.splits import load_split


def data_of(manifest: Manifest, data_dir: str | Path | None = None, spec: str | None = None) -> Dataset:
    """The images that the run was made on, from where they were then or are said to be now."""
    return load_split(spec or manifest.data, manifest.split, data_dir or manifest.data_dir).head(manifest.n)
