"""Sparse machines: SVMs on a few basis vectors that change (PSVM).

A machine minimises ``J(w, b) = w' K_B w + sum_k c_k max(0, e_k)^2`` with the errors
``e_k = 1 - y_k (K(x_k, X_B) w + b)`` (Eq. 9 of Peng, Rafferty and Ferguson). Rows with positive
errors are its support vectors. For a fixed set of these J is quadratic, with the Hessian (halved)

    M = [sum c,  c' K_S; K_S' c,  K_B + K_S' diag(c) K_S],

the paper's H of Eq. 15 bordered by the bias, so that its l and q (Eq. 28) need no formulas of their
own. In the columns K_S each is less its mean over all rows, for which the bias makes up: kernels with
an offset, such as the linear one of features far from zero, would leave few digits otherwise.

M follows every row that enters or leaves the support set and every change of the basis; it is
factorised anew each time, which for a hundred basis vectors takes less than one look at the errors,
and carries no rounding errors along as a recursive inverse does.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dtrsm
from scipy.linalg.lapack import dgetrf, dgetrs

from widemargin.kernels import Index, Kernel
from widemargin.kernels.base import as_dense
from widemargin.parallel import Workers

FloatArray = NDArray[np.float64]

ALONE, EVERY = Workers(1, None), slice(None)

#: Feature values of the data up to which columns of basis vectors are computed in float64.
EXACT_COLUMNS = 2**22
#: Bytes of a kernel value of the basis.
VALUE_BYTES = 8
#: Kernel values that are copied at a time.
COPIED_VALUES = 2**17
#: Rounds of Newton's method for one basis; a few are the rule.
MAX_ROUNDS = 100
#: Largest gradient, as a share of its terms, that counts as zero.
GRADIENT_TOL = 1e-8


class KernelRows:
    """All rows, ready for kernel values.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    X : ndarray or csr_matrix of shape (n, n_features)
        All rows.
    workers : Workers
        Threads.
    """

    def __init__(self, kernel: Kernel, X: Any, workers: Workers) -> None:
        self.kernel = kernel
        self.X = X
        self.workers = workers
        self.is_exact = X.shape[0] * X.shape[1] <= EXACT_COLUMNS
        self.points = kernel.prepare(X)
        self._exact = kernel.exact_columns(X) if self.is_exact else None

    def __len__(self) -> int:
        return len(self.points)

    @cached_property
    def diag(self) -> FloatArray:
        """Kernel of every row with itself."""
        return self.kernel.diag(self.points)

    def column(self, row: int) -> FloatArray:
        """Kernel between all rows and one of them."""
        if self._exact is not None:
            return self._exact(row)
        return self.block(np.array([row]), self.workers)[:, 0].astype(np.float64)

    def values(self, rows: Index, columns: Index, workers: Workers) -> FloatArray:
        """Kernel between rows and columns, as exact as that of `column`."""
        if self.is_exact:
            return self.kernel.exact(self.X[rows], self.X[columns])
        return np.asarray(self.block(columns, workers, rows), np.float64)

    def between(
        self, kernel: Kernel, rows: Index | slice, vectors: FloatArray, workers: Workers
    ) -> FloatArray:
        """A kernel that takes the same points between rows and other vectors."""
        if self.is_exact:
            return kernel.exact(self.X[rows], vectors)
        others = self.kernel.prepare(vectors, like=self.points)
        rows = np.arange(len(self))[rows]
        out = np.empty((len(rows), len(others)), np.float32)
        kernel.block(self.points, rows, others, np.arange(len(others)), out, workers)
        return out.astype(np.float64)

    def block(self, columns: Index, workers: Workers, rows: Index | None = None) -> Any:
        """Kernel between rows (all if not given) and columns, in float32."""
        rows = np.arange(len(self)) if rows is None else rows
        out = np.empty((len(rows), len(columns)), np.float32)
        self.kernel.block(self.points, rows, self.points, columns, out, workers)
        return out


class Columns:
    """Kernel values between all rows and the basis vectors, and the penalty matrix of these.

    Of each column its mean is subtracted: the bias makes up for it, and what is left has digits to
    spare. Values are held, or computed whenever they are asked for.

    Parameters
    ----------
    data : KernelRows
        The rows.
    is_ridge : bool, default=False
        Whether w and b are penalised by their squares and not by ``w' K_B w``, as in RSVM. Means are
        then left where they are.
    n_expected : int, default=8
        Basis vectors to make room for.
    is_held : bool, default=True
        Whether to hold the values.
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
        # The penalty matrix, and the root of its part for the basis.
        self._penalty: FloatArray | None = None
        self._root: FloatArray | None = None
        # Where the basis vectors are, if they are not rows.
        self._moved: FloatArray | None = None

    @property
    def means(self) -> FloatArray:
        """What was subtracted from each column; zero where the bias is penalised."""
        return np.array(self._means)

    def values(
        self, rows: Index | slice, places: Index | slice = EVERY, workers: Workers = ALONE
    ) -> FloatArray:
        """Kernel between some rows and the basis, or some places in it, less the means."""
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
        """Let the basis be these vectors from now on, as many as it has and whether rows or not.

        None can be added, exchanged or removed afterwards.
        """
        data, size = self.data, len(self.rows)
        self._moved = vectors
        sums = np.zeros(size)
        for part in self.split(len(data)):
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
        """Another kernel that takes the same points, between some rows and vectors that moved."""
        workers = self.data.workers
        if slope == self.data.kernel:
            return self.values(rows, EVERY, workers) + self.means
        return self.data.between(slope, rows, self.basis_vectors(), workers)

    def split(self, n_rows: int) -> Iterator[slice]:
        """Parts of so many rows for which to ask at a time.

        They take about as much memory as a matrix among the basis, or else little.
        """
        size = len(self.rows) + 1
        step = max(size, COPIED_VALUES // size)
        return (slice(start, start + step) for start in range(0, n_rows, step))

    def column(self, at: int) -> FloatArray:
        """Kernel between all rows and one basis vector, less the mean."""
        if self._held is not None:
            return self._held[:, at].copy()
        return self.data.column(self.rows[at]) - self._means[at]

    def multiply(self, coef: FloatArray) -> FloatArray:
        """Values of all rows times coefficients of the basis."""
        n = len(self.data)
        if self._held is not None:
            return np.asarray(self._held[:, : len(self.rows)] @ coef)
        parts = [self.values(part, EVERY, self.data.workers) @ coef for part in self.split(n)]
        return np.concatenate(parts)

    def kernel_at(self, rows: Index | list[int]) -> FloatArray:
        """Kernel between some rows and the basis, as it is."""
        return self.values(np.asarray(rows, np.intp)) + self.means

    @property
    def noise(self) -> float:
        """Relative rounding error of kernel values, beyond that of float64."""
        return 0.0 if self.data.is_exact else float(np.finfo(np.float32).eps)

    @property
    def penalty(self) -> FloatArray:
        """Penalty matrix of bias and coefficients."""
        if self._penalty is None:
            size = len(self.rows) + 1
            self._penalty = np.eye(size) if self.is_ridge else np.zeros((size, size))
            if not self.is_ridge:
                K = self.kernel_at(self.rows)
                self._penalty[1:, 1:] = 0.5 * (K + K.T)
        return self._penalty

    def distance(self, row: int, column: FloatArray, leaving: int | None = None) -> float:
        """Squared distance of a row from the span of the basis in kernel space (Eq. 48).

        ``leaving`` is the place of a basis vector that does not count.
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
        """Go back to an earlier basis."""
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
        """Put another basis vector in the place of one."""
        self._means[at] = 0.0 if self.is_ridge else float(column.mean())
        if self._held is not None:
            self._held[:, at] = column - self._means[at]
        self.rows[at] = row
        self._penalty = self._root = None

    def remove(self, at: int) -> None:
        """Take a basis vector away."""
        size = len(self.rows)
        if self._held is not None:
            self._held[:, at : size - 1] = self._held[:, at + 1 : size]
        del self.rows[at], self._means[at]
        self._penalty = self._root = None


@dataclass(frozen=True)
class Solution:
    """A machine's state.

    Attributes
    ----------
    u : ndarray of shape (n_basis + 1,)
        Bias, for columns without their means, and coefficients.
    errors : ndarray of shape (n,)
        Of all rows.
    objective : float
        J.
    """

    u: FloatArray
    errors: FloatArray
    objective: float


class Machine:
    """The SVM of one binary problem on a basis that changes.

    Parameters
    ----------
    columns : Columns
        Kernel values of the basis; other machines may share them.
    y : ndarray of shape (n,)
        -1.0 or 1.0.
    cost : ndarray of shape (n,)
        C times the weight of each row.
    """

    def __init__(self, columns: Columns, y: FloatArray, cost: FloatArray) -> None:
        self.columns = columns
        self.y = y
        self.cost = cost
        self.support = np.ones(len(y), bool)
        self.n_rebuilt = 0
        bias = float(cost @ y / cost.sum()) if not columns.is_ridge else 0.0
        self._rebuild()
        self.solution = self._evaluate(np.append(bias, np.zeros(len(columns.rows))))
        self.settle()

    @property
    def intercept(self) -> float:
        """Constant of the decision function, for kernel values as they are."""
        u = self.solution.u
        return float(u[0] - u[1:] @ self.columns.means)

    @property
    def is_separated(self) -> bool:
        """Whether every row is on its side."""
        return bool((self.solution.errors < 1.0).all())

    @property
    def factor(self) -> FloatArray:
        """Lower triangle L with ``L L' = M``, but for rounding errors."""
        scaled, scale = self._scaled()
        return np.linalg.cholesky(scaled) / scale[:, None]

    @property
    def losses(self) -> FloatArray:
        """How much J would rise if each basis vector were removed (Eq. 61)."""
        return (self.solution.u**2 / inverse_diagonal(self.factor))[1:]

    def save(self) -> tuple[Any, ...]:
        """Everything that changes, for `restore`."""
        return self._M.copy(), self._rhs.copy(), self.support.copy(), self.solution

    def restore(self, state: tuple[Any, ...]) -> None:
        """Go back to a saved state; the columns must be those of then."""
        self._M, self._rhs, self.support, self.solution = state

    def append(self) -> None:
        """Take up the basis vector that was added last; `settle` afterwards."""
        self._border(len(self.columns.rows))
        before = self.solution
        self.solution = replace(before, u=np.append(before.u, 0.0))

    def exchange(self, at: int, old_column: FloatArray) -> None:
        """Take up the basis vector that replaced one; `settle` afterwards."""
        self._border(at + 1)
        before = self.solution
        u = before.u.copy()
        errors = before.errors + self.y * u[at + 1] * old_column
        u[at + 1] = 0.0
        self.solution = self._value(u, errors)

    def remove(self, at: int, old_column: FloatArray) -> None:
        """Forget a basis vector that was removed; `settle` afterwards."""
        before = self.solution
        kept = np.arange(len(before.u)) != at + 1
        self._M = self._M[np.ix_(kept, kept)]
        self._rhs = self._rhs[kept]
        errors = before.errors + self.y * before.u[at + 1] * old_column
        self.solution = self._value(before.u[kept], errors)

    def renew(self) -> None:
        """Find the optimum for columns all of which are others now."""
        self._rebuild()
        self.solution = self._evaluate(self.solution.u)
        self.settle()

    def settle(self) -> None:
        """Find the support set that belongs to the basis, and with it the optimum (Procedure 2).

        Newton's method: the optimum for the present support set gives the next one. A step that does
        not lower J is shortened to its lowest point; when the set stays, the optimum is found.
        """
        self._follow((self.solution.errors > 0) != self.support)
        n_rebuilt = self.n_rebuilt
        for _ in range(MAX_ROUNDS):
            target = self._evaluate(self._solve())
            if target.objective > self.solution.objective:
                target = self._shorten(target)
            changed = (target.errors > 0) != self.support
            self.solution = target
            if not changed.any():
                if self._is_stationary() or self.n_rebuilt > n_rebuilt:
                    return
                # Rounding errors of many additions and removals: start from the data again.
                self._rebuild()
                continue
            self._follow(changed)

    def _border(self, at: int) -> None:
        """Put the row and column of a new basis vector at a place of M."""
        size = len(self.columns.rows) + 1
        if size > len(self._M):
            self._M = border(self._M, np.zeros(size - 1), 0.0)
            self._rhs = np.append(self._rhs, 0.0)
        line, right = self.columns.penalty[at].copy(), 0.0
        for rows, K in self._values_at(np.flatnonzero(self.support)):
            weighted = self.cost[rows] * K[:, at - 1]
            line[0] += weighted.sum()
            line[1:] += weighted @ K
            right += float(weighted @ self.y[rows])
        self._M[at, :] = self._M[:, at] = line
        self._rhs[at] = right

    def _follow(self, changed: NDArray[np.bool_]) -> None:
        """Let rows enter or leave the support set."""
        if not changed.any():
            return
        self.support ^= changed
        if 2 * np.count_nonzero(changed) > np.count_nonzero(self.support):
            self._rebuild()
            return
        signs = np.where(self.support, self.cost, -self.cost)
        self._add_rows(np.flatnonzero(changed), signs)

    def _rebuild(self) -> None:
        self.n_rebuilt += 1
        self._M = self.columns.penalty.copy()
        self._rhs = np.zeros(len(self._M))
        self._add_rows(np.flatnonzero(self.support), self.cost)

    def _add_rows(self, rows: Index, cost: FloatArray) -> None:
        """Add rows to M, at costs that are given for all rows."""
        for part, K in self._values_at(rows):
            weighted = cost[part, None] * K
            self._M[0, 0] += cost[part].sum()
            self._M[0, 1:] += weighted.sum(axis=0)
            self._M[1:, 1:] += K.T @ weighted
            signed = cost[part] * self.y[part]
            self._rhs[0] += signed.sum()
            self._rhs[1:] += K.T @ signed
        self._M[1:, 0] = self._M[0, 1:]

    def _values_at(self, rows: Index) -> Iterator[tuple[Index, FloatArray]]:
        """Some rows, part by part, and their values."""
        columns = self.columns
        for part in columns.split(len(rows)):
            yield rows[part], columns.values(rows[part], EVERY, columns.data.workers)

    def _solve(self) -> FloatArray:
        scaled, scale = self._scaled()
        # Transposed, which is the same, it is in the order that LAPACK wants.
        factors, pivots, _ = dgetrf(scaled.T, overwrite_a=True)
        u = scale * dgetrs(factors, pivots, scale * self._rhs)[0]
        # Once more for what is left: the matrix is a slightly different one.
        rest = self._rhs - self._M @ u
        return np.asarray(u + scale * dgetrs(factors, pivots, scale * rest)[0])

    def _scaled(self) -> tuple[FloatArray, FloatArray]:
        """M with a diagonal of ones, as definite as rounding errors leave it, and the scale."""
        diag = self._M.diagonal()
        # Without support vectors the bias is free.
        scale = 1.0 / np.sqrt(np.where(diag > 0, diag, 1.0))
        scaled = self._M * scale
        scaled *= scale[:, None]
        floor = np.finfo(np.float64).eps + self.columns.noise * self._penalty_share(scale)
        scaled.flat[:: len(scaled) + 1] += len(scaled) * floor
        return scaled, scale

    def _penalty_share(self, scale: FloatArray) -> FloatArray:
        return self.columns.penalty.diagonal() * np.square(scale)

    def _evaluate(self, u: FloatArray) -> Solution:
        return self._value(u, 1.0 - self.y * (self.columns.multiply(u[1:]) + u[0]))

    def _value(self, u: FloatArray, errors: FloatArray) -> Solution:
        violations = np.maximum(errors, 0.0)
        penalty = float(u @ self.columns.penalty @ u)
        return Solution(u, errors, penalty + float(self.cost @ (violations * violations)))

    def _shorten(self, target: Solution) -> Solution:
        """Lowest point between the present solution and a step's end, by bisection of the slope."""
        start = self.solution
        step, moved = target.u - start.u, target.errors - start.errors
        penalty = self.columns.penalty
        level, rise = float(step @ penalty @ start.u), float(step @ penalty @ step)
        weighted = self.cost * moved
        low, high = 0.0, 1.0
        for _ in range(60):
            middle = 0.5 * (low + high)
            slope = level + middle * rise
            slope += float(weighted @ np.maximum(start.errors + middle * moved, 0.0))
            low, high = (middle, high) if slope < 0 else (low, middle)
        return self._evaluate(start.u + low * step)

    def _is_stationary(self) -> bool:
        violations = self.cost * np.maximum(self.solution.errors, 0.0)
        pull = self.y * violations
        penalty = self.columns.penalty @ self.solution.u
        gradient, terms = penalty.copy(), np.abs(penalty)
        gradient[0] -= pull.sum()
        terms[0] += violations.sum()
        for rows, K in self._values_at(np.flatnonzero(violations)):
            gradient[1:] -= K.T @ pull[rows]
            terms[1:] += np.abs(K).T @ violations[rows]
        return bool((np.abs(gradient) <= GRADIENT_TOL * terms.max() + 1e-300).all())


def find_root(K: FloatArray) -> FloatArray:
    """Lower triangle L with ``L L' = K``."""
    return np.asarray(np.linalg.cholesky(K), np.float64)


def border(matrix: FloatArray, line: FloatArray, corner: float) -> FloatArray:
    """The matrix with another row and column, both the same."""
    size = len(matrix)
    out = np.empty((size + 1, size + 1))
    out[:size, :size] = matrix
    out[size, :size] = out[:size, size] = line
    out[size, size] = corner
    return out


def solve_lower(factor: FloatArray, right: FloatArray, *, transposed: bool = False) -> FloatArray:
    """Solution X of ``L X = right``, or of ``L' X = right``, for a lower triangle L."""
    # For BLAS, which counts along columns: X' L' = right', or X' L = right'.
    return np.asarray(dtrsm(1.0, factor.T, right.T, side=1, trans_a=transposed).T)


def inverse_diagonal(factor: FloatArray) -> FloatArray:
    """Diagonal of ``inv(L L')``."""
    inverse = solve_lower(factor, np.eye(len(factor)))
    return np.einsum("ij,ij->j", inverse, inverse)
