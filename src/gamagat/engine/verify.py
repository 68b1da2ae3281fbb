"""Verify: every claim of a run made again from the stored images, the weights and the data."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from gamagat.attacks.network import Network
from gamagat.data.core import Dataset
from gamagat.engine.ledger import Ledger, Verdict, digest_of
from gamagat.engine.manifest import Manifest, data_hash, weights_hash
from gamagat.engine.rejudge import Second, judge_again
from gamagat.engine.results import known_runs, summarize
from gamagat.engine.run import NOT_RUN, RESULT, Run, ledger_files, read_run
from gamagat.engine.runtime import borrowed, choose_device, default_batch_size, device_of, fitted
from gamagat.engine.share import Share
from gamagat.engine.source import data_of
from gamagat.errors import ConfigError, DamagedError, DataError, ModelError, RunError
from gamagat.models.core import load_model
from gamagat.models.loading.programs import is_program
from gamagat.pieces.threat import ThreatModel, norm_named
from gamagat.pieces.types import Model


@dataclass(frozen=True, slots=True)
class Verification:
    """What was looked at and what did not agree."""

    problems: list[str] = field(default_factory=list)
    verdicts: int = 0  # in the ledgers, clean ones included
    images: int = 0  # adversarial images read back and judged again
    of: int = 0  # images of the run
    near_ties: int = 0  # verdicts that another rounding may turn
    standing: Share | None = None
    eight_bit: Share | None = None  # standing when the images are rounded to 8 bits within the ball

    @property
    def sound(self) -> bool:
        """Whether everything agreed."""
        return not self.problems

    def as_json(self) -> dict[str, Any]:
        """The object that `gamagat verify --json` prints."""
        return {
            "sound": self.sound,
            "problems": self.problems,
            "verdicts": self.verdicts,
            "images": self.images,
            "near_ties": self.near_ties,
            "robust_accuracy": self.standing and self.standing.percent,
            "robust_accuracy_8bit": self.eight_bit and self.eight_bit.percent,
        }


def verify_folder(
    folder: str | Path,
    weights: str | Path | None = None,
    data_dir: str | Path | None = None,
    device: str = "auto",
    data: Dataset | str | None = None,
    model: Model | None = None,
) -> Verification:
    """Verify a run with the model and the data that its manifest names, or with those that are given.

    `weights` and `data` tell where they lie now; their hashes tell whether they are the same.
    """
    where = choose_device(device)
    try:
        manifest = read_run(folder).manifest
    except DamagedError as error:
        return Verification([str(error)])
    try:
        images = data if isinstance(data, Dataset) else data_of(manifest, data_dir, data)
        found = model or _model_of(manifest, weights, images).to(where)
    except (ConfigError, DataError, ModelError) as error:
        raise RunError(
            f"{folder} cannot be verified: {error}. Tell with --data and --weights what lies elsewhere now; "
            "what Python brought along goes to gamagat.verify(folder, model=..., data=...)"
        ) from error
    return verify(folder, found, images, device_of(found) or where)


def _model_of(manifest: Manifest, weights: str | Path | None, data: Dataset) -> nn.Module:
    """The network of a run; a program is all in one file, which may lie elsewhere now."""
    spec, file = manifest.model, weights or manifest.weights
    if weights is not None and is_program(spec):
        spec, file = str(weights), None
    return load_model(spec, file, classes=len(data.classes), channels=data.shape[0])


def verify(folder: str | Path, model: Model, data: Dataset, device: torch.device) -> Verification:
    """Look at every byte of a run that matters."""
    try:
        return _verified(read_run(folder), model, data, device)
    except DamagedError as error:  # the file as a whole, so that there is nothing to compare
        return Verification([str(error)])


def _verified(run: Run, model: Model, data: Dataset, device: torch.device) -> Verification:
    manifest = run.manifest
    problems = []
    if weights_hash(model) != manifest.weights_sha256:
        problems.append("the weights are not those of the run: their hash differs")
    if data_hash(data) != manifest.data_sha256:
        return Verification([*problems, "the data is not that of the run: its hash differs"])
    problems += [*_digests(run, data), *_coverage(run), *_claims(run)]
    network = Network(fitted(model), default_batch_size(data.shape, device))
    second = Second(network, data, device, _threat(run))
    with borrowed(model):
        fallen = judge_again(run, second)
    everything = [name for _, runs in manifest.runs() for name in known_runs(run, runs)]
    settled, standing = run.settled(everything), run.standing(everything)
    return Verification(
        problems=problems + second.problems,
        verdicts=sum(int((run.fooled(entry) != NOT_RUN).sum()) for entry in run.entries),
        images=second.images,
        of=manifest.n,
        near_ties=second.near_ties,
        standing=Share(int((standing & settled).sum()), int(settled.sum())),
        eight_bit=Share(int((run.right() & ~fallen & settled).sum()), int(settled.sum())),
    )


def _threat(run: Run) -> ThreatModel:
    return ThreatModel(norm_named(run.manifest.norm), run.manifest.eps)


def _digests(run: Run, data: Dataset) -> Iterator[str]:
    """Rows and images against the fingerprints that were written with them."""
    order, salt = np.argsort(data.ids.numpy()), run.manifest.fingerprint()
    ids, chunks = data.ids.numpy()[order], order // run.manifest.chunk
    seen: set[tuple[str, int]] = set()
    for path in ledger_files(run.folder):
        with Ledger(path) as ledger:
            written = {(done.entry, done.chunk): done.digest for done in ledger.finished()}
            for entry, chunk in written.keys() & seen:
                yield f"chunk {chunk} of {entry} is recorded twice"
            seen |= written.keys()
            for entry in ledger.entries():
                table = ledger.table(entry)
                place = np.searchsorted(ids, table["id"]).clip(0, len(ids) - 1)
                if not np.array_equal(ids[place], table["id"]):
                    yield f"{entry} in {path.name} has verdicts on images that are not in the data"
                due = {chunk for name, chunk in written if name == entry} | set(chunks[place].tolist())
                for chunk in sorted(due):
                    rows = [Verdict(*row) for row in table[chunks[place] == chunk].tolist()]
                    images = {row.id: ledger.image(entry, row.id) or b"" for row in rows}
                    if digest_of(salt, entry, chunk, rows, images) != written.get((entry, chunk)):
                        yield f"chunk {chunk} of {entry} in {path.name} was changed after it was written"


def _coverage(run: Run) -> Iterator[str]:
    """Every image has the verdicts it should have, and no others."""
    whole = -(-run.manifest.n // run.manifest.chunk)
    for entry in run.entries.keys() - {"clean", *run.manifest.entries()}:
        yield f"the manifest knows no {entry}, the ledger does"
    for name, runs in run.manifest.runs():
        for number, entry in enumerate(runs):
            due, tried = run.standing(runs[:number]), run.fooled(entry) != NOT_RUN
            if bool((tried & ~due).any()):
                yield f"{entry} of {name} has verdicts on images that had already fallen"
            complete = len({done.chunk for done in run.finished if done.entry == entry}) == whole
            if complete and bool((due & ~tried).any()):
                yield f"{entry} of {name} lacks {int((due & ~tried).sum())} verdicts"


def _claims(run: Run) -> Iterator[str]:
    """The numbers that were reported against those of the ledgers."""
    path = run.folder / RESULT
    try:
        claimed = dict(json.loads(path.read_text()))
    except FileNotFoundError:
        return
    except OSError as error:
        raise RunError(f"cannot read {path}: {error}") from None
    except (ValueError, TypeError) as error:
        yield f"{RESULT} is damaged: {error}; without it, the same evaluate command writes it again"
        return
    # The passage through text makes tuples lists and keeps every digit.
    counted = json.loads(json.dumps(summarize(run).as_json()))
    for key in counted:
        if claimed.get(key) != counted[key]:
            yield from _claim(key, claimed.get(key), counted[key])


def _claim(key: str, claimed: Any, counted: Any) -> Iterator[str]:
    """What is not the same: of several things, such as attacks, those parts that differ."""
    if isinstance(counted, list) and isinstance(claimed, list) and len(claimed) == len(counted):
        pairs = {f"{key}[{place}]": pair for place, pair in enumerate(zip(claimed, counted, strict=True))}
    elif isinstance(counted, dict) and isinstance(claimed, dict) and claimed.keys() == counted.keys():
        pairs = {f"{key}.{name}": (claimed[name], counted[name]) for name in counted}
    else:
        yield f"result.json says {key} is {claimed}, the ledgers say {counted}"
        return
    for part, (ours, theirs) in pairs.items():
        if ours != theirs:
            yield from _claim(part, ours, theirs)
