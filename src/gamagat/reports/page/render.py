"""The page itself: a template, a style sheet and a script become one file."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from gamagat.reports.page.content import Content
from gamagat.reports.page.svg import whisker
from gamagat.reports.page.text import PAIRED, pair_cells
from gamagat.reports.page.words import breaks, eps_words, folded, interval, percent, plain
from gamagat.reports.unfinished import so_far, unfinished_words
from gamagat.version import __version__

PACKAGE = "gamagat.reports.page"
PARTS = (
    ("attacks", "Attacks"),
    ("masking", "Gradient masking"),
    ("classes", "Classes"),
    ("images", "Adversarial images"),
    ("settings", "Settings"),
    ("reproduce", "Reproduce"),
)  # of a page about one run


def as_html(content: Content) -> str:
    """One page that needs nothing else; every name on it is text, whatever is in it."""
    environment = Environment(
        loader=PackageLoader(PACKAGE, "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(percent=percent, interval=interval, plain=plain, whisker=whisker)
    environment.globals.update(breaks=breaks, eps_words=eps_words, folded=folded, PARTS=PARTS)
    environment.globals.update(pair_cells=pair_cells, PAIRED=PAIRED, so_far=so_far)
    environment.globals.update(unfinished_words=unfinished_words)
    style, script = _file("page.css"), _file("page.js")
    return environment.get_template("page.html.j2").render(
        content=content,
        style=Markup(style),
        script=Markup(script),
        policy=f"default-src 'none'; img-src data:; style-src {_hash(style)}; script-src {_hash(script)}",
        version=__version__,
    )


def _file(name: str) -> str:
    return files(PACKAGE).joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """What a browser lets run on the page, and nothing else."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
