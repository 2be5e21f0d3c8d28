"""The solvers: each module has WARM_UP_ROWS, make_model and extract_expansion."""

from importlib import import_module
from types import ModuleType


def load_solver(name: str) -> ModuleType:
    """Import the module of a solver, and with it the library it wraps."""
    return import_module(f"benchmarks.solvers.{name}")
