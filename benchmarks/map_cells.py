"""The map: KernelSVC beside LIBSVM over a grid of C and gamma, on seven small sets, one thread.

A grid search meets every one of these cells. What a solver says about itself does not count: objective
and violation are computed here in float64 from the coefficients that the model predicts with.
"""

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from benchmarks.dual import (
    BoxProblem,
    measure_infeasibility,
    measure_objective,
    measure_violation,
)
from benchmarks.harness import Record
from benchmarks.settings import CACHE_MEGABYTES, TOL
from benchmarks.timing import select_rows, time_call
from widemargin import KernelSVC
from widemargin.datasets import load as load_source

#: Name -> source, rows and the label of the positive class where there are more than two.
SETS: dict[str, tuple[str, int, Any]] = {
    "covtype": ("covtype", 3000, 2),
    "german": ("german_numer_scale", 1000, None),
    "ijcnn1": ("ijcnn1", 2500, None),
    "splice": ("splice", 1000, None),
    "banana": ("keel_banana", 2500, None),
    "adult": ("a1a", 1605, None),
    "shuttle": ("shuttle", 3000, 1),
}
#: Powers of two.
C_GRID = (-3, 1, 5, 9, 13, 17)
GAMMA_GRID = (-10, -6, -2, 2, 6)
#: A fit that takes less is repeated, and the best counts.
SHORT_SECONDS, REPEATS = 0.5, 3
#: Rows on which the compiled loops are reached before anything is timed, at the corners of the grid.
WARM_UP_ROWS = 400
Array = NDArray[np.float64]


def load_set(name: str, max_rows: int | None = None) -> tuple[Array, Array]:
    """Random rows with features scaled to [0, 1], and labels -1 and +1."""
    source_name, n_rows, positive = SETS[name]
    source = load_source(source_name)
    X = source.X_train.toarray() if issparse(source.X_train) else np.asarray(source.X_train)
    X = X.astype(np.float64)
    largest = np.max(source.y_train) if positive is None else positive
    y = np.where(source.y_train == largest, 1.0, -1.0)
    low, high = X.min(axis=0), X.max(axis=0)
    X = (X - low) / np.where(high > low, high - low, 1.0)
    order = np.random.RandomState(0).permutation(len(y))
    rows = np.sort(order[: min(n_rows, max_rows or n_rows)])
    return X[rows], y[rows]


def measure_cells(
    data: str, max_rows: int | None, cells: list[tuple[int, int]], limit_seconds: float
) -> Iterator[Record]:
    """Yield a record when everything is compiled, then one for each cell (C, gamma as exponents)."""
    X, y = load_set(data, max_rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warm_up(X, y)
        yield {"ready": True}
        for C, gamma in cells:
            yield {"C_log2": C, "gamma_log2": gamma} | measure_cell(X, y, C, gamma, limit_seconds)


def warm_up(X: Array, y: Array) -> None:
    """Fit a few rows at the corners of the grid and all rows once: compilation is not timed."""
    few = select_rows(y, WARM_UP_ROWS)
    for C in (C_GRID[0], C_GRID[-1]):
        for gamma in (GAMMA_GRID[0], -2, GAMMA_GRID[-1]):
            make_ours(C, gamma, 10.0).fit(X[few], y[few])
    make_ours(C_GRID[-2], -2, 10.0).fit(X, y)


def make_ours(C: int, gamma: int, limit_seconds: float) -> KernelSVC:
    return KernelSVC(C=2.0**C, gamma=2.0**gamma, tol=TOL, n_jobs=1, max_time=limit_seconds)


def measure_cell(X: Array, y: Array, C: int, gamma: int, limit_seconds: float) -> Record:
    """Fit both, and judge both by their coefficients."""
    ours = make_ours(C, gamma, limit_seconds)
    peer = SVC(C=2.0**C, gamma=2.0**gamma, tol=TOL, cache_size=CACHE_MEGABYTES)
    K = rbf_kernel(X, gamma=2.0**gamma)
    measured = {
        name: time_fit(lambda model=model: model.fit(X, y)) | judge(model, K, y)
        for name, model in (("peer", peer), ("ours", ours))
    }
    measured["ours"] |= {
        "stop_reason": ours.stop_reason_,
        "claimed_objective": float(ours.objective_),
        "claimed_gap": float(ours.duality_gap_),
        "n_iter": int(np.max(ours.n_iter_)),
    }
    ratio = measured["peer"]["cpu_seconds"] / measured["ours"]["cpu_seconds"]
    return {"n_train": len(y), "n_features": X.shape[1], "ratio": ratio} | measured


def time_fit(fit: Callable[[], Any]) -> Record:
    timing = time_call(fit, REPEATS, SHORT_SECONDS)
    return {"seconds": timing.seconds, "cpu_seconds": timing.cpu_seconds}


def judge(model: Any, K: Array, y: Array) -> Record:
    """Objective, violation and infeasibility in float64 from the coefficients alone."""
    b = np.zeros(len(y))
    b[model.support_] = model.dual_coef_[0]
    bound = np.full(len(y), float(model.C))
    problem = BoxProblem(-y, np.where(y > 0, 0.0, -bound), np.where(y > 0, bound, 0.0))
    product = K @ b
    return {
        "objective": measure_objective(problem, b, product),
        "violation": measure_violation(problem, b, product),
        "infeasibility": measure_infeasibility(problem, b),
        "n_support": len(model.support_),
    }
