"""Kernel values between all rows and the basis vectors, held in memory or computed when needed."""

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dtrsm

from widemargin.deadline import is_late, require_time
from widemargin.kernels import Index, Kernel
from widemargin.kernels.base import ExactRows, as_dense
from widemargin.parallel import Workers

FloatArray = NDArray[np.float64]

ALONE, EVERY = Workers(1, None), slice(None)

#: Number of feature values in the data up to which kernel values of the basis are exact float64.
EXACT_COLUMNS = 2**22
#: Bytes of a kernel value of the basis.
VALUE_BYTES = 8
#: Number of kernel values that are copied at a time.
COPIED_VALUES = 2**17
#: Number of kernel values between two checks of the deadline: some hundredths of a second.
PIECE_VALUES = 2**22


class KernelRows:
    """The training rows, prepared for computing kernel values.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    X : ndarray or csr_matrix of shape (n, n_features)
        The training rows.
    workers : Workers
        Threads.

    Attributes
    ----------
    deadline : float or None
        Time, by `time.perf_counter`, after which long computations on these rows raise
        `OutOfTimeError`; they check it between pieces of work. None at first.
    """

    def __init__(self, kernel: Kernel, X: Any, workers: Workers) -> None:
        self.kernel = kernel
        self.X = X
        self.workers = workers
        self.deadline: float | None = None
        self.is_exact = X.shape[0] * X.shape[1] <= EXACT_COLUMNS
        self.points = kernel.prepare(X)
        self._exact: ExactRows | None = None

    def __len__(self) -> int:
        return len(self.points)

    @property
    def copy_bytes(self) -> int:
        """Bytes of the copy that `hold_copy` makes."""
        return VALUE_BYTES * self.X.shape[0] * self.X.shape[1] if self.is_exact else 0

    def hold_copy(self) -> None:
        """Keep a copy of the rows from which exact values are computed fastest."""
        if self.is_exact:
            self._exact = self.kernel.hold_exactly(self.X)

    def is_late(self) -> bool:
        """Whether the deadline has passed."""
        return is_late(self.deadline)

    def require_time(self) -> None:
        """Raise `OutOfTimeError` if the deadline has passed."""
        require_time(self.deadline)

    @cached_property
    def diag(self) -> FloatArray:
        """Kernel value of every row with itself."""
        return self.kernel.diag(self.points)

    def column(self, row: int) -> FloatArray:
        """Return the kernel values between all rows and one of them."""
        if self._exact is not None:
            return self._exact.column(row)
        step = max(1, COPIED_VALUES // self.X.shape[1]) if self.is_exact else PIECE_VALUES
        out, columns = np.empty(len(self)), np.array([row])
        for start in range(0, len(self), step):
            self.require_time()
            rows = np.arange(start, min(start + step, len(self)))
            out[rows] = self.values(rows, columns, self.workers)[:, 0]
        return out

    def values(self, rows: Index, columns: Index, workers: Workers) -> FloatArray:
        """Return kernel values between two sets of rows, as exact as those of `column`."""
        if self.is_exact:
            return self.kernel.exact(self.X[rows], self.X[columns])
        return np.asarray(self.block(columns, workers, rows), np.float64)

    def between(
        self, kernel: Kernel, rows: Index | slice, vectors: FloatArray, workers: Workers
    ) -> FloatArray:
        """Return values of a kernel between rows and vectors that need not be rows."""
        if self._exact is not None and kernel == self.kernel:
            return self._exact.between(rows, vectors)
        if self.is_exact:
            return kernel.exact(self.X[rows], vectors)
        others = self.kernel.prepare(vectors, like=self.points)
        rows = np.arange(len(self))[rows]
        out = np.empty((len(rows), len(others)), np.float32)
        kernel.block(self.points, rows, others, np.arange(len(others)), out, workers)
        return out.astype(np.float64)

    def block(self, columns: Index, workers: Workers, rows: Index | None = None) -> Any:
        """Return kernel values in float32 between rows (default: all) and the rows ``columns``."""
        rows = np.arange(len(self)) if rows is None else rows
        out = np.empty((len(rows), len(columns)), np.float32)
        self.kernel.block(self.points, rows, self.points, columns, out, workers)
        return out


class Columns:
    """Kernel values between all rows and the basis vectors, and the penalty matrix.

    Each column is centred: its mean over all rows is subtracted, and the intercept makes up for it.
    The values are held in memory, or computed each time they are needed.

    Parameters
    ----------
    data : KernelRows
        The rows.
    is_ridge : bool, default=False
        Whether the penalty is ``w'w + b^2``, as in RSVM, and not ``w' K_B w``. The columns are then
        not centred.
    n_expected : int, default=8
        Number of basis vectors to allocate memory for.
    is_held : bool, default=True
        Whether to hold the values in memory.
    """

    def __init__(
        self,
        data: KernelRows,
        *,
        is_ridge: bool = False,
        n_expected: int = 8,
        is_held: bool = True,
    ) -> None:
        self.data = data
        self.is_ridge = is_ridge
        self.rows: list[int] = []
        self._means: list[float] = []
        self._held = np.empty((len(data), n_expected), order="F") if is_held else None
        # The penalty matrix, and the Cholesky factor of K_B.
        self._penalty: FloatArray | None = None
        self._root: FloatArray | None = None
        # The basis vectors, once they have moved.
        self._moved: FloatArray | None = None

    @property
    def means(self) -> FloatArray:
        """Mean that was subtracted from each column; zero with ``is_ridge``."""
        return np.array(self._means)

    def values(
        self, rows: Index | slice, places: Index | slice = EVERY, workers: Workers = ALONE
    ) -> FloatArray:
        """Return centred kernel values between rows and the basis, or some places in it."""
        if self._held is not None:
            held = self._held[:, : len(self.rows)]
            if isinstance(rows, slice) or isinstance(places, slice):
                return held[rows, places]
            return held[np.ix_(rows, places)]
        if self._moved is not None:
            vectors = self._moved[places]
            return self.data.between(self.data.kernel, rows, vectors, workers) - self.means[places]
        if isinstance(rows, slice):
            rows = np.arange(len(self.data))[rows]
        basis = np.array(self.rows, np.intp)[places]
        return self.data.values(rows, basis, workers) - self.means[places]

    def basis_vectors(self) -> FloatArray:
        """The basis vectors."""
        return as_dense(self.data.X[self.rows]) if self._moved is None else self._moved

    def move(self, vectors: FloatArray) -> None:
        """Replace all basis vectors by as many others, which need not be rows.

        Afterwards no vector can be added, exchanged or removed.
        """
        data, size = self.data, len(self.rows)
        self._moved = vectors
        sums = np.zeros(size)
        for part in self.split(len(data)):
            data.require_time()
            K = data.between(data.kernel, part, vectors, data.workers)
            sums += K.sum(axis=0)
            if self._held is not None:
                self._held[part, :size] = K
        self._means = list(sums / len(data))
        if self._held is not None:
            self._held[:, :size] -= self.means
        self._penalty, self._root = np.zeros((size + 1, size + 1)), None
        self._penalty[1:, 1:] = data.kernel.exact(vectors, vectors)

    def slopes(self, slope: Kernel, rows: Index) -> FloatArray:
        """Return values of the kernel ``slope`` between rows and the basis, not centred."""
        workers = self.data.workers
        if slope == self.data.kernel:
            return self.values(rows, EVERY, workers) + self.means
        return self.data.between(slope, rows, self.basis_vectors(), workers)

    def split(self, n_rows: int) -> Iterator[slice]:
        """Yield slices of ``n_rows`` rows whose kernel values are computed together.

        Their values take about as much memory as the penalty matrix, or little if that is small.
        """
        size = len(self.rows) + 1
        step = max(size, COPIED_VALUES // size)
        return (slice(start, start + step) for start in range(0, n_rows, step))

    def column(self, at: int) -> FloatArray:
        """Return centred kernel values between all rows and one basis vector."""
        if self._held is not None:
            return self._held[:, at].copy()
        return self.data.column(self.rows[at]) - self._means[at]

    def multiply(self, coef: FloatArray) -> FloatArray:
        """Return the centred kernel values of all rows times the coefficients."""
        n = len(self.data)
        if self._held is not None:
            return np.asarray(self._held[:, : len(self.rows)] @ coef)
        out = np.empty(n)
        for part in self.split(n):
            self.data.require_time()
            out[part] = self.values(part, EVERY, self.data.workers) @ coef
        return out

    def kernel_at(self, rows: Index | list[int]) -> FloatArray:
        """Return kernel values between rows and the basis, not centred."""
        return self.values(np.asarray(rows, np.intp)) + self.means

    @property
    def noise(self) -> float:
        """Relative rounding error of kernel values in excess of float64."""
        return 0.0 if self.data.is_exact else float(np.finfo(np.float32).eps)

    @property
    def penalty(self) -> FloatArray:
        """Penalty matrix of intercept and coefficients: K_B bordered by zeros, or the identity."""
        if self._penalty is None:
            size = len(self.rows) + 1
            self._penalty = np.eye(size) if self.is_ridge else np.zeros((size, size))
            if not self.is_ridge:
                K = self.kernel_at(self.rows)
                self._penalty[1:, 1:] = 0.5 * (K + K.T)
        return self._penalty

    def distance(self, row: int, column: FloatArray, leaving: int | None = None) -> float:
        """Return the squared distance of a row from the span of the basis in feature space.

        This is ``k(x, x) - k_B' inv(K_B) k_B``, the difference of both sides of PSVM Eq. 48 with K_B
        in place of H: both are positive for the same rows. ``leaving`` is the place of a basis vector
        to leave out.
        """
        rows, root = np.array(self.rows, np.intp), self._root
        if leaving is not None:
            kept = np.delete(np.arange(len(rows)), leaving)
            rows, root = rows[kept], find_root(self.penalty[np.ix_(kept + 1, kept + 1)])
        elif root is None:
            root = self._root = find_root(self.penalty[1:, 1:])
        half = solve_lower(root, column[rows, None])
        return float(column[row] - np.vdot(half, half))

    def restore(self, rows: list[int]) -> None:
        """Return to an earlier basis."""
        self.rows, self._means = [], []
        self._penalty = self._root = None
        for row in rows:
            self.append(row, self.data.column(row))

    def append(self, row: int, column: FloatArray) -> None:
        """Add a basis vector."""
        size = len(self.rows)
        if self._held is not None and size == self._held.shape[1]:
            grown = np.empty((len(self._held), 2 * size), order="F")
            grown[:, :size] = self._held
            self._held = grown
        penalty, root = self._penalty, self._root
        if root is not None:
            half = solve_lower(root, column[self.rows, None])[:, 0]
            root = border(root, half, np.sqrt(column[row] - half @ half))
            root[:-1, -1] = 0.0
        self.rows.append(row)
        self._means.append(0.0)
        self.replace(size, row, column)
        if penalty is not None and not self.is_ridge:
            line = column[self.rows]
            self._penalty = border(penalty, np.append(0.0, line[:-1]), line[-1])
            self._root = root

    def replace(self, at: int, row: int, column: FloatArray) -> None:
        """Replace the basis vector at a place by a row."""
        self._means[at] = 0.0 if self.is_ridge else float(column.mean())
        if self._held is not None:
            self._held[:, at] = column - self._means[at]
        self.rows[at] = row
        self._penalty = self._root = None

    def remove(self, at: int) -> None:
        """Remove the basis vector at a place."""
        size = len(self.rows)
        if self._held is not None:
            self._held[:, at : size - 1] = self._held[:, at + 1 : size]
        del self.rows[at], self._means[at]
        self._penalty = self._root = None


def find_root(K: FloatArray) -> FloatArray:
    """Return the Cholesky factor L with ``L L' = K``, for a matrix K made of kernel values."""
    try:
        return np.asarray(np.linalg.cholesky(K), np.float64)
    except np.linalg.LinAlgError as error:
        raise ValueError(
            f"kernel: the matrix of the basis vectors is not positive definite (size {len(K)}); "
            "k(x, y) must be symmetric and positive semidefinite: check the formula of a callable, "
            "scale the features, or use another kernel"
        ) from error


def border(matrix: FloatArray, line: FloatArray, corner: float) -> FloatArray:
    """Return a symmetric matrix extended by one row and column."""
    size = len(matrix)
    out = np.empty((size + 1, size + 1))
    out[:size, :size] = matrix
    out[size, :size] = out[:size, size] = line
    out[size, size] = corner
    return out


def solve_lower(factor: FloatArray, right: FloatArray, *, transposed: bool = False) -> FloatArray:
    """Solve ``L X = right``, or ``L' X = right``, for a lower triangle L."""
    # BLAS expects column order, so it solves the transposed system X' L' = right' or X' L = right'.
    return np.asarray(dtrsm(1.0, factor.T, right.T, side=1, trans_a=transposed).T)
