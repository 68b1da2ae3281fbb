"""Networks whose verdict is known, trained once."""

from pathlib import Path

import pytest
from torch import nn

from gamagat.engine.training.run import LAST, SELECTED, TrainingRequest, train
from gamagat.models.core import load_model


def trained(folder: Path, recipe: str, weights: str = SELECTED, eps: str = "0.2") -> nn.Module:
    """A digits network after a few epochs."""
    train(TrainingRequest(recipe, out=folder, eps=eps, device="cpu"))
    return load_model("digits-cnn", folder / weights)


@pytest.fixture(scope="session")
def networks(tmp_path_factory) -> dict[str, nn.Module]:
    place = tmp_path_factory.mktemp("networks")
    return {
        "standard": trained(place / "standard", "standard:epochs=8"),
        "collapsed": trained(place / "collapsed", "fgsm-at:epochs=12", LAST, "0.4"),
        "gat": trained(place / "gat", "gat:epochs=20"),
        "trades": trained(place / "trades", "trades:epochs=10"),
    }
