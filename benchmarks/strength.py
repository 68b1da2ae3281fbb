"""How strong our attacks are beside pyautoattack, torchattacks and foolbox, with the steps set equal.

    pip install 'gamagat[bench]'
    python benchmarks/strength.py --model small-cnn --weights trades_mnist_smallcnn.pt \\
        --data mnist --data-dir MNIST --eps 0.3 --json strength.json

Everyone gets the same images, all of the first --n, and the same frozen network in single precision, and one
judge looks at what comes back: an image is broken if the network gets it wrong untouched, or if it gets the
returned image wrong and that lies within eps. Of minimum-norm attacks, too, only what lies within eps counts.

Passes are per image of the data. A peer's are counted where they enter the network, its own checks included;
ours are the engine's, and the JSON has for both what went through the network, on a GPU with the padding of
our batches. A peer that is missing or fails is a row that says why; what it does not offer has no row.
"""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import torch
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from torch import Tensor

from gamagat.attacks.core import ATTACKS, check_norm
from gamagat.engine.bench.measure import Counted
from gamagat.engine.evaluate import evaluate
from gamagat.engine.judge import judge, predict
from gamagat.engine.ledger import CLEAN
from gamagat.engine.plan import plan_attacks
from gamagat.engine.request import EvaluationRequest, Prepared, prepare
from gamagat.engine.run import Run, read_run
from gamagat.engine.runtime import borrowed, full_precision
from gamagat.errors import ConfigError, GamagatError
from gamagat.pieces.types import Images, Labels, Mask
from gamagat.registry import format_spec

OURS = "ours"
MARGIN = 0.3  # percent that ours may leave standing above a peer's
SEED = 0
PEER_NORMS = {"linf": "Linf", "l2": "L2"}
USUAL = {
    "linf": ("pgd", "apgd-ce", "apgd-t", "fab-t", "square", "autoattack"),
    "l2": ("pgd", "apgd-ce", "apgd-t", "fab-t", "square", "autoattack", "cw", "ddn"),
}


class Budget(NamedTuple):
    """How long every implementation may look."""

    steps: int = 100
    targets: int = 9
    queries: int = 5000


QUICK = Budget(steps=20, targets=3, queries=200)


