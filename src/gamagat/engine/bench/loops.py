"""The contestants of the benchmark of attacks: loops in which every image takes every step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import nn

from gamagat.attacks.combine import passes
from gamagat.attacks.core import IterativeAttack
from gamagat.attacks.network import Network
from gamagat.engine.arena import PATIENCE
from gamagat.engine.bench import published
from gamagat.engine.bench.peers import Peer
from gamagat.engine.bench.rows import OURS, PEER, PUBLISHED
from gamagat.engine.bench.scene import Scene
from gamagat.engine.plan import PlannedAttack, plan_attacks
from gamagat.engine.quick.agreement import SAMPLE
from gamagat.engine.quick.network import check_precision, quickened
from gamagat.engine.runtime import held_memory
from gamagat.pieces.noise import Noise
from gamagat.pieces.types import Images, Labels, Model


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop over batches in which every image takes every step."""

    who: str
    what: str
    batch_size: int
    run: Callable[[Scene, nn.Module], Images]
    model: Model  # that it is run on
    precision: str = "fp32"


def published_loop(place: Scene) -> Loop:
    """The published-style loop, on a GPU in its own batches."""
    size = published.BATCH if place.device.type == "cuda" else place.batch_size

    def run(here: Scene, model: nn.Module) -> Images:
        settings = published.GamaSettings.for_data(here.data.preset, here.steps)
        return over_batches(
            here, size, lambda x, y: published.gama_pgd(model, x, y, here.threat.eps, settings)
        )

    return Loop(PUBLISHED, "published-style GAMA-PGD", size, run, place.model)


def peer_loop(place: Scene, peer: Peer) -> Loop:
    """Another package's loop, in our batches."""

    def run(here: Scene, model: nn.Module) -> Images:
        return over_batches(here, here.batch_size, peer.loop(model, here.budget))

    return Loop(PEER, peer.name, place.batch_size, run, place.model)


def our_loop(place: Scene, precision: str) -> Loop:
    """Our GAMA-PGD with every image taken to the last step, on what the engine shows attacks."""

    def run(here: Scene, model: nn.Module) -> Images:
        (_, attack), *_ = our_plan(here)[0].runs
        assert isinstance(attack, IterativeAttack)
        noise = Noise.for_images(here.data.ids.to(here.device), here.seed)
        cuda = here.device.type == "cuda"  # where the engine pads batches and looks now and then, too
        network = Network(model, here.batch_size, cuda, patience=PATIENCE if cuda else 1)
        with held_memory(here.device):  # as the engine does
            return replace(attack, stop=False)(network, here.x, here.y, here.threat, noise).images

    model = _shown(place, precision)
    return Loop(OURS, f"our GAMA-PGD, {precision}", place.batch_size, run, model, precision)


def _shown(place: Scene, precision: str) -> Model:
    """The network, or its stand-in in this precision."""
    work = len(place.y) * sum(passes(attack) for _, attack in our_plan(place)[0].runs)
    kind = check_precision(precision, place.device)
    quick = quickened(place.model, kind, place.x[:SAMPLE], work, lambda words: None)
    return place.model if quick is None else quick.model


def over_batches(here: Scene, size: int, loop: Callable[[Images, Labels], Images]) -> Images:
    """What the loop makes of all images."""
    parts = zip(torch.split(here.x, size), torch.split(here.y, size), strict=True)
    return torch.cat([loop(x.clone(), y.clone()).detach() for x, y in parts])


def our_plan(here: Scene) -> tuple[PlannedAttack, ...]:
    """Our attack at the budget."""
    return plan_attacks((f"gama-pgd:steps={here.steps}",), here.data.preset)
