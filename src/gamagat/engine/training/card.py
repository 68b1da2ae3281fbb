"""The end of a training: the figures of the selected and of the last epoch, and the card that tells them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from torch import nn

from gamagat.data.core import named
from gamagat.engine.evaluate import Words, evaluate
from gamagat.engine.manifest import circumstances, weights_hash, write_json
from gamagat.engine.places import data_in_full, data_in_short
from gamagat.engine.plan import plan_attacks
from gamagat.engine.results import Evaluation
from gamagat.engine.runtime import choose_device, default_batch_size
from gamagat.engine.training.probe import probes
from gamagat.engine.training.run import LAST, SELECTED, Trained
from gamagat.engine.training.settings import make_plan
from gamagat.engine.training.splits import judging_split, load_split
from gamagat.engine.watch import Onlooker
from gamagat.errors import GamagatError
from gamagat.models.core import load_model
from gamagat.models.loading.card import NAME
from gamagat.pieces.starts import at_image

PGD_STEPS = {"mnist": 40}  # 20 of the usual length there would not lead to the edge of the ball
NAMES = {"selected": SELECTED, "last": LAST}
FAMILIES = {"digits": "digits", "mnist": "mnist", "cifar10": "cifar10", "imagenet100": "imagenet"}  # of data


def measure(trained: Trained, n: int | None = None, onlooker: Onlooker = Onlooker()) -> dict[str, Evaluation]:
    """The selected and the last epoch on the test images under the final attacks; each run is kept."""
    return {
        which: evaluated(trained, which, final(trained.plan.family), n, onlooker)
        for which in NAMES
        if which == "selected" or not _same(trained.folder)
    }


def final(family: str | None) -> tuple[str, ...]:
    """The attacks of the table that a training ends with."""
    return ("fgsm", "ifgsm", f"pgd:steps={PGD_STEPS.get(family or '', 20)}", "gama-pgd")


def _same(folder: Path) -> bool:
    """Whether the last epoch is the selected one."""
    return (folder / SELECTED).read_bytes() == (folder / LAST).read_bytes()


def evaluated(
    trained: Trained,
    which: str,
    attacks: Sequence[str],
    n: int | None = None,
    onlooker: Onlooker = Onlooker(),
) -> Evaluation:
    """One epoch's weights on the test images."""
    request, weights = trained.request, trained.folder / NAMES[which]
    split = judging_split(request.data, request.data_dir)
    data = load_split(request.data, split, request.data_dir).head(n)
    device = choose_device(request.device)
    model = load_model(request.model, weights, classes=len(data.classes), channels=data.shape[0]).to(device)
    return evaluate(
        model,
        data,
        trained.threat,
        plan_attacks(attacks, data.preset, norm=trained.threat.norm),
        device=device,
        batch_size=default_batch_size(data.shape, device),
        seed=request.seed,
        onlooker=onlooker,
        words=Words(
            model=request.model,
            weights=str(weights.absolute()),
            data=data_in_full(request.data),
            data_dir=None if request.data_dir is None else str(request.data_dir.absolute()),
            split=split,
            eps=request.eps,
        ),
        out=trained.folder / f"evaluation-{which}-{len(data)}",
    )


def figures_of(result: Evaluation) -> dict[str, Any]:
    """Accuracies in percent."""
    attacks = {attack.name: attack.standing.known for attack in result.attacks}
    return {"images": result.n, "clean": result.clean.known, **attacks}


