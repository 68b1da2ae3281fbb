"""Run a plan of attacks over a data set, chunk by chunk, into a ledger."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic

import torch

from gamagat.attacks.combine import passes
from gamagat.attacks.network import OutOfTime
from gamagat.data.core import Dataset
from gamagat.engine.answers import answers, disagree
from gamagat.engine.arena import Arena
from gamagat.engine.checks import check_batch_size, check_door
from gamagat.engine.ledger import CLEAN, Ledger
from gamagat.engine.manifest import Manifest, circumstances, data_hash, weights_hash, write_json
from gamagat.engine.plan import PlannedAttack
from gamagat.engine.quick.agreement import SAMPLE
from gamagat.engine.quick.network import Quick, check_precision, remembered
from gamagat.engine.ranks import Ranks, ranks
from gamagat.engine.results import Evaluation, summarize
from gamagat.engine.run import RESULT, read_run
from gamagat.engine.runtime import borrowed, fitted, held_memory, own_dice, products_in, telling_of_loss
from gamagat.engine.scribe import Scribe
from gamagat.engine.watch import Onlooker
from gamagat.engine.work import Book, Work
from gamagat.errors import ConfigError, RunError
from gamagat.pieces.threat import ThreatModel
from gamagat.pieces.types import Model

PLAIN, THEN = "the network as it is", ", then "  # what attacks compute in without a stand-in
INTERRUPTED, TIME_OVER = "it was interrupted", "the time that was given is over"


@dataclass(frozen=True, slots=True)
class Words:
    """What a run is called by those who asked for it; it goes into the manifest."""

    model: str = "model"
    weights: str | None = None
    data: str | None = None
    data_dir: str | None = None
    split: str = "test"
    eps: str | None = None


def evaluate(
    model: Model,
    data: Dataset,
    threat: ThreatModel,
    plan: tuple[PlannedAttack, ...],
    *,
    device: torch.device,
    batch_size: int,
    seed: int = 0,
    onlooker: Onlooker = Onlooker(),
    words: Words = Words(),
    out: Path | None = None,
    max_seconds: float | None = None,
    force: bool = False,
    precision: str = "auto",
) -> Evaluation:
    """Attack every image that the network classifies correctly with each attack of the plan.

    The run is kept in the folder `out` and goes on from where it stopped; without one it is forgotten, its
    images before they are compressed.
    `force` lets a network through that returns probabilities. `precision` is what attacks compute in; the
    judge always computes in single.
    """
    check_batch_size(batch_size)
    precision = check_precision(precision, device)
    deadline = math.inf if max_seconds is None else monotonic() + max_seconds
    tf32 = products_in(tf32=device.type == "cuda" and precision != "fp32")
    with (
        telling_of_loss(device),  # also where giving back what was borrowed fails then
        ranks() as group,
        _folder(out, group) as folder,
        borrowed(model),
        tf32,
        held_memory(device),
        own_dice(seed),
    ):
        kept = out is not None
        arena = Arena(fitted(model), data, threat, device, batch_size, seed, deadline, onlooker, kept=kept)
        check_door(arena.model, data, device, force)
        with ThreadPoolExecutor(1) as pool:  # the network's hash beside that of the data
            weights = pool.submit(weights_hash, model)
            manifest = _manifest(arena, plan, words, group, weights)
        manifest = _agreed(folder, group, manifest)
        if group.heard("done" if group.first and _is_done(folder) else None):
            return summarize(read_run(folder))  # and nothing is written
        stopped = _carry_out(arena, plan, folder, manifest, group, precision)
        if stopped != INTERRUPTED:
            group.wait()  # a process whose time is over is waited for as well
        result = summarize(read_run(folder))
        if result.unfinished:
            result = replace(result, stopped=stopped or TIME_OVER)  # if not ours, another process's
        if group.first:
            write_json(folder / RESULT, result.as_json())
    return result


def _is_done(folder: Path) -> bool:
    """Whether all that was asked for is known and told."""
    return (folder / RESULT).is_file() and not summarize(read_run(folder)).unfinished


def _stand_in(arena: Arena, plan: tuple[PlannedAttack, ...], precision: str, weights: str) -> Quick | None:
    """What attacks see in place of the network, chosen by a look at the first images."""
    count = min(SAMPLE, len(arena.data), arena.width)
    sample, _ = arena.data.batch(torch.arange(count), arena.device)
    work = len(arena.data) * sum(passes(run) for attack in plan for _, run in attack.runs)
    return remembered(arena.model, weights, precision, sample, work, arena.onlooker.say)


@contextmanager
def _folder(out: Path | None, group: Ranks) -> Iterator[Path]:
    """The folder of the run, or one that is gone afterwards."""
    if out is None:
        if group.count > 1:
            raise ConfigError("several processes need one folder to work in; give it with --out DIR")
        with tempfile.TemporaryDirectory(prefix="gamagat-") as name:
            yield Path(name)
        return
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"cannot make the run folder {out}: {error.strerror}; give another --out") from None
    yield out


def _manifest(
    arena: Arena, plan: tuple[PlannedAttack, ...], words: Words, group: Ranks, weights: Future[str]
) -> Manifest:
    data, threat = arena.data, arena.threat
    content = data_hash(data)
    return Manifest(
        model=words.model,
        weights=words.weights,
        weights_sha256=weights.result(),
        data=words.data or data.name,
        data_dir=words.data_dir,
        split=words.split,
        n=len(data),
        data_sha256=content,
        norm=threat.norm.name,
        eps_given=words.eps or repr(threat.eps),
        eps=threat.eps,
        attacks=[attack.as_json() for attack in plan],
        seed=arena.seed,
        chunk=_chunk_size(arena, group),
        shape=data.shape,
        made=circumstances(arena.device, arena.width, group.count),
        answers=answers(arena.model, data, arena.device),
    )


def _chunk_size(arena: Arena, group: Ranks) -> int:
    """Enough images to keep the width filled as they fall, and enough chunks for all processes."""
    count, many = len(arena.data), arena.width * (4 if arena.device.type == "cuda" else 2)
    least = 4 * group.count if group.count > 1 else 1
    return max(1, min(many, -(-count // least)))


def _agreed(folder: Path, group: Ranks, manifest: Manifest) -> Manifest:
    """The manifest of the folder: this one if it is new, the old one if this is the same run."""
    if group.first and Manifest.read(folder) is None:
        manifest.write(folder)
    group.wait()
    kept = Manifest.read(folder)
    if kept is None:
        raise RunError(f"{folder / 'manifest.json'} was removed while the run began")
    if changes := manifest.differences(kept):
        raise RunError(
            f"{folder} holds another run ({'; '.join(changes)}); repeat the settings to go on with it, "
            "or give another --out"
        )
    if disagree(kept.answers, manifest.answers):
        raise RunError(
            f"{folder} holds the run of a network that answers otherwise to the same images, with the same "
            "weights or none that can be seen; give another --out"
        )
    return kept


def _note(manifest: Manifest, folder: Path, group: Ranks, words: str) -> None:
    """Write down what attacks compute in, after what they computed in before."""
    if group.first:
        kept = Manifest.read(folder) or manifest
        before = kept.made.get("attacks in", "")
        known = before.split(THEN) if before else []
        news = THEN.join(dict.fromkeys([*known, words]))
        replace(kept, made=kept.made | {"attacks in": news}).write(folder)


def _carry_out(
    arena: Arena,
    plan: tuple[PlannedAttack, ...],
    folder: Path,
    manifest: Manifest,
    group: Ranks,
    precision: str,
) -> str | None:
    """Do what is not yet done; why it stopped before the end, if it did."""
    work = Work.resume(arena, read_run(folder), manifest, group)
    if group.first:
        (folder / RESULT).unlink(
            missing_ok=True
        )  # what an earlier stop said will not be true of more verdicts
    group.wait()  # all have read before anyone writes
    try:
        path, salt = folder / f"ledger-{group.rank}.sqlite", manifest.fingerprint()
        with Ledger(path, True, salt, arena.kept) as ledger, Scribe() as scribe:
            book = Book(ledger, scribe)
            work.entry(book, CLEAN, None, [])
            if work.left([name for attack in plan for name, _ in attack.runs]):
                arena.quick = _stand_in(arena, plan, precision, manifest.weights_sha256)
                _note(manifest, folder, group, PLAIN if arena.quick is None else arena.quick.words)
            chosen = arena.quick
            try:
                for attack in plan:
                    before: list[str] = []
                    for name, run in attack.runs:
                        work.entry(book, name, run, before)
                        before.append(name)
            finally:
                if arena.quick is not chosen:  # it has failed on the way
                    _note(manifest, folder, group, PLAIN)
    except KeyboardInterrupt:
        return INTERRUPTED
    except OutOfTime:
        return TIME_OVER
    return None
