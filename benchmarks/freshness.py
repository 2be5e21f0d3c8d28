"""Whether a measurement was made with the code as it is now.

Every measurement keeps a fingerprint of each estimator: of its module and of the modules that it
imports from the folders of algorithms, directly or not. Comments, docstrings, layout and texts of
errors do not change a fingerprint; any other change does, and with it every measurement of the
estimator is out of date. Kernels that no such measurement uses do not count.
"""

import ast
import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import widemargin

SOURCES = Path(widemargin.__file__).parent
#: Folders whose modules count; the others check arguments, show progress and write files.
FOLDERS = ("kernels", "exact", "divide", "additive", "projected", "baselines")
#: A kernel that only `benchmarks.pairs` measures, whose rows are not marked by the code they measured.
LEFT_OUT = ("kernels/anova.py",)
#: Modules of the estimators that are measured.
MEASURED = (
    "exact.kernel_svc", "exact.kernel_svr", "exact.kernel_one_class", "divide.dc_svc",
    "additive.additive_svc", "additive.intersection_svc", "additive.power_mean_svc",
    "projected.projected_svc", "baselines.cascade", "baselines.fastfood", "baselines.fourier",
    "baselines.lasvm", "baselines.llsvm", "baselines.ltpu", "baselines.pwlsgd", "baselines.sikma",
    "baselines.spsvm",
)  # fmt: skip
#: What stands behind a number that older code was measured with.
MARK = "†"


@cache
def fingerprint_sources() -> dict[str, str]:
    """Return the fingerprint of every estimator that is measured."""
    return {module: fingerprint_module(module) for module in MEASURED}


def fingerprint_module(name: str, root: Path = SOURCES) -> str:
    """Hash the statements of a module, such as ``"exact.kernel_svc"``, and of what it imports."""
    digest = hashlib.sha256()
    for path in sorted(collect_modules(locate(f"widemargin.{name}", root), root)):
        digest.update(str(path.relative_to(root)).encode())
        digest.update(dump_statements(path.read_text()).encode())
    return digest.hexdigest()[:12]


def collect_modules(first: Path | None, root: Path) -> set[Path]:
    """The file of a module, and those of the modules that it imports."""
    found: set[Path] = set()
    waiting = [first]
    while waiting:
        path = waiting.pop()
        if path is not None and path not in found:
            found.add(path)
            waiting += [locate(name, root) for name in list_imports(path)]
    return found


def list_imports(path: Path) -> Iterator[str]:
    """Names that a file imports from; some are modules, others are in one."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def locate(name: str, root: Path) -> Path | None:
    """The file of a module, if it is in one of the folders."""
    first, *parts = name.split(".")
    if first != "widemargin" or not parts or parts[0] not in FOLDERS:
        return None
    path = root.joinpath(*parts)
    candidates = (path.with_suffix(".py"), path / "__init__.py")
    left_out = {root / name for name in LEFT_OUT}
    return next((p for p in candidates if p.exists() and p not in left_out), None)


def dump_statements(source: str) -> str:
    """Return the statements of a module as text, without docstrings, positions and errors' texts."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and is_text(body[0]):
            node.body = body[1:]
        if isinstance(node, ast.Raise):
            node.exc = None
    return ast.dump(tree)


def is_text(statement: ast.stmt) -> bool:
    """Whether a statement is a bare string, as docstrings are."""
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Constant):
        return False
    return isinstance(statement.value.value, str)


def is_stale(machine: dict[str, Any], module: str | None) -> bool:
    """Whether an estimator changed since a measurement, or its fingerprint then is not known.

    Measurements of others' estimators, without a module, do not grow old.
    """
    if module is None:
        return False
    return machine.get("sources", {}).get(module) != fingerprint_sources()[module]
