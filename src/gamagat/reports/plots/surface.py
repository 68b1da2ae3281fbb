"""Plots of the loss around an image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gamagat.engine.request import prepare
from gamagat.engine.surfaces import Surface, Window, looking_at, surfaces
from gamagat.reports.plots.about import NORMS, About
from gamagat.reports.plots.core import PLOTS, Axis, Picture, Plot, Relief, Subject


@PLOTS.register("surface")
def surface(
    losses: tuple[str, ...] = ("ce", "gama"),
    weight: float = 25.0,
    image: int = 0,
    images: int = 1,
    points: int = 31,
    reach: float = 1.0,
    clip: bool = False,
) -> Plot:
    """MODEL: the loss along the gradient's sign and a random orthogonal direction (figures 2c, 2d, S4)."""

    def plot(subject: Subject) -> Picture:
        window = Window(reach, points, clip)
        prepared = looking_at(prepare(replace(subject.model(), attacks=("fgsm",))), image, images)
        found = surfaces(prepared, losses, weight, window, subject.onlooker)
        which = f"image {image}" if images == 1 else f"mean over images {image} to {image + images - 1}"
        return surface_picture(About.prepared(prepared), found, which, weight)

    return plot


def surface_picture(about: About, found: Sequence[Surface], which: str, weight: float = 25.0) -> Picture:
    """A surface and its contours for each loss, one below the other."""
    names = {
        "ce": ("Cross-entropy", "loss (nats)"),
        "margin": ("Maximum margin", "loss"),
        "gama": (f"GAMA: margin + {weight:g} · ‖p − p₀‖²", "loss"),  # noqa: RUF001
    }
    single = which.startswith("image ")
    reliefs = [
        Relief(
            names[one.loss][0],
            Axis("δ₁ along sign ∇L (ε)" if about.norm == "linf" else "δ₁ along ∇L (ε)"),
            Axis("δ₂ across it (ε)"),
            names[one.loss][1],
            one.along,
            one.across,
            one.values,
            one.margin if single else (),
            "orange line: another class wins beyond",
        )
        for one in found
    ]
    norm = NORMS.get(about.norm, about.norm)
    title = f"Loss surface: {about.subject}, {norm}, ε = {about.eps}, {which}"
    way = (
        "the sign of the cross-entropy's gradient" if about.norm == "linf" else "the cross-entropy's gradient"
    )
    note = f"The dot is the image itself. δ₁ goes along {way} there, δ₂ along random signs orthogonal to it."
    return Picture("surface", title, tuple(reliefs), about.slug, note)
