"""The data sets of the benchmarks by name."""

from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.records import BenchmarkData

#: Name in the tables -> module of this package and arguments of its ``load``.
DATASETS: dict[str, tuple[str, dict[str, int]]] = {
    "ijcnn1": ("ijcnn1", {}),
    "a9a": ("a9a", {}),
    "covtype-20k": ("covtype", {"n_train": 20_000}),
    "covtype-50k": ("covtype", {"n_train": 50_000}),
    "mnist-20k": ("mnist", {"n_train": 20_000}),
}


def load_dataset(name: str) -> BenchmarkData:
    """Load a data set of the exact suite."""
    module, sizes = DATASETS[name]
    return import_module(f"benchmarks.datasets.{module}").load(name, **sizes)


def name_trial(name: str, max_rows: int | None) -> str:
    """Name a trial on fewer rows so that it is never taken for the full data set."""
    return name if max_rows is None else f"{name} (trial, {max_rows} rows)"


def thin_data(data: BenchmarkData, max_rows: int) -> BenchmarkData:
    """Keep at most ``max_rows`` rows of either part, evenly spaced."""
    train, test = (_space_rows(len(y), max_rows) for y in (data.y_train, data.y_test))
    return replace(
        data,
        name=name_trial(data.name, max_rows),
        X_train=data.X_train[train],
        y_train=data.y_train[train],
        X_test=data.X_test[test],
        y_test=data.y_test[test],
    )


def _space_rows(n_rows: int, max_rows: int) -> Any:
    return np.linspace(0, n_rows - 1, min(n_rows, max_rows)).astype(np.intp)
