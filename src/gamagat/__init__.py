"""Guided adversarial attacks and training for image classifiers."""

from gamagat.api import ReadyAttack, attack, evaluate
from gamagat.attacks.core import ATTACKS, Attack, IterativeAttack
from gamagat.attacks.outcome import Outcome
from gamagat.autoattack import AutoAttack
from gamagat.data.core import DATASETS, Dataset, load_data
from gamagat.engine.compare import compare_runs
from gamagat.engine.results import Evaluation
from gamagat.engine.run import read_run
from gamagat.engine.verify import verify_folder as verify
from gamagat.errors import CheckpointError, ConfigError, DataError, GamagatError, ModelError, RunError
from gamagat.models.core import MODELS, load_model
from gamagat.pieces.noise import Noise
from gamagat.pieces.threat import L2, LINF, ThreatModel
from gamagat.version import __version__

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
