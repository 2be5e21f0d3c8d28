"""Prediction by a regression on explanatory variables, such as kernel values at anchors."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from widemargin.exact.expansion import Prepared
from widemargin.kernels import Kernel, is_small
from widemargin.kernels.custom import as_numbers, call_given
from widemargin.parallel import Workers, open_workers, single_blas

#: Directions of a kernel matrix whose eigenvalue is below this share of the largest are left out:
#: there, errors of kernel values in float64 and in float32 outweigh the values.
MIN_EIGENVALUE, MIN_EIGENVALUE_FLOAT32 = 1e-12, 1e-8
#: Number of rows whose explanatory variables are computed at a time in predictions.
DECIDE_ROWS = 8192


@dataclass(frozen=True)
class KernelValues(Prepared):
    """Kernel values between rows and some vectors.

    Attributes
    ----------
    kernel : Kernel
        The kernel.
    vectors : ndarray or csr_matrix of shape (width, n_features)
        The vectors.
    """

    kernel: Kernel
    vectors: Any

    @property
    def width(self) -> int:
        """Number of vectors."""
        return int(self.vectors.shape[0])

    @property
    def is_exact(self) -> bool:
        """Whether values are computed in float64, as for few vectors, and not in float32."""
        return is_small(*self.vectors.shape)

    def compute(self, X: Any, workers: Workers) -> NDArray[Any]:
        """Compute the kernel between the rows of ``X`` and the vectors."""
        if self.is_exact:
            return self.kernel.exact(X, self.vectors)
        queries = self.kernel.prepare(X, like=self._points)
        values = np.empty((len(queries), self.width), np.float32)
        self.kernel.block(
            queries, np.arange(len(queries)), self._points, np.arange(self.width), values, workers
        )
        return values


@dataclass(frozen=True)
class RegressionModel:
    """Model with the decision values ``coef @ e(x)``.

    Attributes
    ----------
    kernel : Kernel
        The kernel.
    anchors : ndarray or csr_matrix of shape (n_anchors, n_features)
        The anchors.
    explanatory : callable or None
        Returns e for the rows of a matrix; None if e are the kernel values at the anchors.
    coef : ndarray of shape (n_functions, n_explanatory)
        Coefficients.
    """

    kernel: Kernel
    anchors: Any
    explanatory: Callable[[Any], Any] | None
    coef: NDArray[np.float64]

    @cached_property
    def _values(self) -> KernelValues:
        return KernelValues(self.kernel, self.anchors)

    def decide(self, X: Any, n_jobs: int | None) -> NDArray[np.float64]:
        """Compute decision values, shape (n, n_functions)."""
        function = self.explanatory
        if function is not None:
            return self._multiply(X, lambda part: explain_rows(function, part))
        with open_workers(n_jobs) as workers:
            return self._multiply(X, lambda part: self._values.compute(part, workers))

    def _multiply(self, X: Any, explain: Callable[[Any], NDArray[Any]]) -> NDArray[np.float64]:
        out = np.empty((X.shape[0], len(self.coef)))
        for start in range(0, X.shape[0], DECIDE_ROWS):
            rows = slice(start, start + DECIDE_ROWS)
            out[rows] = explain(X[rows]) @ self.coef.T
        return out


def explain_rows(explanatory: Callable[[Any], Any], X: Any) -> NDArray[np.float64]:
    """Compute and check the explanatory variables of some rows."""
    given = call_given("explanatory", explanatory, X)
    given = given.toarray() if sparse.issparse(given) else given
    values = as_numbers("explanatory", given, f"shape ({X.shape[0]}, m)")
    if values.ndim != 2 or len(values) != X.shape[0] or not np.isfinite(values).all():
        raise ValueError(
            f"explanatory: for {X.shape[0]} rows the function returned shape {values.shape}"
            f"{'' if np.isfinite(values).all() else ' with NaN or infinity'}; return "
            f"finite numbers of shape ({X.shape[0]}, m)"
        )
    return np.ascontiguousarray(values)


def find_inverse_root(K: NDArray[Any], *, is_float32: bool) -> NDArray[np.float64]:
    """Return a matrix R with ``R R' = pinv(K)``, where small eigenvalues of K count as zero.

    ``is_float32`` says that R will be multiplied with kernel values of float32 precision.
    """
    # Several BLAS threads would spend most of the time waiting for each other.
    with single_blas():
        values, vectors = np.linalg.eigh(0.5 * np.add(K, K.T, dtype=np.float64))
    floor = MIN_EIGENVALUE_FLOAT32 if is_float32 else MIN_EIGENVALUE
    kept = values > floor * max(float(values[-1]), 1e-300)
    return np.asarray(vectors[:, kept] / np.sqrt(values[kept]))
