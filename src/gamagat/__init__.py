"""Guided adversarial attacks and training for image classifiers.

Names are looked up when they are used: `import gamagat` takes no time, torch comes with the first of them.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from gamagat.errors import CheckpointError, ConfigError, DataError, GamagatError, ModelError, RunError
from gamagat.version import __version__

if TYPE_CHECKING:
    from gamagat.api import ReadyAttack, attack, evaluate, verify
    from gamagat.attacks.core import ATTACKS, Attack, IterativeAttack
    from gamagat.attacks.outcome import Outcome
    from gamagat.autoattack import AutoAttack
    from gamagat.data.core import DATASETS, Dataset, load_data
    from gamagat.engine.compare import compare_runs
    from gamagat.engine.results import Evaluation
    from gamagat.engine.run import read_run
    from gamagat.models.core import MODELS, load_model
    from gamagat.pieces.noise import Noise
    from gamagat.pieces.threat import L2, LINF, ThreatModel
else:
    _HOMES = {
        "api": ("ReadyAttack", "attack", "evaluate", "verify"),
        "attacks.core": ("ATTACKS", "Attack", "IterativeAttack"),
        "attacks.outcome": ("Outcome",),
        "autoattack": ("AutoAttack",),
        "data.core": ("DATASETS", "Dataset", "load_data"),
        "engine.compare": ("compare_runs",),
        "engine.results": ("Evaluation",),
        "engine.run": ("read_run",),
        "models.core": ("MODELS", "load_model"),
        "pieces.noise": ("Noise",),
        "pieces.threat": ("L2", "LINF", "ThreatModel"),
    }

    # Type checkers do not see this: they would take any name for one that is there.
    def __getattr__(name):
        """A public name, or a part of the package, on its first use."""
        for home, names in _HOMES.items():
            if name in names:
                value = getattr(import_module(f"{__name__}.{home}"), name)
                globals()[name] = value
                return value
        if not name.startswith("_") and find_spec(f"{__name__}.{name}") is not None:
            return import_module(f"{__name__}.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__():
        return sorted({*globals(), *__all__})


__all__ = [
    "ATTACKS",
    "DATASETS",
    "L2",
    "LINF",
    "MODELS",
    "Attack",
    "AutoAttack",
    "CheckpointError",
    "ConfigError",
    "DataError",
    "Dataset",
    "Evaluation",
    "GamagatError",
    "IterativeAttack",
    "ModelError",
    "Noise",
    "Outcome",
    "ReadyAttack",
    "RunError",
    "ThreatModel",
    "__version__",
    "attack",
    "compare_runs",
    "evaluate",
    "load_data",
    "load_model",
    "read_run",
    "verify",
]
