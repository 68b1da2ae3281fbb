"""Every error that gamagat raises on purpose.

GamagatError
├── ConfigError      a setting or a name is wrong (also a ValueError)
├── DataError        a data set is missing, damaged, or not what it should be
│   ├── SplitError        it has no split of that name (also a ConfigError)
│   └── AbsentError       its files are not here, and nothing is to be downloaded now
├── RunError         a run folder cannot be read or written, or holds another run
│   └── DamagedError      a file of it is not what was written
├── DeviceError      a GPU has failed, and this process cannot use it any more
└── ModelError       a network cannot be built, called, or does not return logits
    └── CheckpointError   a file of weights cannot be read or does not fit

Each message is one sentence or two: what was given, what is allowed, what to do. The command line prints it
without a traceback and exits with code 2; with 3 after a DeviceError, since the same command goes on.
"""

from collections.abc import Iterable
from difflib import get_close_matches


class GamagatError(Exception):
    """Something the caller can put right."""


class ConfigError(GamagatError, ValueError):
    """A setting or a name is wrong."""


class DataError(GamagatError):
    """A data set is missing, damaged, or not what it should be."""


class SplitError(ConfigError, DataError):
    """A data set has no split of that name."""


class AbsentError(DataError):
    """Files of a data set are not here, and nothing is to be downloaded now."""


class RunError(GamagatError):
    """A run folder cannot be read or written, or holds another run."""


class DamagedError(RunError):
    """A file of a run is not what was written."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}; evaluate again with another --out")
        self.what = what


class DeviceError(GamagatError):
    """A GPU has failed, and this process cannot use it any more."""


class ModelError(GamagatError):
    """A network cannot be built, called, or does not return logits."""


class CheckpointError(ModelError):
    """A file of weights cannot be read or does not fit the network."""


def unknown(kind: str, given: str, known: Iterable[str]) -> ConfigError:
    """The error for a name that does not exist, with the nearest one that does."""
    names = sorted(known)
    near = get_close_matches(given.lower(), names, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return ConfigError(f"unknown {kind} {given!r}; {hint}known: {', '.join(names) or 'none'}")
