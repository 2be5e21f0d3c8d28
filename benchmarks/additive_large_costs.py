"""Additive kernels at a large C: what a fit takes beyond the default."""

import warnings
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import AdditiveChi2Sampler
from sklearn.svm import LinearSVC

from benchmarks.additive_models import REPEATS, SHORT, Parts
from benchmarks.experiments import Row
from benchmarks.timing import time_call
from widemargin import AdditiveSVC, IntersectionSVC
from widemargin.datasets import load

#: C in units of the default.
FACTORS = (1, 10, 100)
N_ROWS = 20_000
SETS = ("mnist", "shuttle", "ijcnn1", "a9a", "w8a_train", "covtype", "reuters_moneyfx", "dna")


def run_large_costs() -> Iterator[Row]:
    """One, ten and a hundred times the default C: processor seconds, passes and how a fit ended.

    At most 20,000 rows, tol = 0.1, max_iter = 1000, one thread; of fits that take less than a second
    the best of three. `AdditiveSVC` where features are not negative. The peer for it is the primal
    solver of LIBLINEAR on the features of `AdditiveChi2Sampler` with the same C, whose time of the
    map counts, and which ends when its gradient is small, not at the same accuracy.
    """
    for name in SETS:
        parts = _draw(name)
        kinds: tuple[Any, ...] = (AdditiveSVC, IntersectionSVC)
        for kind in kinds[_has_negative(parts[0]) :]:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                yield from _fit_all(name, kind, parts)


def _fit_all(name: str, kind: Any, parts: Parts) -> Iterator[Row]:
    X, y, Z, z = parts
    default = kind(n_jobs=1).fit(X, y).C_
    for fit_intercept, factor in product(("free", True, False), FACTORS):
        model = kind(C=factor * default, fit_intercept=fit_intercept, n_jobs=1)
        # Compiles, or loads what was compiled.
        model.set_params(max_iter=1).fit(X, y)
        fit = time_call(lambda m=model: m.set_params(max_iter=1000).fit(X, y), REPEATS, SHORT)
        yield {
            "data": name, "model": kind.__name__, "intercept": str(fit_intercept),
            "C / default": factor, "seconds": fit.cpu_seconds, "passes": int(np.max(model.n_iter_)),
            "violation": float(model.violation_), "end": model.stop_reason_,
            "accuracy (%)": 100.0 * model.score(Z, z),
        }  # fmt: skip
    for factor in FACTORS if kind is AdditiveSVC else ():
        peer = LinearSVC(C=factor * default, dual=False, tol=0.1, random_state=0)
        sampler = AdditiveChi2Sampler()
        fit = time_call(lambda s=sampler, p=peer: p.fit(s.fit_transform(X), y), REPEATS, SHORT)
        yield {
            "data": name, "model": "sampler + LIBLINEAR, primal", "intercept": "True",
            "C / default": factor, "seconds": fit.cpu_seconds, "passes": int(np.max(peer.n_iter_)),
            "accuracy (%)": 100.0 * peer.score(sampler.transform(Z), z),
        }  # fmt: skip


def _draw(name: str) -> Parts:
    source = load(name)
    X, Z = (_as_numbers(part) for part in (source.X_train, source.X_test))
    y, z = source.y_train, source.y_test
    if name == "covtype":
        y, z = np.where(y == 2, 1, -1), np.where(z == 2, 1, -1)
    if name == "mnist":
        X, Z = X / 255.0, Z / 255.0
    rows = np.random.default_rng(0).permutation(len(y))[:N_ROWS]
    return X[rows], y[rows], Z, z


def _as_numbers(X: Any) -> Any:
    return (X if sparse.issparse(X) else X.reshape(len(X), -1)).astype(np.float64)


def _has_negative(X: Any) -> bool:
    return bool(X.min() < 0)
