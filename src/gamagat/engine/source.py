"""The data of a run, found again from its manifest."""

from pathlib import Path

from gamagat.data.core import Dataset, load_data
from gamagat.engine.manifest import Manifest


def data_of(manifest: Manifest, data_dir: Path | None = None) -> Dataset:
    """The images that the run was made on, from where they were then or from `data_dir`."""
    return load_data(manifest.data, manifest.split, data_dir or manifest.data_dir).head(manifest.n)
