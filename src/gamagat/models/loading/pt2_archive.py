"""Reads a torch.export archive (.pt2) with suspicion.

torch.export.load unpickles without restriction where the archive asks for it, loads compiled libraries, and
evaluates expressions over symbolic sizes as Python. This module lets only raw tensors, plain names, known
operators and arithmetic through, and hands torch a new archive of exactly the records that it has seen.
"""

import io
import json
import re
import zipfile
from pathlib import Path
from typing import Any

import torch

from gamagat.errors import ModelError

_PLAIN = re.compile(r"-?[\w.]*")
_FREE = {"as_string", "as_strings", "torch_version"}  # torch writes these into the program as literals
_EVALUATED = {"expr_str", "guards_code"}
_TOKEN = re.compile(r"'\w+'|\w+|\S")
_HARMLESS = re.compile(
    r"'\w+'|\d+|[(),=<>!+*/%.\[\]-]"  # texts that are one word, numbers, arithmetic
    r"|[A-Z][A-Za-z]*|[a-z]{1,2}\d+"  # sympy's classes and symbols
    r"|and|or|not|positive|integer|nonnegative|real|finite|size|stride|storage_offset"
    r"|max|min|math|floor|ceil|trunc|isnan|inf|oo|int_oo"
)
_OPERATOR = re.compile(
    r"torch\.ops\.(aten|prims)\.(?!save\b|from_file\b)\w+\.\w+|torch\.sym_\w+|math\.\w+"
    r"|_operator\.(add|sub|mul|truediv|floordiv|mod|neg|pos|pow|getitem|eq|ne|lt|le|gt|ge|and_|or_|not_)"
)


def checked_archive(file: Path) -> io.BytesIO:
    """A copy of the archive with all that was checked and nothing else."""
    copy = io.BytesIO()
    try:
        with zipfile.ZipFile(file) as archive, zipfile.ZipFile(copy, "w") as clean:
            for name in archive.namelist():
                if "/extra/" not in name:
                    clean.writestr(name, _checked(file, name, archive.read(name)))
    except ModelError:
        raise
    except Exception as error:  # what a damaged archive makes zipfile and json raise has no end
        raise ModelError(
            f"{file} is no torch.export program or is damaged ({error}); save it again"
        ) from None
    copy.seek(0)
    return copy


def _checked(file: Path, name: str, content: bytes) -> bytes:
    """One record, if it is harmless."""
    if re.search(r"/(aotinductor|custom_obj|opaque_obj)", name):
        raise _refusal(file, f"compiled code or a pickled object in {name}")
    if name.endswith(".pt"):
        _check_pickle(file, name, content)
    if not name.endswith(".json"):
        return content
    tree = json.loads(content, object_hook=_without_metadata)
    _check_tree(file, tree, "")
    return json.dumps(tree).encode()


def _check_pickle(file: Path, name: str, content: bytes) -> None:
    """torch would try again without restriction if this failed."""
    if not content:
        return
    try:
        torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except Exception:
        raise _refusal(file, f"a pickle that needs code in {name}") from None


def _without_metadata(item: dict[str, Any]) -> dict[str, Any]:
    """Notes for debugging, such as the source lines a node came from, are not needed and not checked."""
    return item | {"metadata": {}} if "metadata" in item else item


def _check_tree(file: Path, value: Any, key: str) -> None:
    """Every text in the description of the program, by the key it stands under."""
    if isinstance(value, dict):
        for name, item in value.items():
            _check_text(file, name, "")
            _check_tree(file, item, name)
    elif isinstance(value, list):
        for item in value:
            _check_tree(file, item, key)
    elif isinstance(value, str):
        _check_text(file, value, key)
    elif key == "use_pickle" and value is not False:
        raise _refusal(file, "a pickled tensor")


def _check_text(file: Path, text: str, key: str) -> None:
    if key in _EVALUATED:
        harmless = all(_HARMLESS.fullmatch(token) for token in _TOKEN.findall(text))
    elif key == "target":
        harmless = _OPERATOR.fullmatch(text) is not None
    elif text[:1] in ("[", "{") and key not in _FREE:
        _check_tree(file, json.loads(text), key)
        harmless = True
    else:
        harmless = key in _FREE or _PLAIN.fullmatch(text) is not None
    if not harmless:
        raise _refusal(file, f"{text[:60]!r} as {key or 'a name'}")


def _refusal(file: Path, found: str) -> ModelError:
    return ModelError(
        f"{file} is refused: it has {found}, which could run any code while it is loaded; "
        "export the network again, or give its Python code as package.module:callable"
    )
