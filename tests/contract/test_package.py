"""What importing does, and which way imports point."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import widemargin

SOURCE = Path(widemargin.__file__).parent

#: Each layer may import from itself and from those before it.
LAYERS = [
    ["__init__", "parallel", "memory", "deadline", "output_files"],
    ["kernels"],
    ["problem", "tables"],
    ["validation", "datasets"],
    ["solvers"],
    ["progress"],
    ["models"],
    ["estimators"],
    ["baselines", "csv_text", "data_files", "demo", "export", "model_summary", "plotting"],
    ["cli"],
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}


def run_python(code):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout


def test_import_does_no_work():
    code = "import sys, widemargin; print('numba' in sys.modules, 'sklearn' in sys.modules)"
    assert run_python(code).split() == ["False", "False"]


def test_public_names_resolve():
    for name in widemargin.__all__:
        assert getattr(widemargin, name) is not None
    assert set(widemargin.__all__) <= set(dir(widemargin))
    with pytest.raises(AttributeError, match="nothing"):
        _ = widemargin.nothing


def imported_parts(path):
    """First-level parts of the package that a file imports."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("widemargin"):
            parts = node.module.split(".")[1:]
            if parts:
                yield parts[0]
            else:
                yield from (a.name if a.name in RANK else "__init__" for a in node.names)


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: p.stem)
def test_imports_point_to_the_left(path):
    part = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    if part == "__init__":
        return
    for target in imported_parts(path):
        assert RANK[target] <= RANK[part], f"{path.name} ({part}) imports {target}"
