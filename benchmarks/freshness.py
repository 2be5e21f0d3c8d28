"""Whether a measurement was made with the code as it is now.

Every measurement keeps a fingerprint of each folder of the library. Comments, docstrings and layout
do not change a fingerprint; any other change of a folder does, and with it every measurement that
names the folder is out of date.
"""

import ast
import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import widemargin

SOURCES = Path(widemargin.__file__).parent
#: Folders of the library that measurements name.
FOLDERS = ("kernels", "exact", "divide", "additive", "projected", "baselines")
#: What stands behind a number that older code was measured with.
MARK = "†"


def fingerprint_sources() -> dict[str, str]:
    """Return the fingerprint of every folder of the library."""
    return {folder: fingerprint_folder(SOURCES / folder) for folder in FOLDERS}


@cache
def fingerprint_folder(folder: Path) -> str:
    """Hash the statements of all modules of a folder."""
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.py")):
        digest.update(path.name.encode())
        digest.update(dump_statements(path.read_text()).encode())
    return digest.hexdigest()[:12]


def dump_statements(source: str) -> str:
    """Return the statements of a module as text, without docstrings and positions."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and is_text(body[0]):
            node.body = body[1:]
    return ast.dump(tree)


def is_text(statement: ast.stmt) -> bool:
    """Whether a statement is a bare string, as docstrings are."""
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Constant):
        return False
    return isinstance(statement.value.value, str)


def is_stale(machine: dict[str, Any], folders: Iterable[str]) -> bool:
    """Whether one of the folders changed since a measurement, or its fingerprints are not known."""
    then, now = machine.get("sources", {}), fingerprint_sources()
    return any(then.get(folder) != now[folder] for folder in folders)
