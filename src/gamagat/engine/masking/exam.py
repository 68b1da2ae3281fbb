"""One diagnosis under way: the network as it can be attacked, and what attacks have left of its accuracy."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from gamagat.attacks.combine import thorough
from gamagat.attacks.core import ATTACKS
from gamagat.attacks.network import Network
from gamagat.engine.evaluate import evaluate
from gamagat.engine.judge import judge
from gamagat.engine.plan import PlannedAttack, plan_attacks
from gamagat.engine.request import Prepared
from gamagat.engine.run import Run, read_run
from gamagat.engine.runtime import fitted
from gamagat.engine.watch import Onlooker, Watch
from gamagat.pieces.noise import Noise
from gamagat.pieces.threat import ThreatModel
from gamagat.pieces.types import Images, Labels, Scores
from gamagat.registry import parse_spec

CHANCE = 3  # images that may stand or fall by chance
HARDLY_ANY = 5.0  # percent of accuracy that nobody would call robust

# The paper's normally trained networks keep 8 to 16 % of accuracy under FGSM and nothing under PGD: one step
# is just weak there. A collapsed network keeps most of its clean accuracy under FGSM (97 % of CIFAR-10).
LOOKS_ROBUST = 0.5

Standing = NDArray[np.bool_]  # by image, in the order of the ids: right untouched and under attack


class Doses(NamedTuple):
    """The attacks of a diagnosis, as they are written in `gamagat evaluate`."""

    fgsm: str
    steps: tuple[str, ...]  # PGD with fewer and with more steps
    published: str  # PGD in the middle number of steps, differentiated as other tools do
    restarts: str
    gama: str
    square: str
    far: str  # for radii beyond eps

    def specs(self) -> tuple[str, ...]:
        """Those that run at eps itself."""
        return (self.fgsm, *self.steps, self.published, self.restarts, self.gama, self.square)


def pgd(steps: int) -> str:
    """PGD whose steps add up to 2.5 eps, however many they are, so that more of them are finer ones.

    With steps of one size a short run is the beginning of a long one, which then cannot do worse: the check
    that more steps never help less would hold whatever the network does.
    """
    return f"pgd:steps={steps},rate={2.5 / steps:.3g}"


FULL = Doses(
    "fgsm",
    (pgd(7), pgd(20), pgd(100)),
    f"{pgd(20)},as_published=true",
    f"{pgd(20)},restarts=5",
    "gama-pgd",
    "square:queries=1000",
    pgd(40),
)
QUICK = Doses(
    "fgsm",
    (pgd(7), pgd(20), pgd(50)),
    f"{pgd(20)},as_published=true",
    f"{pgd(10)},restarts=5",
    "gama-pgd:steps=50",
    "square:queries=300",
    pgd(20),
)


class Unfollowed(nn.Module):
    """A network that cannot be differentiated, with a gradient of zero put where there is none.

    Attacks then run, and stand still, as those of other tools do or would after such a layer.
    """

    def __init__(self, net: Any) -> None:
        super().__init__()
        self.net = net

    def forward(self, images: Images) -> Scores:
        with torch.no_grad():
            logits: Scores = self.net(images.detach())
        return logits + (0 * images).flatten(1).sum(1, keepdim=True).to(logits.dtype)


def reason_unfollowed(model: Any, images: Images) -> str | None:
    """Why the logits of this network cannot be differentiated; None if they can."""
    images = images.detach().clone().requires_grad_()
    try:
        with torch.enable_grad():
            logits = fitted(model)(images)
            if not logits.requires_grad:
                return "the gradient is cut between input and logits"
            torch.autograd.grad(logits.float().sum(), images, allow_unused=True)
    except RuntimeError as error:  # what torch says of numpy inside, and of layers without a derivative
        return " ".join(str(error).split())[:200] or type(error).__name__
    return None


@dataclass(slots=True)
class Exam:
    """What checks may ask; whatever takes time is asked once and remembered."""

    prepared: Prepared
    model: nn.Module  # as it is attacked
    doses: Doses = FULL
    source: nn.Module | None = None  # the network that transferred images are made on
    cut: str | None = None  # why the network cannot be differentiated
    onlooker: Onlooker = field(default_factory=Onlooker)
    known: dict[str, Any] = field(default_factory=dict)

    @property
    def threat(self) -> ThreatModel:
        return self.prepared.threat

    @property
    def count(self) -> int:
        """How many images there are."""
        return len(self.prepared.data)

    def worth(self, points: float) -> float:
        """A threshold in points, but never less than three images: as many may move by chance."""
        return max(points, 100 * CHANCE / self.count)

    def facts(self) -> dict[str, str]:
        """What is diagnosed, in words."""
        return {key: value for key, value in self.prepared.facts().items() if not key.startswith("attack ")}

    def right(self) -> Standing:
        """Which images the network gets right untouched."""
        return self._run().right()

    def left(self, spec: str, restart: int | None = None) -> Standing:
        """Which images an attack at eps leaves standing, after so many restarts or all of them."""
        (attack,) = [attack for attack in self.prepared.plan if attack.name == spec]
        return self._run().standing([name for name, _ in attack.runs][:restart])

    def accuracy(self, spec: str, restart: int | None = None) -> float:
        """The same in percent of all images."""
        return percent(self.left(spec, restart))

    def followed(self) -> Standing:
        """Which images every attack that follows gradients leaves standing."""
        doses = self.doses
        specs = (doses.fgsm, *doses.steps, doses.restarts, doses.gama)
        standing: Standing = np.logical_and.reduce([self.left(spec) for spec in specs])
        return standing

    def stands(self) -> bool:
        """Whether the network looks robust, to FGSM or to all that follows gradients.

        A network that does not has nothing to hide: symptoms of a crooked loss count only where it does.
        """
        fgsm, clean = self.left(self.doses.fgsm), self.right()
        return percent(self.followed()) > HARDLY_ANY or percent(fgsm) >= LOOKS_ROBUST * percent(clean)

    def accuracy_at(self, spec: str, eps: float) -> float:
        """What an attack leaves at another radius, in percent."""
        plan = plan_attacks((spec,), self.prepared.data.preset)
        run = self._attacked(plan, ThreatModel(self.threat.norm, eps))
        return percent(run.standing([name for name, _ in plan[0].runs]))

    def parts(self) -> Iterator[tuple[Images, Labels, Noise]]:
        """Images, labels and noise, batch after batch."""
        data, device = self.prepared.data, self.prepared.device
        order = data.ids.argsort()  # verdicts come in the order of the ids
        for part in torch.split(order, self.prepared.batch_size):
            noise = Noise.for_images(data.ids[part].to(device), self.prepared.request.seed)
            yield *data.batch(part, device), noise

    def network(self, model: nn.Module | None = None, watch: Watch | None = None) -> Network:
        """The network, or another one, as attacks see it."""
        seen = None if watch is None else watch.seen
        return Network(fitted(model or self.model), self.prepared.batch_size, seen=seen)

    def made(
        self, spec: str, eps: float, on: nn.Module | None = None
    ) -> Iterator[tuple[Images, Images, Labels]]:
        """Images of an attack that goes all the way, the images they came from, and labels."""
        name, options = parse_spec(spec)
        attack = thorough(ATTACKS.make(name, self.prepared.data.preset, **options))
        threat = ThreatModel(self.threat.norm, eps)
        for x, y, noise in self.parts():
            yield attack(self.network(on), x, y, threat, noise).images.float(), x, y

    def moved(self, spec: str, on: nn.Module | None, what: str) -> Standing:
        """Which images survive what an attack made of them on another network."""
        network, watch = self.network(), self.watch(f"{what} {spec}")
        standing = []
        for images, x, y in self.made(spec, self.threat.eps, on=on):
            standing.append(~judge(network, images, x, y, self.threat).fooled.cpu())
            watch.end(len(x))
        whole: Standing = np.asarray(torch.cat(standing))
        return whole

    def watch(self, what: str) -> Watch:
        """A bar for what is no attack."""
        return Watch(self.onlooker, what, self.count)

    def _run(self) -> Run:
        if "run" not in self.known:
            self.known["run"] = self._attacked(self.prepared.plan, self.threat)
        run: Run = self.known["run"]
        return run

    def _attacked(self, plan: tuple[PlannedAttack, ...], threat: ThreatModel) -> Run:
        """An evaluation, as `gamagat evaluate` makes it, and every verdict of it."""
        prepared, request = self.prepared, self.prepared.request
        with tempfile.TemporaryDirectory(prefix="gamagat-") as name:
            result = evaluate(
                self.model,
                prepared.data,
                threat,
                plan,
                device=prepared.device,
                batch_size=prepared.batch_size,
                seed=request.seed,
                onlooker=self.onlooker,
                out=Path(name),
                force=request.force,
            )
            if result.stopped:
                raise KeyboardInterrupt  # half a run diagnoses nothing
            return read_run(Path(name))


def percent(which: Standing | Tensor) -> float:
    """The share of true entries, in percent."""
    return 100 * float(which.sum()) / max(1, len(which))