@dataclass(frozen=True, slots=True)
class Scene:
    """The network, the images and the budget, the same for all."""

    prepared: Prepared
    counted: Counted
    budget: Budget
    x: Images
    y: Labels
    right: Mask  # classified correctly untouched

    @property
    def eps(self) -> float:
        return self.prepared.threat.eps

    @property
    def norm(self) -> str:
        return self.prepared.threat.norm.name

    @property
    def targets(self) -> int:
        return min(self.budget.targets, len(self.prepared.data.classes) - 1)

    @property
    def rate(self) -> float:
        """PGD's step in units of eps, as ours has it on these data."""
        return float(ATTACKS.settings("pgd", self.prepared.data.preset)["rate"])

    def batches(self, *tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
        """All of them, a batch at a time."""
        return zip(*(torch.split(tensor, self.prepared.batch_size) for tensor in tensors), strict=True)

    def over_batches(self, attack: Callable[[Images, Labels], Images]) -> Images:
        """What the attack returns for all images."""
        return torch.cat([attack(x.clone(), y.clone()).detach() for x, y in self.batches(self.x, self.y)])


class Found(NamedTuple):
    """What an implementation returned, and what it says it has spent per image, if it does."""

    images: Images
    spent: tuple[float, float] | None = None


@dataclass(slots=True)
class Row:
    """One implementation of one attack; without an accuracy, the note says why."""

    attack: str
    implementation: str
    accuracy: float | None = None
    forwards: float | None = None
    backwards: float | None = None
    seconds: float | None = None
    note: str = ""
    through_network: list[float] = field(default_factory=list)  # forwards and backwards per image


# Ours


def ours(scene: Scene, attack: str) -> Found:
    """The attack by the engine, at the budget."""
    known = ATTACKS[attack].defaults()
    check_norm(attack, scene.prepared.threat.norm)
    budget = {"steps": scene.budget.steps, "top": scene.targets, "queries": scene.budget.queries}
    spec = format_spec(attack, {key: value for key, value in budget.items() if key in known})
    prepared = scene.prepared
    with tempfile.TemporaryDirectory() as name:
        result = evaluate(
            scene.counted,
            prepared.data,
            prepared.threat,
            plan_attacks([spec], prepared.data.preset),
            device=prepared.device,
            batch_size=prepared.batch_size,
            seed=SEED,
            out=Path(name),
        )
        images = stored_images(read_run(Path(name)), scene)
    return Found(images, (result.attacks[0].forwards, result.attacks[0].backwards))


def stored_images(run: Run, scene: Scene) -> Images:
    """The adversarial images of a run, and the clean ones where it found none."""
    images = scene.x.clone()
    place = {id_: position for position, id_ in enumerate(scene.prepared.data.ids.tolist())}
    for entry in run.manifest.entries():
        table = run.table(entry)
        fallen = table["id"][table["fooled"] == 1].tolist() if entry != CLEAN else []
        for id_, pixels in run.images(entry, fallen).items():
            images[place[id_]] = torch.from_numpy(pixels.copy()).to(images)
    return images


# Theirs


def with_pyautoattack(package: Any, scene: Scene, attack: str) -> Images:
    """AutoAttack's standard version, or one member of it."""
    logging.getLogger("auto-attack").setLevel(logging.ERROR)
    suite = package.AutoAttack(
        scene.counted,
        norm=PEER_NORMS[scene.norm],
        eps=scene.eps,
        seed=SEED,
        device=scene.prepared.device,
    )
    steps = scene.budget.steps
    for member in (suite.apgd, suite.apgd_targeted, suite.fab):
        member.n_iter, member.n_restarts, member.n_target_classes = steps, 1, scene.targets
    for member in (suite.apgd, suite.apgd_targeted):  # its checkpoints are shares of the steps
        shares = [max(int(share * steps), 1) for share in (0.22, 0.06, 0.03)]
        member.n_iter_2, member.n_iter_min, member.size_decr = shares
    suite.square.n_queries = scene.budget.queries
    if attack != "autoattack":
        suite.attacks_to_run = [attack]
    images: Images = suite.run_standard_evaluation(scene.x, scene.y, batch_size=scene.prepared.batch_size)[0]
    return images


def with_torchattacks(package: Any, scene: Scene, attack: str) -> Images:
    """An attack of torchattacks, batch by batch."""
    return scene.over_batches(from_torchattacks(package, scene, attack))


def from_torchattacks(package: Any, scene: Scene, attack: str) -> Any:
    """The attack with our steps: those of its own AutoAttack are ten, so the suite is put together here."""
    model, steps, eps = scene.counted, scene.budget.steps, scene.eps
    ball = {"norm": PEER_NORMS[scene.norm], "eps": eps, "n_restarts": 1, "seed": SEED}
    pgd = package.PGD if scene.norm == "linf" else package.PGDL2
    classes = scene.targets + 1  # it aims at all but one
    factories: dict[str, Callable[[], Any]] = {
        "pgd": lambda: pgd(model, eps=eps, alpha=scene.rate * eps, steps=steps),
        "apgd-ce": lambda: package.APGD(model, steps=steps, **ball),
        "apgd-t": lambda: package.APGDT(model, steps=steps, n_classes=classes, **ball),
        "fab": lambda: package.FAB(model, steps=steps, **ball),
        "fab-t": lambda: package.FAB(model, steps=steps, multi_targeted=True, n_classes=classes, **ball),
        # Like the others, windows that shrink by the number of queries, not by the share of them.
        "square": lambda: package.Square(model, n_queries=scene.budget.queries, resc_schedule=False, **ball),
        "cw": lambda: package.CW(model, steps=steps),
    }
    if attack != "autoattack":
        return factories[attack]()
    return package.MultiAttack([factories[name]() for name in ("apgd-ce", "apgd-t", "fab-t", "square")])


def with_foolbox(package: Any, scene: Scene, attack: str) -> Images:
    """An attack of foolbox, batch by batch; of minimum-norm attacks the image before it is clipped to eps."""
    model = package.PyTorchModel(scene.counted, bounds=(0, 1), device=scene.prepared.device)
    attacks, steps = package.attacks, scene.budget.steps
    pgd = attacks.LinfPGD if scene.norm == "linf" else attacks.L2PGD
    factories: dict[str, Callable[[], Any]] = {
        "pgd": lambda: pgd(rel_stepsize=scene.rate, steps=steps),
        "cw": lambda: attacks.L2CarliniWagnerAttack(steps=steps),
        "ddn": lambda: attacks.DDNAttack(steps=steps),
    }
    search = factories[attack]()

    def nearest(x: Images, y: Labels) -> Images:
        images: Images = search(model, x, y, epsilons=scene.eps)[0]
        return images

    return scene.over_batches(nearest)


class Peer(NamedTuple):
    """Another package: how to run its attacks, and which of them there are."""

    run: Callable[[Any, Scene, str], Images]
    offers: tuple[str, ...]


PEERS = {
    "pyautoattack": Peer(with_pyautoattack, ("apgd-ce", "apgd-t", "fab", "fab-t", "square", "autoattack")),
    "torchattacks": Peer(
        with_torchattacks, ("pgd", "apgd-ce", "apgd-t", "fab", "fab-t", "square", "autoattack", "cw")
    ),
    "foolbox": Peer(with_foolbox, ("pgd", "cw", "ddn")),
}
KNOWN = tuple(dict.fromkeys(name for peer in PEERS.values() for name in peer.offers))
L2_ALONE = ("cw", "ddn")


def package_of(name: str) -> Any:
    """The peer's package."""
    # foolbox imports GitPython for its zoo, and that refuses to be imported where there is no git.
    os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")
    return importlib.import_module(name)


def theirs(scene: Scene, name: str, attack: str) -> Found:
    """The attack by a peer."""
    package = package_of(name)
    if attack in L2_ALONE and scene.norm != "l2":
        raise ConfigError(f"{attack} attacks in l2 alone")
    return Found(PEERS[name].run(package, scene, attack))


# The comparison


@contextmanager
def timed(row: Row, scene: Scene) -> Iterator[None]:
    """Write into the row how long it took and what went through the network."""
    device, counted = scene.prepared.device, scene.counted
    torch.manual_seed(SEED)
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.synchronize(device)
    counted.forwards, counted.backwards = 0, 0
    began = perf_counter()
    yield
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    row.seconds = perf_counter() - began
    row.through_network = [count / len(scene.y) for count in (counted.forwards, counted.backwards)]


def measure(scene: Scene, attack: str, implementation: str) -> Row:
    """Run one implementation of one attack; whatever goes wrong is said in the row."""
    row = Row(attack, implementation)
    try:
        with timed(row, scene):
            found = ours(scene, attack) if implementation == OURS else theirs(scene, implementation, attack)
        row.forwards, row.backwards = found.spent or row.through_network
        standing, beyond = look(scene, found.images)
        row.accuracy = percent(standing)
        row.note = f"{percent(beyond):.2f} % fooled outside" if bool(beyond.any()) else ""
    except Exception as error:  # the others are still worth measuring
        words = " ".join(str(error).split())
        row.note = (
            words[:200] if isinstance(error, GamagatError) else f"{type(error).__name__}: {words}"[:200]
        )
        row.seconds = None
    return row


def look(scene: Scene, images: Images) -> tuple[Mask, Mask]:
    """Which images stand, and which fool the network but lie outside the threat model."""
    prepared = scene.prepared
    # A pixel of 1.0000001 is rounding, and not to be held against anyone.
    images = images.to(scene.x).clamp(prepared.threat.low, prepared.threat.high)
    verdicts = [
        judge(prepared.model, image, x, y, prepared.threat)
        for image, x, y in scene.batches(images, scene.x, scene.y)
    ]
    fooled = torch.cat([verdict.fooled for verdict in verdicts])
    wrong = torch.cat([verdict.prediction for verdict in verdicts]) != scene.y
    return scene.right & ~fooled, scene.right & wrong & ~fooled


def percent(which: Mask) -> float:
    return 100 * int(which.sum()) / len(which)


class Difference(NamedTuple):
    """Accuracy that ours leaves, minus a peer's; None where one of them has none."""

    attack: str
    peer: str
    difference: float | None
    holds: bool | None


def differences(rows: list[Row]) -> list[Difference]:
    """Every peer's row against ours."""
    own = {row.attack: row.accuracy for row in rows if row.implementation == OURS}
    return [_difference(row, own[row.attack]) for row in rows if row.implementation != OURS]


def _difference(row: Row, own: float | None) -> Difference:
    if own is None or row.accuracy is None:
        return Difference(row.attack, row.implementation, None, None)
    gap = own - row.accuracy
    return Difference(row.attack, row.implementation, gap, gap <= MARGIN + 1e-9)


def compare(
    scene: Scene, attacks: list[str], peers: list[str], tell: Callable[[list[Row]], None]
) -> list[Row]:
    """All rows; each is told as soon as it is known."""
    rows: list[Row] = []
    for attack in attacks:
        for implementation in (OURS, *(peer for peer in peers if attack in PEERS[peer].offers)):
            rows.append(measure(scene, attack, implementation))
            tell(rows)
    return rows


# Words


def results_table(scene: Scene, rows: list[Row]) -> Table:
    """All rows, under the network's name."""
    facts, budget = scene.prepared.facts(), scene.budget
    table = Table(
        title=escape(f"{facts['model']}\n{facts['data']}; {facts['threat']}"),
        title_justify="left",
        caption=f"{budget.steps} steps, {scene.targets} targets, {budget.queries} queries; {facts['run']}",
        caption_justify="left",
    )
    for heading in ("attack", "implementation"):
        table.add_column(heading, no_wrap=True)
    for heading in ("accuracy %", "forwards", "backwards", "seconds"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("note", overflow="fold")
    table.add_row("clean", "", f"{percent(scene.right):.2f}")
    for row in rows:
        numbers = zip((row.accuracy, row.forwards, row.backwards, row.seconds), (2, 1, 1, 1), strict=True)
        cells = ("-" if number is None else f"{number:.{digits}f}" for number, digits in numbers)
        table.add_row(row.attack, row.implementation, *cells, escape(row.note))
    return table


def difference_lines(rows: list[Row], n: int) -> Iterator[str]:
    """Ours minus theirs, and whether ours leaves no more than the margin above them."""
    for attack, peer, gap, holds in differences(rows):
        if gap is None:
            yield f"{attack}: ours - {peer}: cannot be told"
        else:
            verdict = "holds" if holds else "DOES NOT HOLD"
            images = f"{round(gap * n / 100):+d} of {n} images"
            yield f"{attack}: ours - {peer} = {gap:+.2f} ({images}); ours <= theirs + {MARGIN}: {verdict}"


def as_json(scene: Scene, rows: list[Row], peers: list[str]) -> dict[str, Any]:
    """All that the tables say."""
    request = scene.prepared.request
    return {
        "model": request.model,
        "weights": request.weights.name if request.weights else None,
        "data": scene.prepared.data.name,
        "n": len(scene.y),
        "norm": scene.norm,
        "eps": scene.eps,
        "budget": scene.budget._asdict() | {"targets": scene.targets},
        "run": scene.prepared.facts()["run"],
        "versions": {peer: version_of(peer) for peer in peers},
        "clean_accuracy": percent(scene.right),
        "rows": [asdict(row) for row in rows],
        "margin": MARGIN,
        "differences": [difference._asdict() for difference in differences(rows)],
    }


def version_of(peer: str) -> str | None:
    """The peer's version, or None where it cannot be imported."""
    try:
        return str(package_of(peer).__version__)
    except Exception:  # its rows say why
        return None


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--model", default="small-cnn", help="as in: gamagat list models")
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--data", default="mnist", help="as in: gamagat list data")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--eps", help="such as 0.3 or 8/255; by default the data set's usual one")
    parser.add_argument("--norm", default="linf", choices=sorted(USUAL))
    parser.add_argument("--n", type=int, default=1000, help="how many of the first images")
    parser.add_argument("--attacks", nargs="+", choices=KNOWN, metavar="NAME", help=", ".join(KNOWN))
    parser.add_argument("--peers", nargs="*", choices=list(PEERS), default=list(PEERS), metavar="NAME")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--batch-size", type=int)
    parser.add_argument("--quick", action="store_true", help="few steps, targets and queries, for all alike")
    parser.add_argument("--json", type=Path, metavar="FILE", help="written anew after every row")
    return parser.parse_args()


@contextmanager
def set_up(args: argparse.Namespace) -> Iterator[Scene]:
    """Load everything; within, the network is frozen, warm, and in single precision."""
    prepared = prepare(
        EvaluationRequest(
            model=args.model,
            weights=args.weights,
            data=args.data,
            data_dir=args.data_dir,
            n=args.n,
            norm=args.norm,
            eps=args.eps,
            attacks=("pgd",),
            batch_size=args.batch_size,
            device=args.device,
        )
    )
    x, y = prepared.data.batch(torch.arange(len(prepared.data)), prepared.device)
    with borrowed(prepared.model), full_precision():
        right = (
            torch.cat([predict(prepared.model, part) for part in torch.split(x, prepared.batch_size)]) == y
        )
        warm = x[: prepared.batch_size].clone().requires_grad_()
        torch.autograd.grad(prepared.model(warm).sum(), warm)
        yield Scene(prepared, Counted(prepared.model), QUICK if args.quick else Budget(), x, y, right)


def main() -> None:
    args = arguments()
    attacks = list(dict.fromkeys(args.attacks or USUAL[args.norm]))
    with set_up(args) as scene:

        def tell(rows: list[Row]) -> None:
            row = rows[-1]
            found = row.note if row.accuracy is None else f"{row.accuracy:.2f} % in {row.seconds:.1f} s"
            print(f"{row.attack}, {row.implementation}: {found}", file=sys.stderr, flush=True)
            if args.json:
                args.json.write_text(json.dumps(as_json(scene, rows, args.peers), indent=2) + "\n")

        rows = compare(scene, attacks, list(dict.fromkeys(args.peers)), tell)
        console = Console(width=None if sys.stdout.isatty() else 110)
        console.print(results_table(scene, rows))
    print("\n".join(difference_lines(rows, len(scene.y))))


if __name__ == "__main__":
    try:
        main()
    except GamagatError as wrong:
        sys.exit(str(wrong))
