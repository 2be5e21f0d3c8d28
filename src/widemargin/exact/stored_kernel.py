"""Kernel matrices of all rows, kept in memory while folds and costs share them.

A search over kernel widths needs the same distances (or scalar products) for every width. They are
computed once; the kernel matrix of a width is one pass over them.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from widemargin.kernels import (
    RBF,
    Chi2,
    ExpChi2,
    Index,
    Kernel,
    Linear,
    Points,
    Poly,
    Precomputed,
    Sigmoid,
)
from widemargin.kernels.base import ExactRows
from widemargin.kernels.tiles_fast import add_stored_rows
from widemargin.parallel import Workers

FloatMatrix = NDArray[np.float32]

#: Rows that are computed at a time, so that they stay in cache.
BLOCK_ROWS = 64
#: Rows of a matrix, a multiple of which is filled at a time, and about how many values.
FILL_ROWS, FILL_VALUES = 1024, 50_000_000
#: Smallest exponent of two of a kernel value; smaller values would be slow to compute with.
LEAST_EXPONENT = -126.0
#: Bytes of an entry of a stored matrix.
ENTRY_BYTES = 4


def least_bytes(n_rows: int) -> int:
    """Bytes of the sums that all kernels share, and of one kernel matrix."""
    return 2 * ENTRY_BYTES * n_rows**2


class StoredPoints(Points):
    """Rows of a stored kernel matrix (``values``) and its diagonal (``norms``)."""

    @property
    def entries_per_row(self) -> float:
        """Zero: a kernel value costs nothing to compute, so that solvers keep no copies of it."""
        return 0.0


@dataclass(frozen=True)
class StoredKernel(Kernel):
    """A kernel whose values among all rows are read from `StoredPoints`.

    ``source`` is the kernel itself, which computes values in float64 where these are needed.
    """

    source: Kernel
    name = "stored"

    def params(self) -> dict[str, float]:
        return self.source.params()

    def prepare(self, X: Any, like: Points | None = None) -> Points:
        raise TypeError("a stored kernel matrix has no other rows than its own")

    def diag(self, points: Points) -> NDArray[np.float64]:
        return np.asarray(points.norms, np.float64)

    def block(
        self, a: Points, rows: Index, b: Points, cols: Index, out: FloatMatrix, workers: Workers
    ) -> None:
        Precomputed().block(a, rows, b, cols, out, workers)

    def accumulate(
        self, a: Points, rows: Index, b: Points, cols: Index, coef: NDArray[np.float64],
        out: NDArray[np.float64], workers: Workers,
    ) -> None:  # fmt: skip
        if coef.shape[1] > 1 or len(rows) < len(cols):
            Precomputed().accumulate(a, rows, b, cols, coef, out, workers)
            return
        # The matrix is symmetric: few long rows are read several times faster than many short ones.
        factors, total = coef.ravel(), out.ravel()
        workers.run(
            len(rows),
            lambda i, j: add_stored_rows(a.values, cols, factors, rows[i:j], total[i:j]),
            grain=2048,
        )
        out[:, 0] = total

    def exact(self, X: Any, Z: Any) -> NDArray[np.float64]:
        return self.source.exact(X, Z)

    def hold_exactly(self, X: Any) -> ExactRows:
        return self.source.hold_exactly(X)


@dataclass(frozen=True)
class Rows:
    """All rows of a problem as a solver reads them, with one kernel."""

    kernel: Kernel
    X: Any
    points: Points


class KernelSeries:
    """The kernel matrices of several kernels that differ in gamma alone.

    Parameters
    ----------
    kernels : list of Kernel
        The kernels.
    X : ndarray or csr_matrix of shape (n, n_features)
        The rows; the kernel matrix if it is precomputed.
    max_bytes : int
        Bytes for stored matrices.
    n_wanted : int
        Kernel matrices that are in use at a time, at most.
    workers : Workers
        Threads.

    Attributes
    ----------
    n_stored : int
        Kernel matrices that memory allows at a time, besides what all kernels share. If that is zero,
        solvers compute kernel values when they need them.
    """

    def __init__(
        self, kernels: list[Kernel], X: Any, max_bytes: int, n_wanted: int, workers: Workers
    ) -> None:
        self.kernels, self.X = kernels, X
        self._is_given = isinstance(kernels[0], Precomputed)
        n_fit = 0 if self._is_given else max_bytes // (ENTRY_BYTES * X.shape[0] ** 2)
        self._common = None
        if n_fit > 1 and len(kernels) > 1:
            self._common = _compute_common(kernels, X, workers)
        self.n_stored = min(n_wanted, n_fit - (self._common is not None))

    def rows(self, number: int, workers: Workers) -> Rows:
        """All rows with the kernel of this number."""
        kernel = self.kernels[number]
        if self._is_given:
            matrix = np.ascontiguousarray(self.X)
            return Rows(kernel, self.X, StoredPoints(matrix, np.zeros(len(matrix))))
        if self.n_stored == 0:
            return Rows(kernel, self.X, kernel.prepare(self.X))
        if self._common is not None:
            matrix, diag = self._common.finish(kernel, workers)
        else:
            points = kernel.prepare(self.X)
            matrix, diag = _fill(kernel, points, workers), kernel.diag(points)
        np.fill_diagonal(matrix, diag)
        return Rows(StoredKernel(kernel), self.X, StoredPoints(matrix, diag))


@dataclass(frozen=True)
class _Common:
    """What the kernels share: for every pair of rows a sum that does not depend on gamma.

    Attributes
    ----------
    sums : ndarray of shape (n, n)
        Logarithms (base 2) of the kernel with ``gamma``, or scalar products.
    diag : ndarray of shape (n,)
        Diagonal of ``sums`` in float64.
    gamma : float
        Gamma of the logarithms; 1 for scalar products.
    """

    sums: FloatMatrix
    diag: NDArray[np.float64]
    gamma: float

    def finish(self, kernel: Any, workers: Workers) -> tuple[FloatMatrix, NDArray[np.float64]]:
        """The matrix of a kernel, and its diagonal."""
        factor = np.float32(kernel.gamma / self.gamma)
        matrix = np.empty_like(self.sums)

        def fill(first: int, last: int) -> None:
            for at in range(first, last, BLOCK_ROWS):
                workers.require_success()
                part = slice(at, min(at + BLOCK_ROWS, last))
                np.multiply(self.sums[part], factor, out=matrix[part])
                _finish(kernel, matrix[part])

        workers.run(len(matrix), fill, grain=BLOCK_ROWS)
        diag = self.diag * float(factor)
        _finish(kernel, diag)
        return matrix, diag


def _finish(kernel: Any, values: NDArray[Any]) -> None:
    """Turn sums that were multiplied by gamma into kernel values, in place."""
    if isinstance(kernel, Poly):
        values += values.dtype.type(kernel.coef0)
        np.power(values, int(kernel.degree), out=values)
    elif isinstance(kernel, Sigmoid):
        values += values.dtype.type(kernel.coef0)
        np.tanh(values, out=values)
    else:
        np.maximum(values, values.dtype.type(LEAST_EXPONENT), out=values)
        # numpy's exp is vectorised for float32, its exp2 is not.
        values *= values.dtype.type(np.log(2.0))
        np.exp(values, out=values)


def _compute_common(kernels: list[Kernel], X: Any, workers: Workers) -> _Common | None:
    """The sums that the kernels share; None if they must be computed for every kernel.

    Sums of exponentials are computed for the narrowest kernel, so that their precision suffices for
    all. Where sparse rows need float64, or rows must be compared feature by feature, they are not
    shared.
    """
    first: Any = kernels[0]
    if isinstance(first, Poly | Sigmoid):
        points = Linear().prepare(X)
        return _Common(_fill(Linear(), points, workers), Linear().diag(points), 1.0)
    if not isinstance(first, RBF | ExpChi2):
        return None
    narrowest: Any = max(kernels, key=lambda kernel: kernel.gamma)  # type: ignore[attr-defined]
    points = narrowest.prepare(X)
    is_dense = not (sparse.issparse(X) or points.by_difference)
    if isinstance(first, RBF) and is_dense and points.norms.dtype != np.float32:
        points = _center_rows(narrowest, X)
    is_sparse = sparse.issparse(points.values)
    if points.by_difference or (is_sparse and points.norms.dtype != np.float32):
        return None
    if is_sparse:
        sums = _fill(Linear() if isinstance(first, RBF) else Chi2(), points, workers)
        _subtract_norms(sums, points.norms, workers)
    else:
        sums = _multiply_rows(points, workers)
    np.fill_diagonal(sums, 0.0)
    return _Common(sums, np.zeros(len(points)), narrowest.gamma)


def _center_rows(kernel: RBF, X: NDArray[Any]) -> Points:
    """Dense points in float64, also where most values are zero."""
    values = kernel.transform(X - X.mean(axis=0, dtype=np.float64))
    return Points(values, 0.5 * np.einsum("ij,ij->i", values, values))


def _fill(kernel: Kernel, points: Points, workers: Workers) -> FloatMatrix:
    """The kernel matrix of all points."""
    everyone = np.arange(len(points))
    out = np.empty((len(points), len(points)), np.float32)
    # In parts, between which the workers look whether they are still needed.
    step = FILL_ROWS * max(1, FILL_VALUES // (FILL_ROWS * len(points)))
    for at in range(0, len(points), step):
        rows = everyone[at : at + step]
        kernel.block(points, rows, points, everyone, out[at : at + step], workers)
    return out


def _subtract_norms(sums: FloatMatrix, norms: NDArray[Any], workers: Workers) -> None:
    def subtract(first: int, last: int) -> None:
        for row in range(first, last):
            sums[row] -= norms
            sums[row] -= norms[row]
            np.minimum(sums[row], 0.0, out=sums[row])

    workers.run(len(sums), subtract, grain=BLOCK_ROWS)


def _multiply_rows(points: Points, workers: Workers) -> FloatMatrix:
    """Logarithms of a radial kernel of dense points, computed in the precision of the points."""
    values, norms = points.values, points.norms
    out = np.empty((len(points), len(points)), np.float32)

    def multiply(first: int, last: int) -> None:
        for at in range(first, last, BLOCK_ROWS):
            workers.require_success()
            part = slice(at, min(at + BLOCK_ROWS, last))
            block = values[part] @ values.T
            block -= norms
            block -= norms[part, None]
            np.minimum(block, 0.0, out=out[part], casting="same_kind")

    workers.run(len(points), multiply, grain=BLOCK_ROWS)
    return out