def write_card(trained: Trained, figures: dict[str, Evaluation]) -> Path:
    """The card for machines and the same for people."""
    request, story, plan = trained.request, trained.story, trained.plan
    best = story.best(plan.recipe.selected_by)
    content = {
        "format": 1,
        "model": request.model,
        "weights": SELECTED,
        # Two hashes: of the file as sha256sum tells it, and of its tensors as the manifest of a run has it.
        "file_sha256": hashlib.sha256((trained.folder / SELECTED).read_bytes()).hexdigest(),
        "weights_sha256": weights_hash(_Stored(trained.folder / SELECTED)),
        "recipe": plan.spec,
        "data": data_in_full(request.data),
        "split": judging_split(request.data, request.data_dir),  # that it is measured on
        **_classes(trained.classes),
        "norm": trained.threat.norm.name,
        "eps": trained.threat.eps,
        "seed": request.seed,
        "selected_by": plan.recipe.selected_by,
        "selection": selection_attack(plan.family),
        "selected_epoch": best,
        "epochs": len(story.rows),
        "validation": story.rows[best]["val"],
        "figures": {which: figures_of(result) for which, result in figures.items()},
        "seconds": trained.seconds,
        "made": circumstances(choose_device(request.device), plan.settings.batch, 1),
    }
    path = trained.folder / NAME
    write_json(path, content)
    partial = trained.folder / f".README.md.{os.getpid()}.part"
    partial.write_text(_page(content))
    partial.replace(trained.folder / "README.md")
    return path


def _classes(names: Sequence[str]) -> dict[str, list[str]]:
    """The names of the classes in the order of the logits, where they have names."""
    return {"classes": list(names)} if named(names) else {}


class _Stored(nn.Module):
    """The tensors of a file as a network has them, so that they are hashed as a network's are."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._tensors = load_file(path)

    def state_dict(self, *_: Any, **__: Any) -> Any:
        return self._tensors


def selection_attack(family: str | None) -> str:
    """The attack that validation calls `selection`, by its own name."""
    chosen = probes(family)["selection"]
    return f"{'IFGSM' if chosen.start is at_image else 'PGD'}-{chosen.steps}"


def selection_told(told: Mapping[str, Any]) -> tuple[str, str]:
    """The accuracy that epochs are selected by and the attack called `selection`, by a card or the settings.

    Those that do not say so are of the usual attack of their data; of data without one it is unknown.
    """
    if "selection" in told:
        return str(told.get("selected_by", "selection")), str(told["selection"])
    family = FAMILIES.get(str(told.get("data")))
    try:
        by = make_plan(str(told.get("recipe")).partition(":")[0]).recipe.selected_by
    except GamagatError:  # the words of another version
        by = "selection"
    return by, selection_attack(family) if family else ""


def _figure(value: float | None) -> str:
    """An accuracy in percent to two places, or a number of images."""
    return "-" if value is None else f"{value:.2f}" if isinstance(value, float) else str(value)


def _selected_by(card: Mapping[str, Any]) -> str:
    return f"under {card['selection']}" if card["selected_by"] == "selection" else card["selected_by"]


def _page(card: dict[str, Any]) -> str:
    """The card in Markdown."""
    made = card["made"]
    rows = [
        f"| {which} | " + " | ".join(map(_figure, figures.values())) + " |"
        for which, figures in card["figures"].items()
    ]
    heads = list(next(iter(card["figures"].values()), {}))
    table = ["| epoch | " + " | ".join(heads) + " |", "|---|" + "---|" * len(heads), *rows] if heads else []
    return "\n".join(
        [
            f"# {card['model']} trained with {card['recipe'].partition(':')[0]} on "
            f"{data_in_short(card['data'])}",
            "",
            "`gamagat evaluate DIR` measures this network, DIR being this folder.",
            f"Trained to be robust in {card['norm']} up to eps {card['eps']:.6g}; it takes images in [0, 1].",
            "",
            *table,
            "",
            *([f"- classes: {', '.join(card['classes'])}"] if "classes" in card else []),
            f"- recipe: `{card['recipe']}`",
            f"- selected: epoch {card['selected_epoch'] + 1} of {card['epochs']}, by its accuracy on "
            f"validation images, {_selected_by(card)}; seed {card['seed']}",
            f"- trained in {card['seconds']:.0f} s on {made['device']}, torch {made['torch']}, "
            f"gamagat {made['gamagat']}, {made['date']}",
            f"- sha256 of the file {card['weights']}: {card['file_sha256']}",
            f"- sha256 of its tensors, weights_sha256 in the manifest of a run: {card['weights_sha256']}",
            "",
        ]
    )
