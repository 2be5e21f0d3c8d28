"""Data sets beside those on which the thresholds of early prediction were chosen.

Two rules came from shuttle and kin40k afterwards, so these two are no independent check.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.preprocessing import StandardScaler

from benchmarks.records import BenchmarkData
from widemargin.datasets import load

#: Test rows of sets without a test set, and rows of sets that are enlarged by noise.
TEST_ROWS, ENLARGED_ROWS = 8000, 40_000


def load_unseen(name: str) -> BenchmarkData:
    """Load a set by its name in `UNSEEN`."""
    return UNSEEN[name](name)


def _load_shuttle(name: str) -> BenchmarkData:
    source = load("shuttle")
    scaler = StandardScaler().fit(source.X_train)
    rows = scaler.transform(source.X_train), source.y_train
    tested = scaler.transform(source.X_test), source.y_test
    return BenchmarkData(name, *rows, *tested, {"C": 32.0, "gamma": 1.0})


def _load_a9a(name: str) -> BenchmarkData:
    source = load("a9a")
    params = {"C": 8.0, "gamma": 1 / 32}
    return BenchmarkData(name, source.X_train, source.y_train, source.X_test, source.y_test, params)


def _load_w8a(name: str) -> BenchmarkData:
    source = load("w8a_train")
    return _hold_out(name, source.X_train, source.y_train, {"C": 8.0, "gamma": 0.05})


def _enlarge(
    source_name: str, noise: float, params: dict[str, Any]
) -> Callable[[str], BenchmarkData]:
    """Return what draws the rows of a small set again and again, with noise."""

    def load_enlarged(name: str) -> BenchmarkData:
        source, rng = load(source_name), np.random.default_rng(0)
        stored = source.X_train
        X = StandardScaler().fit_transform(stored.toarray() if sparse.issparse(stored) else stored)
        rows = rng.integers(len(X), size=ENLARGED_ROWS)
        noisy = X[rows] + noise * rng.normal(size=(ENLARGED_ROWS, X.shape[1]))
        return _hold_out(name, noisy, source.y_train[rows], params)

    return load_enlarged


def _halve_target(source_name: str, params: dict[str, Any]) -> Callable[[str], BenchmarkData]:
    """Return what makes two classes of a set for regression: below and above the median."""

    def load_halves(name: str) -> BenchmarkData:
        source = load(source_name)
        X = StandardScaler().fit_transform(source.X_train)
        return _hold_out(name, X, np.int64(source.y_train > np.median(source.y_train)), params)

    return load_halves


def _hold_out(name: str, X: Any, y: NDArray[Any], params: dict[str, Any]) -> BenchmarkData:
    order = np.random.default_rng(0).permutation(len(y))
    test, train = order[:TEST_ROWS], order[TEST_ROWS:]
    return BenchmarkData(name, X[train], y[train], X[test], y[test], params)


#: How each set is loaded.
UNSEEN: dict[str, Callable[[str], BenchmarkData]] = {
    "shuttle": _load_shuttle,
    "a9a": _load_a9a,
    "w8a": _load_w8a,
    "segment": _enlarge("segment", 0.3, {"C": 8.0, "gamma": 0.2}),
    "vowel": _enlarge("keel_vowel", 0.4, {"C": 8.0, "gamma": 0.3}),
    "dna": _enlarge("dna", 0.6, {"C": 8.0, "gamma": 0.004}),
    "protein": _halve_target("reg_protein", {"C": 8.0, "gamma": 1.0}),
    "kin40k": _halve_target("reg_kin40k", {"C": 8.0, "gamma": 0.1}),
}
