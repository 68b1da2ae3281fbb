"""How fast GAMA-PGD is: the published-style loop, other packages and ours, in turns, on the same images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import torch

from gamagat.engine.bench.limit import Flops, flops_of, machine_rate
from gamagat.engine.bench.loops import Loop, our_loop, our_plan, peer_loop, published_loop
from gamagat.engine.bench.measure import Counted, Timed, machine, seeded, timed
from gamagat.engine.bench.peers import PEERS, Peer
from gamagat.engine.bench.rows import OURS, PER_GRADIENT, WHOLE, Bench, Row
from gamagat.engine.bench.scene import Scene, percent, scene
from gamagat.engine.evaluate import evaluate
from gamagat.engine.request import EvaluationRequest
from gamagat.engine.results import Evaluation
from gamagat.engine.runtime import products_in
from gamagat.engine.watch import Onlooker
from gamagat.errors import GamagatError
from gamagat.pieces.types import Images

ROUNDS = 3  # times that everyone is measured, in turns; the fastest counts


def attack_bench(
    request: EvaluationRequest,
    steps: int | None = None,
    *,
    rounds: int = ROUNDS,
    peers: Sequence[Peer] = PEERS,
    blind: bool = False,
    onlooker: Onlooker = Onlooker(),
) -> Bench:
    """Measure everyone; the steps are 100 on a GPU and 20 on a CPU where they are not given."""
    devices: list[int] | None = [] if request.device == "cpu" or not torch.cuda.is_available() else None
    with scene(request, steps, blind) as place, torch.random.fork_rng(devices=devices):
        flops = flops_of(place.model, place.x[:2])
        rates = _limits(place)
        rows = _rounds(place, flops, max(1, rounds), peers, onlooker)
        # Once more: while others are at work on the machine, its limit looks lower than it is.
        rates = {kind: max(rate, rates[kind]) for kind, rate in _limits(place).items()}
        limited = tuple(replace(row, limit=rates[row.precision]) for row in rows)
        return Bench(place.title, _facts(place, flops, rates, rounds), limited)


def _precisions(place: Scene) -> tuple[str, ...]:
    """Of our attack: what it takes by itself, and on a CPU also the network as it is."""
    return ("auto",) if place.device.type == "cuda" else ("fp32", "auto")


def _limits(place: Scene) -> dict[str, float]:
    """What the machine reaches in the arithmetic of each of our precisions."""
    half = {"auto": "fp16"} if place.device.type == "cuda" else {"auto": "fp32"}
    kinds = {precision: half.get(precision, precision) for precision in ("fp32", *_precisions(place))}
    known = {kind: machine_rate(place.device, kind) for kind in set(kinds.values())}
    return {precision: known[kind] for precision, kind in kinds.items()}


def _rounds(place: Scene, flops: Flops, rounds: int, peers: Sequence[Peer], onlooker: Onlooker) -> list[Row]:
    """The rows of every contestant, each the fastest of several rounds in which all take their turns."""
    loops = [published_loop(place), *(peer_loop(place, peer) for peer in peers)]
    loops += [our_loop(place, precision) for precision in _precisions(place)]
    measures: list[Callable[[bool], list[Row]]] = [partial(_loop_rows, place, loop, flops) for loop in loops]
    if not place.blind:  # how soon random images fall says nothing
        measures += [partial(_evaluation_rows, place, kind, flops) for kind in _precisions(place)]
    best: dict[tuple[str, str], Row] = {}
    for turn in range(rounds):
        for number, measure in enumerate(measures):
            images = len(place.y)
            onlooker.progress(f"round {turn + 1} of {rounds}", number * images, len(measures) * images)
            for row in measure(turn == 0):
                best[row.part, row.what] = row.fastest(best.get((row.part, row.what)))
    return sorted(best.values(), key=lambda row: row.part != PER_GRADIENT)


def _loop_rows(place: Scene, loop: Loop, flops: Flops, warm: bool) -> list[Row]:
    """The loop alone, and with the two looks that make an evaluation of it."""
    # Our own evaluation drops images and has a row for itself.
    parts = (PER_GRADIENT,) if place.blind or loop.who == OURS else (PER_GRADIENT, WHOLE)
    empty = [Row(part, loop.who, loop.what, len(place.y), precision=loop.precision) for part in parts]
    try:
        spent, counted = _timed_loop(place, loop, warm)
    except Exception as error:  # the others are still worth measuring
        return [replace(row, note=_words(error)) for row in empty]
    looks = timed(lambda: (place.look(), place.standing(spent.result))[1], place.device)
    accuracy = None if place.blind else percent(looks.result)
    seconds = {PER_GRADIENT: spent.seconds, WHOLE: spent.seconds + looks.seconds}
    busy = {PER_GRADIENT: spent.cpu_seconds, WHOLE: spent.cpu_seconds + looks.cpu_seconds}
    passes = {PER_GRADIENT: counted.forwards, WHOLE: counted.forwards + 2 * len(place.y)}
    return [
        replace(
            row,
            seconds=seconds[row.part],
            gradients=counted.backwards,
            accuracy=accuracy,
            flops=flops.of(passes[row.part], counted.backwards),
            peak=spent.peak,
            cpu_seconds=busy[row.part],
        )
        for row in empty
    ]


def _timed_loop(place: Scene, loop: Loop, warm: bool) -> tuple[Timed[Images], Counted]:
    counted = Counted(loop.model)
    with products_in(tf32=loop.precision != "fp32"):
        if warm:
            loop.run(place.short(loop.batch_size), Counted(loop.model))
        with seeded(place.seed):
            return timed(lambda: loop.run(place, counted), place.device), counted


def _evaluation_rows(place: Scene, precision: str, flops: Flops, warm: bool) -> list[Row]:
    """Our evaluation from its door to its result, verdicts in a ledger; without a folder no image is kept."""
    if warm:
        _evaluated(place, precision)
    result, seconds, most, busy = timed(lambda: _evaluated(place, precision), place.device)
    (attack,), count = result.attacks, len(place.y)
    # Besides the attack's own passes: one look at every image, and the judge's at those that were attacked.
    forwards = count * (1 + attack.forwards) + result.clean.count
    row = Row(
        WHOLE,
        OURS,
        f"our GAMA-PGD, {precision}",
        count,
        seconds,
        gradients=count * attack.backwards,
        accuracy=result.standing.percent,
        flops=flops.of(forwards, count * attack.backwards),
        peak=most,
        precision=precision,
        cpu_seconds=busy,
        attack_seconds=attack.seconds,
    )
    return [row]


def _evaluated(place: Scene, precision: str) -> Evaluation:
    return evaluate(
        place.model,
        place.data,
        place.threat,
        our_plan(place),
        device=place.device,
        batch_size=place.batch_size,
        seed=place.seed,
        precision=precision,
    )


def _words(error: Exception) -> str:
    words = " ".join(str(error).split())[:200]
    return words if isinstance(error, GamagatError) else f"{type(error).__name__}: {words}"


def _facts(place: Scene, flops: Flops, rates: dict[str, float], rounds: int) -> dict[str, str]:
    """What was the same for all."""
    limits = ", ".join(f"{rate / 1e9:.4g} GFLOP/s in {kind}" for kind, rate in rates.items())
    left = "throughput only" if place.blind else f"{percent(place.right):.2f} % clean"
    return {
        "images": f"{len(place.y)} of {place.data.name}, {left}",
        "budget": f"linf, eps {place.threat.eps:.6g}, {place.steps} steps, batch {place.batch_size}",
        "network": f"{flops.forward / 1e9:.4g} GFLOP forward, {flops.gradient / 1e9:.4g} with the gradient",
        "limit": f"{limits} (large matrix product)",
        "machine": f"{machine(place.device)}, torch {torch.__version__}, the fastest of {rounds} rounds",
    }
