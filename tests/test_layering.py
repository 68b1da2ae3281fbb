"""Who may import whom."""

import ast
from pathlib import Path

import pytest

from helpers import ROOT

SOURCE = ROOT / "src" / "gamagat"
ANYONE = {"errors", "registry", "version"}
ARROWS = {
    "pieces": {"pieces"},
    "attacks": {"attacks", "pieces"},
    "defenses": {"defenses", "attacks", "pieces"},
    "models": {"models", "pieces.types"},
    "data": {"data", "pieces.types"},
    "engine": {"engine", "attacks", "defenses", "models", "data", "pieces"},
    "experiments": {"experiments", "engine", "defenses", "attacks", "models", "data", "pieces"},
    "reports": {
        "reports",
        "engine",
        "experiments.cells",
        "experiments.claims",
        "experiments.forecast",
        "experiments.results",
    },  # what tables hold, not what runs them
    "api": {"engine", "attacks", "data", "pieces"},
    "autoattack": {"api", "engine", "attacks", "pieces"},
    "cli": {"cli", "engine", "experiments", "reports"},
    "__main__": {"cli"},
    "__init__": {"api", "autoattack", "attacks", "data", "engine", "models", "pieces"},
    "errors": set(),
    "registry": set(),
    "version": set(),
}
FILES = sorted(SOURCE.rglob("*.py"))


def imports(path: Path) -> set[str]:
    """The modules of the package that a file imports, without the package's name."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return {name.removeprefix("gamagat.") for name in found if name.startswith("gamagat.")}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_module_imports_only_what_lies_below_it(path):
    layer = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    allowed = ARROWS[layer] | ANYONE
    outside = {name for name in imports(path) if not any(f"{name}.".startswith(f"{way}.") for way in allowed)}
    assert not outside


def test_pieces_need_nothing_but_torch():
    for path in (SOURCE / "pieces").glob("*.py"):
        names = {
            name.split(".")[0]
            for node in ast.walk(ast.parse(path.read_text()))
            for name in (
                [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else []
            )
        }
        assert names <= {"torch", "gamagat", "__future__", "collections", "dataclasses", "typing", "math"}, (
            path.name
        )
