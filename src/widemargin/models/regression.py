"""Prediction by regression on explanatory variables, such as a kernel's values at anchors."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from widemargin.kernels import Kernel, is_small
from widemargin.parallel import open_workers, single_blas

#: Directions of a kernel matrix whose eigenvalue is below this share of the largest are left out:
#: there, errors of kernel values in float64 and in float32 outweigh the values.
MIN_EIGENVALUE, MIN_EIGENVALUE_FLOAT32 = 1e-12, 1e-8
#: Rows whose explanatory variables are held at a time when predicting.
DECIDE_ROWS = 8192


@dataclass(frozen=True)
class RegressionModel:
    """Decision values ``coef @ e(x)``.

    Attributes
    ----------
    kernel : Kernel
        The kernel.
    anchors : ndarray or csr_matrix of shape (n_anchors, n_features)
        The anchors.
    explanatory : callable or None
        Gives e for the rows of a matrix; None for the kernel's values at the anchors.
    coef : ndarray of shape (n_functions, n_explanatory)
        Coefficients.
    """

    kernel: Kernel
    anchors: Any
    explanatory: Callable[[Any], Any] | None
    coef: NDArray[np.float64]

    def decide(self, X: Any, n_jobs: int | None) -> NDArray[np.float64]:
        """Decision values, shape (n, n_functions)."""
        out = np.empty((X.shape[0], len(self.coef)))
        for start in range(0, X.shape[0], DECIDE_ROWS):
            part = X[start : start + DECIDE_ROWS]
            numbers = (
                self.similarities(part, n_jobs) if self.explanatory is None else self.explain(part)
            )
            out[start : start + DECIDE_ROWS] = numbers @ self.coef.T
        return out

    @property
    def is_exact(self) -> bool:
        """Whether kernel values are computed in float64: where anchors are few."""
        return is_small(*self.anchors.shape)

    def similarities(self, X: Any, n_jobs: int | None) -> NDArray[np.float64]:
        """Kernel between rows and anchors."""
        if self.is_exact:
            return self.kernel.exact(X, self.anchors)
        points = self.kernel.prepare(self.anchors)
        queries = self.kernel.prepare(X, like=points)
        out = np.empty((len(queries), len(points)), np.float32)
        with open_workers(n_jobs) as workers:
            self.kernel.block(
                queries, np.arange(len(queries)), points, np.arange(len(points)), out, workers
            )
        return out.astype(np.float64)

    def explain(self, X: Any) -> NDArray[np.float64]:
        """Explanatory variables of some rows."""
        assert self.explanatory is not None
        values = np.asarray(self.explanatory(X), np.float64)
        if values.ndim != 2 or len(values) != X.shape[0] or not np.isfinite(values).all():
            raise ValueError(
                f"explanatory: must return finite numbers of shape ({X.shape[0]}, m), got shape "
                f"{values.shape}"
            )
        return np.ascontiguousarray(values)


def find_inverse_root(K: NDArray[np.float64], *, is_float32: bool) -> NDArray[np.float64]:
    """Matrix R with ``R R' = pinv(K)``, small eigenvalues of K taken for zero.

    ``is_float32`` says that kernel values it will be multiplied with have the digits of float32.
    """
    # Threads wait for each other most of the time here, and far longer if the cores are busy.
    with single_blas:
        values, vectors = np.linalg.eigh(0.5 * (K + K.T))
    floor = MIN_EIGENVALUE_FLOAT32 if is_float32 else MIN_EIGENVALUE
    kept = values > floor * max(float(values[-1]), 1e-300)
    return np.asarray(vectors[:, kept] / np.sqrt(values[kept]))
